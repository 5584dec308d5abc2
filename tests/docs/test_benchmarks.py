"""Every benchmark starts without arguments, and the runner goes on after one that lacks data or fails."""

import ast
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SCRIPTS = [p for part in ("speed", "studies") for p in sorted((FOLDER / part).glob("*.py"))]


def runner():
    spec = importlib.util.spec_from_file_location("run_benchmarks", FOLDER / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_a_script_needs_no_argument(script):
    calls = [node for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Call)]
    for call in calls:
        if getattr(call.func, "attr", "") == "add_argument":
            given = {keyword.arg for keyword in call.keywords}
            assert "required" not in given
            assert call.args[0].value.startswith("-") or "nargs" in given


def test_short_runs_are_of_scripts_that_exist():
    run = runner()
    assert {*run.QUICK, *run.NOT_QUICK} <= {script.stem for script in SCRIPTS}


def test_the_runner_goes_on_and_says_what_was_left_out(tmp_path, monkeypatch, capsys):
    speed = tmp_path / "benchmarks" / "speed"
    speed.mkdir(parents=True)
    (speed / "module.py").write_text("x = 1\n")
    bodies = {"a": "raise SystemExit('needs the curves: pass --curves')", "b": "1 / 0", "c": "print('measured')"}
    for name, body in bodies.items():
        (speed / f"{name}.py").write_text(f"if __name__ == '__main__':\n    {body}\n")
    run = runner()
    monkeypatch.setattr(run, "HERE", speed.parent)
    monkeypatch.setattr("sys.argv", ["run.py", "speed", "--quick"])
    assert run.main() == 1
    last = capsys.readouterr().out.splitlines()[-3:]
    assert last[0] == "a.py: left out: needs the curves: pass --curves"
    assert last[1] == "b.py: failed: ZeroDivisionError: division by zero"
    assert last[2].startswith("c.py: ok")
