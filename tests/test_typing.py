"""Type information is shipped and useful: public names have their types, for a program that mypy checks strictly."""

import subprocess
import sys

import pytest


def test_the_stub_has_every_public_name(repository):
    done = subprocess.run(
        [sys.executable, repository / "packaging" / "write_stub.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (repository / "src" / "spikepool" / "py.typed").is_file()


@pytest.mark.slow
def test_a_typed_program_passes_and_a_wrong_one_does_not(repository, tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    good = (repository / "packaging" / "typed_project" / "use_spikepool.py").read_text()
    (tmp_path / "good.py").write_text(good)
    (tmp_path / "bad.py").write_text("import spikepool as sp\n\nwidth: str = sp.mean_weights(3)\nsp.no_such_name\n")
    run = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", tmp_path / "cache"]
    environment = {"MYPYPATH": str(repository / "src"), "PATH": ""}
    codes = {}
    for name in ("good", "bad"):
        done = subprocess.run(
            [*run, f"{name}.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        codes[name] = done.returncode, done.stdout
    assert codes["good"][0] == 0, codes["good"][1]
    assert "Incompatible types in assignment" in codes["bad"][1]
    assert "no_such_name" in codes["bad"][1]
