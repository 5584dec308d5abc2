"""Build wheel and sdist, look inside them, and use them as a stranger would: in clean environments.

    python packaging/check_dist.py [--constraints constraints.txt] [--python python3]

1. ``python -m build`` and ``twine check``.
2. The wheel has every data file and the marker of types; the sdist can build the same wheel.
3. A clean environment with core dependencies only: the README's code runs, no extra is there, a missing one is named,
   and a typed program passes ``mypy --strict``.
4. A clean environment with ``[all]``: every command prints its help.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ("py.typed", "reproduce/report_template.html", "explorer/assets/explorer.css", "explorer/assets/explorer.js")
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "tests/conftest.py", "docs/index.md", "Makefile")
WITHOUT_PLOT = """
import spikepool as sp
model = sp.SequenceModel(d=20, V=20, N=20, R=sp.prefix_correlation(T=3, L=2), mu=1.0)
try:
    model.predict(sp.mean_weights(3)).plot()
except sp.MissingDependencyError as error:
    print(error)
"""
EXTRAS = ("matplotlib", "typer", "dask", "zarr", "dash", "pyarrow", "jinja2")


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> str:
    """Output of a command that must succeed."""
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")} | environment
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def say(text: str) -> None:
    """One line of progress."""
    print(text, flush=True)


def build(out: Path) -> tuple[Path, Path]:
    """Wheel and sdist, checked by twine."""
    shutil.rmtree(out, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", out)  # the wheel is built from the sdist
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def look_inside(wheel: Path, sdist: Path) -> None:
    """Every file that the code reads is there, and nothing that it does not."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "src/spikepool/__init__.py").read_text(encoding="utf-8"))
    assert version is not None
    assert f"spikepool-{version.group(1)}-" in wheel.name, (wheel.name, version.group(1))
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for name in DATA:
        assert f"spikepool/{name}" in names, f"{name} is not in the wheel"
    sources = {str(p.relative_to(ROOT / "src")) for p in (ROOT / "src/spikepool").rglob("*.py")}
    assert sources <= names, sources - names
    stray = [n for n in names if not n.startswith(("spikepool/", f"spikepool-{version.group(1)}.dist-info/"))]
    assert not stray, stray
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    missing = set(IN_SDIST) - inside
    assert not missing, missing


def environment(folder: Path, python: str, requirement: str, constraints: Path | None) -> Path:
    """A clean environment with `requirement`; its python."""
    run(python, "-m", "venv", folder)
    interpreter = folder / "bin" / "python"
    options = ["-c", constraints] if constraints else []
    run(interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, requirement)
    return interpreter


def use_core(python: Path, folder: Path, constraints: Path | None) -> None:
    """The README's code, with nothing but the core."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks, "the README has no code"
    for block in blocks:
        say("  " + run(python, "-c", block, cwd=folder).strip().replace("\n", "\n  "))
    found = run(
        python, "-c", f"import importlib.util as u; print([m for m in {EXTRAS!r} if u.find_spec(m)])", cwd=folder
    )
    assert found.strip() == "[]", f"core brings extras: {found}"
    assert "'.[plot]'" in run(python, "-c", WITHOUT_PLOT, cwd=folder)
    command = [python, "-m", "spikepool", "predict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "'.[cli]'" in done.stderr, done.stderr
    options = ["-c", constraints] if constraints else []
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, "mypy")
    shutil.copytree(ROOT / "packaging" / "typed_project", folder / "typed_project")
    say("  " + run(python, "-m", "mypy", "--strict", "use_spikepool.py", cwd=folder / "typed_project").strip())
    say("  " + run(python, "use_spikepool.py", cwd=folder / "typed_project").strip().replace("\n", "\n  "))


def use_all(python: Path, folder: Path) -> None:
    """Every command's help, from a listing and not from memory."""
    listed = "from spikepool.cli.application import app; import typer; print(*typer.main.get_command(app).commands)"
    commands = run(python, "-c", listed, cwd=folder).split()
    assert {"predict", "report", "diagnose", "forecast", "fit", "apply", "spectrum"} <= set(commands), commands
    for command in commands:
        assert "Usage" in run(python, "-m", "spikepool", command, "--help", cwd=folder)
    say(f"  help of {len(commands)} commands: {' '.join(commands)}")


def main() -> None:
    """Build and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constraints", type=Path, default=None, help="pins for the clean environments")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the clean environments")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    given = parser.parse_args()
    constraints = given.constraints.resolve() if given.constraints else None
    say("building")
    wheel, sdist = build(given.out)
    look_inside(wheel, sdist)
    say(f"  {wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        say("core alone")
        use_core(environment(folder / "core", given.python, str(wheel), constraints), folder, constraints)
        say("with [all]")
        use_all(environment(folder / "all", given.python, f"{wheel}[all]", constraints), folder)
    say("ok")


if __name__ == "__main__":
    main()
