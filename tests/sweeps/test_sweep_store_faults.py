"""Damage to a store, stores that cannot be written, stores of another sweep, locked stores: in one process."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
import xarray as xr
from sweep_problem import WEIGHTS, problem, small_model

import spikepool as sp
from spikepool.sweeps import SweepSpec, open_sweep, run
from spikepool.sweeps.cells import variables
from spikepool.sweeps.lock import locked
from spikepool.sweeps.store import Store


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished store of 1 prediction cell and 2 trials, and its dataset."""
    spec = SweepSpec(small_model(), WEIGHTS, {"mu": [0.5, 2.0]}, trials=2)
    path = tmp_path_factory.mktemp("finished") / "a.zarr"
    return spec, path, run(spec, store=path, workers=0)


def cut_short(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def emptied(file):
    file.write_bytes(b"")


def one_bit_flipped(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(bytes(content))


def extended(file):
    file.write_bytes(file.read_bytes() + b"\0\0\0\0")


def zeroed(file):
    file.write_bytes(bytes(file.stat().st_size))


def deleted(file):
    file.unlink()


DAMAGES = [cut_short, emptied, one_bit_flipped, extended, zeroed, deleted]


def files_of(store):
    return sorted(file.relative_to(store) for file in store.rglob("*") if file.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damaged_file_is_noticed(finished, tmp_path, damage):
    """Each file in turn: a chunk is reported, other metadata is written again, the root's is refused."""
    spec, original, _ = finished
    store = tmp_path / "a.zarr"
    shutil.copytree(original, store)
    names = files_of(store)
    assert len(names) > 40
    cell_files = {*variables(spec), "prediction_status", "status"}
    for name in names:
        file = store / name
        content = file.read_bytes()
        damage(file)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                scan = Store.create_or_resume(store, spec).scan()
            except sp.StoreCorruptError as err:
                # the root's metadata, or an array's that still reads but as something else
                scan, refusal = None, str(err)
        if scan is None:
            assert str(file) in refusal
            assert str(name) == "zarr.json" or (file.name == "zarr.json" and damage is one_bit_flipped)
        elif name.parts[0] in cell_files and file.name != "zarr.json":
            if name.parts[0].endswith("status") and damage is deleted:
                assert len(scan.done) == 2  # the cell is simply not finished
            else:
                assert scan.damaged == [file]
                assert len(scan.done) == 2
        else:
            assert str(name) != "zarr.json"
            assert scan.damaged == []
            restored = json.loads(file.read_bytes()) if file.name == "zarr.json" else file.read_bytes()
            assert restored == (json.loads(content) if file.name == "zarr.json" else content)
            ours = [w for w in caught if issubclass(w.category, UserWarning)]  # not what others left open
            assert [str(file) in str(warning.message) for warning in ours] == [True]
        file.write_bytes(content)


@pytest.mark.slow
def test_a_store_with_much_damage_is_computed_again_to_the_same_bits(finished, tmp_path):
    spec, original, dataset = finished
    for seed in range(3):
        store = tmp_path / f"{seed}.zarr"
        shutil.copytree(original, store)
        rng = np.random.default_rng(seed)
        damageable = [name for name in files_of(store) if str(name) != "zarr.json"]
        for name in rng.choice(damageable, 12, replace=False):
            damage = rng.choice([cut_short, emptied, deleted])
            damage(store / name)
        with pytest.warns(UserWarning, match="damaged"):
            xr.testing.assert_identical(run(spec, store=store, workers=0), dataset)
        xr.testing.assert_identical(open_sweep(store), dataset)


@pytest.mark.parametrize("damage", [cut_short, one_bit_flipped, deleted])
@pytest.mark.parametrize("name", ["alignments/c/0/0/1/0", "error/c/0/0/1", "edge/c/0/0", "edge/zarr.json"])
def test_reading_results_names_the_damaged_file(finished, tmp_path, damage, name):
    _, original, _ = finished
    store = tmp_path / "a.zarr"
    shutil.copytree(original, store)
    damage(store / name)
    with pytest.raises(sp.StoreCorruptError, match=name):
        open_sweep(store)


def test_results_without_their_spec_are_not_taken_over(finished, tmp_path):
    """Without the root's metadata nothing tells a sweep's chunks from another's of the same shape."""
    spec, original, _ = finished
    store = tmp_path / "a.zarr"
    shutil.copytree(original, store)
    (store / "zarr.json").unlink()
    other = SweepSpec(spec.model, spec.weights, spec.axes, trials=2, seed=99)
    with pytest.raises(sp.StoreCorruptError, match=r"a\.zarr/zarr\.json is missing"):
        run(other, store=store, workers=0)


def test_a_store_whose_creation_was_cut_off_is_completed(finished, tmp_path):
    """A driver killed while creating a store leaves metadata without the root's, and a file not yet renamed."""
    spec, original, dataset = finished
    store = tmp_path / "a.zarr"
    for name in ("edge/zarr.json", "alignments/zarr.json", "mu/zarr.json"):
        (store / name).parent.mkdir(parents=True)
        shutil.copy(original / name, store / name)
    cut_short(store / "edge/zarr.json")
    (store / "error").mkdir()
    (store / "error" / "zarr.json.123.part").write_bytes(b"{")
    xr.testing.assert_identical(run(spec, store=store, workers=0), dataset)
    assert run(spec, store=store, workers=0).identical(dataset)
    assert not list(store.rglob("*.part"))


@pytest.mark.parametrize("damage", [cut_short, emptied, one_bit_flipped])
@pytest.mark.parametrize("status", [True, False])
def test_damage_is_computed_again_whether_its_cell_was_finished_or_not(finished, tmp_path, damage, status):
    """A driver that is killed may leave a chunk cut short, of a cell that has no status yet."""
    spec, original, dataset = finished
    store = tmp_path / "a.zarr"
    shutil.copytree(original, store)
    damage(store / "alignments/c/0/0/1/0")
    if status:
        with pytest.warns(UserWarning, match="damaged"):
            result = run(spec, store=store, workers=0)
    else:
        (store / "status/c/1").unlink()
        result = run(spec, store=store, workers=0)
    xr.testing.assert_identical(result, dataset)
    xr.testing.assert_identical(open_sweep(store), dataset)


def test_an_unfinished_store_is_not_read_as_results(finished, tmp_path):
    _, original, _ = finished
    store = tmp_path / "a.zarr"
    shutil.copytree(original, store)
    (store / "status/c/1").unlink()
    with pytest.raises(sp.SweepError, match="2 of 3 cells"):
        open_sweep(store)
    with pytest.raises(sp.SweepError, match="no sweep store"):
        open_sweep(tmp_path / "b.zarr")


# -- another sweep's store ---------------------------------------------------------------------------------


def test_a_store_of_another_spec_is_refused_with_the_difference_and_left_alone(finished):
    spec, path, dataset = finished
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    cases = {
        r"seed: 0 in the store, 1 asked for": SweepSpec(spec.model, WEIGHTS, spec.axes, trials=2, seed=1),
        r"trials: 2 in the store, 3 asked for": SweepSpec(spec.model, WEIGHTS, spec.axes, trials=3),
        r"axes\.mu: \[0\.5, 2\.0\]": SweepSpec(spec.model, WEIGHTS, {"mu": [0.5, 2.5]}, trials=2),
        r"model\.N: 80 in the store, 90": SweepSpec(small_model(N=90), WEIGHTS, spec.axes, trials=2),
        r"weights\.causal: \[": SweepSpec(spec.model, ["mean", "causal"], spec.axes, trials=2),
        r"axes\.N: absent from the store": SweepSpec(spec.model, WEIGHTS, spec.axes | {"N": [80]}, trials=2),
    }
    for difference, other in cases.items():
        with pytest.raises(sp.SpecMismatchError, match=difference):
            run(other, store=path, workers=0)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    xr.testing.assert_identical(run(spec, store=path, workers=0), dataset)


def _edit_root(store, **attributes):
    root = json.loads((store / "zarr.json").read_bytes())
    root["attributes"] |= attributes
    (store / "zarr.json").write_text(json.dumps(root))


def test_another_version_may_read_but_not_go_on(finished, tmp_path):
    spec, original, dataset = finished
    store = tmp_path / "a.zarr"
    shutil.copytree(original, store)
    _edit_root(store, version="0.0.1")
    result = run(spec, store=store, workers=0)  # finished: only read
    assert result.attrs["version"] == "0.0.1"
    xr.testing.assert_equal(result, dataset)
    (store / "status/c/1").unlink()
    with pytest.raises(sp.SpecMismatchError, match=r"begun with spikepool 0\.0\.1"):
        run(spec, store=store, workers=0)
    _edit_root(store, schema_version=99)
    with pytest.raises(sp.SpecMismatchError, match="schema version 99"):
        run(spec, store=store, workers=0)


def test_a_folder_that_is_no_store_is_refused_and_left_alone(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.tex").write_text("x")
    with pytest.raises(sp.SweepError, match=r"chapter1\.tex"):
        run(problem(), store=folder, workers=0)
    assert [file.name for file in folder.iterdir()] == ["chapter1.tex"]
    with pytest.raises(sp.StoreWriteError, match="must be a folder"):
        run(problem(), store=folder / "chapter1.tex", workers=0)
    with pytest.raises(sp.StoreWriteError, match="cannot create"):
        run(problem(), store=folder / "chapter1.tex" / "a.zarr", workers=0)
    other = tmp_path / "other.zarr"
    other.mkdir()
    (other / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    with pytest.raises(sp.StoreCorruptError, match=r"other\.zarr/zarr\.json"):
        run(problem(), store=other, workers=0)


# -- disks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("writes", [0, 5, 26, 27, 40])
def test_a_full_disk_is_a_clear_error_and_earlier_results_survive(finished, tmp_path, monkeypatch, writes):
    """The disk fills up after some files, while the store is made or later; then there is space again."""
    import zarr.storage._local as local

    from spikepool.sweeps import store as module

    spec, _, dataset = finished
    path = tmp_path / "a.zarr"
    left = [writes]

    def allowed():
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    original_put, original_replace = local._put, module.Path.write_bytes

    def put(file, value, exclusive=False):
        allowed()
        return original_put(file, value, exclusive)

    def write_bytes(file, content):
        allowed()
        return original_replace(file, content)

    with monkeypatch.context() as patch:
        patch.setattr(local, "_put", put)
        patch.setattr(module.Path, "write_bytes", write_bytes)
        with pytest.raises(sp.StoreWriteError, match="No space left on device"):
            run(spec, store=path, workers=0)
    kept = len(list(path.glob("*status/c*")))
    assert not list(path.rglob("*.part"))
    xr.testing.assert_identical(run(spec, store=path, workers=0), dataset)
    assert kept == 0 or writes > 26


def test_a_folder_without_permission(finished, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere; the read-only mount of the process tests covers this")
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with pytest.raises(sp.StoreWriteError, match="Permission denied"):
        run(finished[0], store=folder / "a.zarr", workers=0)


# -- two drivers -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_driver_is_refused_and_a_killed_one_blocks_nobody(finished, tmp_path):
    spec, _, dataset = finished
    path = tmp_path / "a.zarr"
    code = (
        "import sys, time; from pathlib import Path; from spikepool.sweeps.lock import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('locked', flush=True); time.sleep(60)"
    )
    first = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(sp.StoreLockedError, match=f"process {first.pid}"):
            run(spec, store=path, workers=0)
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
        first.stdout.close()
    xr.testing.assert_identical(run(spec, store=path, workers=0), dataset)


def test_the_lock_is_released_by_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="inside"), locked(tmp_path / "a.zarr"):
        raise RuntimeError("inside")
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "a.zarr"), pytest.raises(sp.StoreLockedError), locked(tmp_path / "a.zarr"):
        pass
