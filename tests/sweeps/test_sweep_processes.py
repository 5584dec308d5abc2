"""Faults with real processes: killed drivers, killed workers, full and read-only disks, a real Dask cluster."""

from __future__ import annotations

import ast
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import xarray as xr
from sweep_problem import problem

import spikepool as sp
from spikepool.sweeps import open_sweep, run

DRIVER = Path(__file__).with_name("sweep_problem.py")
PATIENCE = 120  # seconds before a wait is given up


def start_driver(store, *options):
    return subprocess.Popen([sys.executable, str(DRIVER), str(store), *options], stderr=subprocess.PIPE, text=True)


def finish(driver):
    """Wait for a driver and return (exit code, what it said)."""
    _, said = driver.communicate(timeout=PATIENCE)
    return driver.returncode, said


def finished_files(store, name):
    """Files of a store's array that are whole: what a killed process was writing still has the ending .part."""
    return [file for file in store.glob(f"{name}/c/**/*") if file.is_file() and file.suffix != ".part"]


def finished_cells(store):
    return sum(len(finished_files(store, name)) for name in ("prediction_status", "status"))


def wait_until(condition, *, driver=None):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if driver is not None and driver.poll() is not None:
            pytest.fail(f"the driver ended early: {driver.stderr.read()}")
        if time.monotonic() > deadline:
            pytest.fail("waited too long")
        time.sleep(0.02)


def kill(driver):
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    driver.stderr.close()


# -- drivers -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "moments"), [("0", [-1, 0, 40]), ("2", [40])])
def test_a_driver_killed_at_several_moments_loses_nothing_but_the_cell_in_hand(tmp_path, reference, workers, moments):
    """Moments are numbers of finished cells; −1 as soon as the store's folder exists, 0 as soon as it is made."""
    store = tmp_path / "a.zarr"
    total = 82
    before = 0
    for moment in moments:
        driver = start_driver(store, "--workers", workers)
        wait_until((store if moment < 0 else store / "zarr.json").exists, driver=driver)
        wait_until(lambda moment=moment: finished_cells(store) >= moment, driver=driver)
        helpers = psutil.Process(driver.pid).children(recursive=True)
        kill(driver)
        _, alive = psutil.wait_procs(helpers, timeout=PATIENCE)
        assert not alive  # workers do not outlive their driver
        assert before <= finished_cells(store) < total
        before = finished_cells(store)
    assert before >= 40
    done = {file: file.stat().st_mtime_ns for file in finished_files(store, "status")}
    xr.testing.assert_identical(run(problem(), store=store, workers=0), reference)
    assert {file: file.stat().st_mtime_ns for file in done} == done  # finished cells were skipped
    assert not list(store.rglob("*.part"))


@pytest.mark.slow
def test_two_drivers_on_one_store(tmp_path, reference):
    store = tmp_path / "a.zarr"
    first = start_driver(store, "--workers", "0")
    wait_until(lambda: finished_cells(store) >= 1, driver=first)
    first.send_signal(signal.SIGSTOP)  # so that it cannot finish first
    with pytest.raises(sp.StoreLockedError, match=f"process {first.pid}"):
        run(problem(), store=store, workers=0)
    first.send_signal(signal.SIGCONT)
    assert finish(first) == (0, "")
    xr.testing.assert_identical(open_sweep(store), reference)


# -- workers -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_three_workers_give_the_dataset_of_none(reference):
    xr.testing.assert_identical(run(problem(), workers=3), reference)


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path, reference):
    store = tmp_path / "a.zarr"
    driver = start_driver(store, "--workers", "2")
    wait_until(lambda: finished_cells(store) >= 5, driver=driver)
    me = psutil.Process(driver.pid)
    workers = [process for process in me.children() if "spawn_main" in " ".join(process.cmdline())]
    assert len(workers) == 2
    listening = {
        connection.laddr.ip
        for process in [me, *workers]
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    workers[0].kill()
    assert listening == {"127.0.0.1"}  # nothing can be reached from another machine
    code, said = finish(driver)
    assert code == 0, said
    xr.testing.assert_identical(open_sweep(store), reference)


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_is_given_up_and_the_rest_goes_on(reference):
    import dask
    from distributed import Client, LocalCluster, WorkerPlugin

    class Deadly(WorkerPlugin):
        """Makes one cell fatal; set up again in every worker that replaces a dead one."""

        def setup(self, worker):
            import os

            from spikepool.sweeps import cells as module

            compute = module.compute
            module.compute = lambda spec, cell: (
                os._exit(1) if (cell.index, cell.trial) == ((1,), 3) else compute(spec, cell)
            )

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        LocalCluster(**options) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Deadly())
        with pytest.warns(UserWarning, match="KilledWorker"):
            ds = run(problem(), scheduler=client)
    bad = ds.isel(V=1, trial=3)
    assert bad.error.str.startswith("KilledWorker").all()
    assert bad.alignments.isnull().all()
    good = (ds.error == "").all("weights").all("mu")
    assert int(good.sum()) == 79
    xr.testing.assert_identical(ds.alignments.where(good), reference.alignments.where(good))


@pytest.mark.slow
def test_a_long_sweep_moves_to_other_processes_by_itself(reference, monkeypatch):
    from spikepool.sweeps import cluster, executors

    started = []
    local = cluster.local
    monkeypatch.setattr(cluster, "local", lambda workers: started.append(workers) or local(workers))
    monkeypatch.setattr(cluster, "default_workers", lambda: 2)
    monkeypatch.setattr(executors, "STARTUP_SECONDS", 1e9)
    xr.testing.assert_identical(run(problem()), reference)
    assert started == []
    monkeypatch.setattr(executors, "STARTUP_SECONDS", 0.0)
    xr.testing.assert_identical(run(problem()), reference)
    assert started == [2]


@pytest.fixture
def dask_cluster(tmp_path):
    """A real ``dask scheduler`` and two ``dask worker`` processes on the loopback interface; its address."""
    environment = os.environ | {"DASK_TEMPORARY_DIRECTORY": str(tmp_path / "scratch")}
    log = (tmp_path / "dask.log").open("w+")
    common = {"stdout": log, "stderr": subprocess.STDOUT, "env": environment, "cwd": tmp_path}
    dask = [sys.executable, "-m", "dask"]
    processes = []
    try:
        processes.append(
            subprocess.Popen([*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"], **common)
        )
        pattern = re.compile(r"Scheduler at:\s*(tcp://127\.0\.0\.1:\d+)")
        wait_until(lambda: pattern.search(Path(log.name).read_text()))
        address = pattern.search(Path(log.name).read_text()).group(1)
        for _ in range(2):
            options = ["--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny"]
            processes.append(subprocess.Popen([*dask, "worker", address, *options], **common))
        yield address, processes
    finally:
        for process in reversed(processes):
            for child in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            process.kill()
            process.wait()
        log.close()


@pytest.mark.slow
def test_a_real_dask_cluster_gives_the_same_dataset(tmp_path, reference, dask_cluster):
    address, processes = dask_cluster
    whole = sp.sweeps.run(problem(), store=tmp_path / "a.zarr", scheduler=address)
    xr.testing.assert_identical(whole, reference)

    # again, with one of its two workers killed in mid-sweep
    store = tmp_path / "b.zarr"
    driver = start_driver(store, "--scheduler", address)
    wait_until(lambda: finished_cells(store) >= 5, driver=driver)
    processes[2].kill()
    code, said = finish(driver)
    assert code == 0, said
    xr.testing.assert_identical(open_sweep(store), reference)

    # and with the scheduler itself killed: an error, not a hang, and nothing is lost
    store = tmp_path / "c.zarr"
    driver = start_driver(store, "--scheduler", address)
    wait_until(lambda: finished_cells(store) >= 5, driver=driver)
    processes[0].kill()
    code, said = finish(driver)
    assert code == 1
    assert "SweepError" in said
    xr.testing.assert_identical(run(problem(), store=store, workers=0), reference)


@pytest.mark.slow
def test_a_scheduler_that_does_not_answer_is_an_error():
    from spikepool.sweeps import cluster

    with (
        pytest.raises(sp.SweepError, match="no Dask scheduler answers"),
        cluster.remote("tcp://127.0.0.1:9", connect_seconds=1),
    ):
        pass


@pytest.mark.slow
def test_a_client_can_be_given(reference):
    """Two threads of one process: their cells share a BLAS, and still give the same bits."""
    from distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0") as client:
        xr.testing.assert_identical(run(problem(), scheduler=client), reference)
        assert client.status == "running"


# -- disks -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of `size` bytes, or a skipped test where one cannot be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        made = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no mount command")
    if made.returncode:
        pytest.skip(f"may not mount a small file system: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_full_disk(tmp_path, reference, workers):
    disk = tmp_path / "disk"
    with small_disk(disk, 500 * 1024):
        store = disk / "a.zarr"
        with pytest.raises(sp.StoreWriteError, match="No space left on device"):
            run(problem(), store=store, workers=workers)
        kept = finished_cells(store)
        assert kept > 10
        shutil.copytree(store, tmp_path / "b.zarr")  # a bigger disk
    done = {file: file.read_bytes() for file in (tmp_path / "b.zarr").glob("alignments/c/*/*/*/*/0")}
    xr.testing.assert_identical(run(problem(), store=tmp_path / "b.zarr", workers=0), reference)
    assert len(done) >= kept - 2
    assert all(file.read_bytes() == content for file, content in done.items())


@pytest.mark.slow
def test_a_read_only_disk(tmp_path, reference):
    disk = tmp_path / "disk"
    with small_disk(disk, 2 * 1024 * 1024):
        store = disk / "a.zarr"
        run(problem(), store=store, workers=0)
        (store / "status/c/0/0").unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(sp.StoreWriteError, match="Read-only file system"):
            run(problem(), store=store, workers=0)
        with pytest.raises(sp.SweepError, match="81 of 82 cells"):
            open_sweep(store)
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        run(problem(), store=store, workers=0)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        xr.testing.assert_identical(open_sweep(store), reference)


@pytest.mark.slow
def test_a_script_without_a_main_guard_runs_once(tmp_path):
    """Workers must not import the caller's script: it would start the sweep again in each of them."""
    script = tmp_path / "script.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(DRIVER.parent)!r})\n"
        "from sweep_problem import problem\n"
        "from spikepool.sweeps import run\n"
        "print('start', flush=True)\n"
        "ds = run(problem(trials=2), workers=2)\n"
        "print(ds.sizes['trial'], __file__.endswith('script.py'))\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE)
    assert result.stdout.split() == ["start", "2", "True"], result.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="drivers are forked")
def test_drivers_that_race_and_are_killed_lose_nothing():
    """Twelve kills at random moments, over sweeps of every model; the script says what is checked after each."""
    script = Path(__file__).with_name("sweep_kills.py")
    result = subprocess.run([sys.executable, str(script), "12", "1"], capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr
    counts = ast.literal_eval(result.stdout.splitlines()[-1])
    assert counts["kills"] >= 12
    assert counts["in mid-work"] > 0
