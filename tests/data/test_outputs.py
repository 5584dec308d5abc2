"""What outputs may do to files that exist: nothing, unless they replace them completely and were asked to."""

import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import spikepool as sp
from spikepool.data.targets import refuse_overlap
from spikepool.drawing.plotting import new_figure, write_figure
from spikepool.errors import InvalidInputError, NonFiniteError, SpikepoolError
from spikepool.kit.files import write_text

zarr = pytest.importorskip("zarr")
pytest.importorskip("pyarrow")

X = np.random.default_rng(0).normal(size=(60, 4, 8)).astype(np.float32)
BAD = X.copy()
BAD[-1, 0, 0] = np.nan
POOLING = sp.SpectralPooling("mean").fit(X)
ENDINGS = ("npy", "parquet", "zarr")


def snapshot(folder):
    """Every file below a folder with its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


def folders(folder):
    return {str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_dir()}


def old_target(folder, kind, ending):
    """An existing target of every kind."""
    target = folder / f"out.{ending}"
    if kind == "features":
        sp.write_pooled(POOLING, X[:5], target)
    elif kind == "foreign folder":
        target.mkdir()
        (target / "thesis.txt").write_text("four years of work")
    elif kind == "empty folder":
        target.mkdir()
    elif kind == "group":
        zarr.open_group(str(target), mode="w").create_array("study", data=X[0])
    elif kind == "link":
        sp.write_pooled(POOLING, X[:5], folder / f"link.{ending}")
        target.symlink_to(folder / f"link.{ending}")
    return target


class Interrupted:
    """A fitted estimator that is interrupted in its last rows."""

    n_features_out_, decision_ = 8, "mean"

    def __init__(self, how):
        self.how, self.form = how, None

    def _source(self, X, mask):
        return POOLING._source(X, mask)

    def _pool_block(self, block, start):
        self.how()
        return POOLING._pool_block(block, start)


def ctrl_c():
    raise KeyboardInterrupt


def full():
    raise OSError(28, "No space left on device")


FAULTS = {
    "NaN in the last row": (lambda out, **o: sp.write_pooled(POOLING, BAD_FILE, out, **o), NonFiniteError),
    "Ctrl-C": (lambda out, **o: sp.write_pooled(Interrupted(ctrl_c), X, out, **o), KeyboardInterrupt),
    "full disk": (lambda out, **o: sp.write_pooled(Interrupted(full), X, out, **o), SpikepoolError),
}


@pytest.fixture(scope="module", autouse=True)
def bad_file(tmp_path_factory):
    global BAD_FILE
    BAD_FILE = tmp_path_factory.mktemp("bad") / "bad.npy"
    np.save(BAD_FILE, BAD)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["nothing", "features", "foreign folder", "empty folder", "group", "link"])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_write_changes_nothing(fault, overwrite, kind, ending, tmp_path):
    write, expected = FAULTS[fault]
    target = old_target(tmp_path, kind, ending)
    (tmp_path / "other.txt").write_text("mine")
    before = snapshot(tmp_path), folders(tmp_path)
    with pytest.raises((expected, InvalidInputError)):
        write(target, overwrite=overwrite)
    assert (snapshot(tmp_path), folders(tmp_path)) == before


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_killed_process_leaves_the_old_target(ending, tmp_path):
    target = old_target(tmp_path, "features", ending)
    before = snapshot(tmp_path)
    code = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import spikepool as sp, test_outputs as t
def kill(): os.kill(os.getpid(), signal.SIGKILL)
sp.write_pooled(t.Interrupted(kill), t.X, {str(target)!r}, overwrite=True)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    after = snapshot(tmp_path)
    assert {name: after[name] for name in before} == before
    assert all(".part" in name for name in set(after) - set(before))


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_command_that_is_asked_to_end_cleans_up(name, ending, tmp_path):
    target = old_target(tmp_path, "features", ending)
    np.save(tmp_path / "x.npy", X)
    before = snapshot(tmp_path), folders(tmp_path)
    code = f"""
import os, signal
from spikepool.cli import main
from spikepool.pooling.spectral import SpectralPooling
if signal.getsignal(signal.{name}) is signal.SIG_IGN: signal.signal(signal.{name}, signal.SIG_DFL)  # as under nohup
def end(*_): os.kill(os.getpid(), signal.{name})
SpectralPooling._pool_block = end
main(["pool", {str(tmp_path / "x.npy")!r}, "--out", {str(target)!r}, "--pooling", "mean", "--overwrite"])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 128 + getattr(signal, name), done.stderr
    assert (snapshot(tmp_path), folders(tmp_path)) == before


@pytest.mark.parametrize("ending", ENDINGS)
def test_existing_features_are_replaced_only_when_asked(ending, tmp_path):
    target = old_target(tmp_path, "features", ending)
    before = snapshot(tmp_path)
    with pytest.raises(InvalidInputError, match="overwrite"):
        sp.write_pooled(POOLING, X, target)
    assert snapshot(tmp_path) == before
    sp.write_pooled(POOLING, X, target, overwrite=True)
    assert sp.open_blocks(target).shape == (60, 8)
    assert [p.name for p in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("kind", ["foreign folder", "group"])
def test_folders_of_others_are_never_replaced(kind, tmp_path):
    target = old_target(tmp_path, kind, "zarr")
    before = snapshot(tmp_path)
    with pytest.raises(InvalidInputError, match="not one Zarr array"):
        sp.write_pooled(POOLING, X, target, overwrite=True)
    assert snapshot(tmp_path) == before


def test_a_link_stays_a_link(tmp_path):
    target = old_target(tmp_path, "link", "npy")
    sp.write_pooled(POOLING, X, target, overwrite=True)
    assert target.is_symlink()
    assert np.load(tmp_path / "link.npy").shape == (60, 8)


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A disk of 256 KiB, where it may be mounted."""
    folder = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=False)


BIG = np.random.default_rng(1).normal(size=(6000, 1, 16)).astype(np.float32)


def draw(path):
    figure, axes = new_figure(1, 1)
    axes[0, 0].plot(np.random.default_rng(0).normal(size=20000))
    write_figure(figure, path, path.suffix[1:])


@cache
def large_model():
    """A fitted model of several hundred kilobytes."""
    rng = np.random.default_rng(2)
    return sp.LearnedPoolingClassifier(pooling="flat").fit(rng.normal(size=(120, 4, 400)), np.arange(120) % 60)


DISK_WRITERS = {
    "out.npy": lambda path: sp.write_pooled(POOLING_BIG, BIG, path, overwrite=True),
    "out.parquet": lambda path: sp.write_pooled(POOLING_BIG, BIG, path, overwrite=True),
    "out.zarr": lambda path: sp.write_pooled(POOLING_BIG, BIG, path, overwrite=True),
    "out.html": lambda path: write_text(path, "x" * 300_000),
    "out.svg": draw,
    "model": lambda path: large_model().save(path, overwrite=True),
    "out.onnx": lambda path: large_model().to_onnx(path, overwrite=True),
}
POOLING_BIG = sp.SpectralPooling("mean").fit(BIG)


@pytest.mark.slow
@pytest.mark.parametrize("name", DISK_WRITERS)
@pytest.mark.parametrize("fault", ["full", "read-only"])
def test_a_full_or_read_only_disk_keeps_the_old_target(name, fault, small_disk):
    target = small_disk / name
    if name.endswith(("html", "svg")):
        target.write_text("old")
    elif name.endswith("onnx"):
        sp.LearnedPoolingClassifier(pooling="mean").fit(X, np.arange(60) % 2).to_onnx(target)
    elif name == "model":
        sp.LearnedPoolingClassifier(pooling="mean").fit(X, np.arange(60) % 2).save(target)
    else:
        sp.write_pooled(POOLING, X[:5], target)
    before = snapshot(small_disk)
    if fault == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        with pytest.raises(SpikepoolError, match=r"disk is full|read-only"):
            DISK_WRITERS[name](target)
        assert snapshot(small_disk) == before
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        subprocess.run(["rm", "-r", str(target)], check=True)


def spellings(folder):
    """The same file or store under other names, and places above and inside it."""
    np.save(folder / "x.npy", X)
    zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(20, 4, 8), dtype="f4")[:] = X
    (folder / "here").symlink_to(folder)
    os.link(folder / "x.npy", folder / "hard.npy")
    (folder / "link.zarr").symlink_to(folder / "x.zarr")
    (folder / "up.zarr").mkdir()
    zarr.create_array(str(folder / "up.zarr" / "a"), shape=X.shape, dtype="f4")[:] = X
    return [
        ("x.npy", "x.npy"),
        ("x.npy", "here/x.npy"),
        ("x.npy", "up.zarr/.././here/x.npy"),
        ("x.npy", "hard.npy"),
        ("x.zarr", "x.zarr"),
        ("x.zarr", "link.zarr"),
        ("x.zarr", "x.zarr/pooled.npy"),
        ("x.zarr", "x.zarr/c/pooled.zarr"),
        ("up.zarr/a", "up.zarr"),
    ]


def test_an_output_that_is_an_input_is_refused(tmp_path, monkeypatch):
    cases = spellings(tmp_path)
    before = snapshot(tmp_path)
    for source, out in cases:
        for given in (tmp_path / source, f"file://{tmp_path / source}"):
            with pytest.raises(InvalidInputError, match="the output is"):
                sp.write_pooled(POOLING, given, tmp_path / out, overwrite=True)
    monkeypatch.chdir(tmp_path)
    inputs = [np.load("x.npy", mmap_mode="r"), np.load("x.npy", mmap_mode="r")[3:], sp.open_blocks("x.npy")]
    for given in inputs:
        with pytest.raises(InvalidInputError, match="the output is"):
            sp.write_pooled(POOLING, given, "x.npy", overwrite=True)
    for given in [zarr.open("x.zarr", mode="r"), sp.open_blocks("x.zarr")]:
        with pytest.raises(InvalidInputError, match="the output is"):
            sp.write_pooled(POOLING, given, "x.zarr", overwrite=True)
    assert snapshot(tmp_path) == before


def test_places_of_object_storage_are_compared_by_their_parts():
    for source, out in [
        ("s3://b/x.zarr", "s3://b//x.zarr/"),
        ("gcs://b/x", "gs://b/x/y.zarr"),
        ("s3://b/a/x", "s3://b/a"),
    ]:
        with pytest.raises(InvalidInputError):
            refuse_overlap(out, [source])
    refuse_overlap("s3://b/x.zarr", ["s3://b/x.zarr2", "gs://b/x.zarr", "owner/name"])


def test_pages_may_lie_beside_a_model_but_not_in_a_store(tmp_path):
    spellings(tmp_path)
    refuse_overlap(tmp_path / "page.html", [tmp_path], store=False)
    with pytest.raises(InvalidInputError, match="inside"):
        refuse_overlap(tmp_path / "x.zarr" / "page.html", [tmp_path / "x.zarr"], store=False)


@pytest.mark.slow
def test_a_copy_on_write_map_keeps_its_changes(tmp_path):
    E = np.random.default_rng(0).normal(size=(4000, 64)).astype(np.float32)
    np.save(tmp_path / "e.npy", E)
    for read in (
        lambda m: sp.TableSpectrum(null_draws=0).fit(m),
        lambda m: sp.compare_tables(m, E),
        lambda m: sp.diagnose(m - m.mean(axis=0)),
        lambda m: sp.SpectralPooling(n_positions=2).fit(m),
    ):
        mapped = np.load(tmp_path / "e.npy", mmap_mode="c")
        mapped += 31.5
        read(mapped)
        np.testing.assert_allclose(mapped, E + np.float32(31.5))
