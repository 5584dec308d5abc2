"""Sweeps in object storage: an S3 server on the loopback interface, drivers and workers killed, leases."""

from __future__ import annotations

import json
import random
import threading
import time
import uuid

import psutil
import pytest
import xarray as xr
from sweep_problem import problem
from test_sweep_processes import finish, kill, start_driver, wait_until

import spikepool as sp
from s3_server import BUCKET, file_system, forget_connections, s3_server
from spikepool.sweeps import lease, open_results, run
from spikepool.sweeps.folders import RemoteFolder

TRIALS = 16


@pytest.fixture(scope="module")
def s3():
    pytest.importorskip("moto")
    with s3_server() as settings:
        yield settings


@pytest.fixture(scope="module")
def local():
    """The dataset of an uninterrupted run on a disk."""
    return run(problem(TRIALS), workers=0)


@pytest.fixture
def url():
    return f"s3://{BUCKET}/{uuid.uuid4().hex}/a.zarr"


@pytest.fixture
def memory():
    return f"memory://{uuid.uuid4().hex}/a.zarr"


def claims(url):
    return file_system().find(f"{url.removeprefix('s3://')}.lease")


def statuses(url):
    found = file_system().find(url.removeprefix("s3://"))
    return [path for path in found if "status/c" in path]


# -- kills -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_three_killed_drivers_and_a_killed_worker_leave_the_dataset_of_a_local_run(s3, url, local):
    rng = random.Random(0)
    finished = 0
    for _ in range(3):
        driver = start_driver(url, "--trials", str(TRIALS), "--workers", "0")
        wait_until(lambda: claims(url), driver=driver)
        time.sleep(rng.uniform(0, 0.5))
        if driver.poll() is None:
            kill(driver)
        else:
            assert finish(driver) == (0, "")  # it was faster than the kill
        assert len(statuses(url)) >= finished  # what was done is kept
        finished = len(statuses(url))
    driver = start_driver(url, "--trials", str(TRIALS), "--workers", "2")
    wait_until(lambda: len(statuses(url)) > finished, driver=driver)
    workers = [p for p in psutil.Process(driver.pid).children() if "spawn_main" in " ".join(p.cmdline())]
    assert len(workers) == 2
    workers[0].kill()
    code, said = finish(driver)
    assert code == 0, said
    xr.testing.assert_identical(open_results(url), local)
    assert claims(url) == []


# -- leases ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_second_driver_is_refused(s3, url):
    with lease.leased(RemoteFolder(url), 30):
        with pytest.raises(sp.StoreLockedError, match=r"process \d+ on .*lease ends in \d+ seconds"):
            run(problem(1), store=url, workers=0)
        assert len(claims(url)) == 1
        assert file_system().find(url.removeprefix("s3://")) == []  # nothing was written
    run(problem(1), store=url, workers=0)


@pytest.mark.slow
def test_an_expired_lease_is_taken_over(s3, url):
    """A driver on another machine that died: nothing tells but the age of its claim."""
    claim = {"host": "elsewhere", "process": 1, "identity": None, "seconds": 2, "held": True}
    file_system().pipe_file(f"{url.removeprefix('s3://')}.lease/0.json", json.dumps(claim).encode())
    with pytest.raises(sp.StoreLockedError, match="process 1 on elsewhere"):
        run(problem(1), store=url, workers=0)
    time.sleep(3.2)  # S3 tells whole seconds
    run(problem(1), store=url, workers=0)
    assert claims(url) == []


@pytest.mark.slow
def test_a_lease_that_was_taken_over_stops_its_owner(memory):
    folder = RemoteFolder(memory)
    with lease.leased(folder, 0.4) as still_ours:
        time.sleep(1.2)
        still_ours()  # renewed all the while
        with pytest.raises(sp.StoreLockedError, match="another driver"), lease.leased(folder, 0.4):
            pass
        for name in folder.sibling(".lease").names():
            folder.sibling(".lease").remove(name)
        time.sleep(0.4)
        with pytest.raises(sp.StoreLockedError, match="taken it over"):
            still_ours()


def test_a_stalled_owner_does_not_renew_what_has_run_out(memory):
    owner = lease._Lease(RemoteFolder(memory), 0.2)
    owner.acquire()
    owner._renewed -= 60  # as after the sleep of a laptop
    owner.renew_until_released()
    with pytest.raises(sp.StoreLockedError, match="could not be renewed"):
        owner.check()


def test_of_many_drivers_at_once_one_holds_the_lease(memory, monkeypatch):
    monkeypatch.setattr(lease, "_LONGEST_BACKOFF", 0.12)
    holding, most, wins = [], [], []

    def contend(number):
        for _ in range(6):
            try:
                with lease.leased(RemoteFolder(memory), 30):
                    holding.append(number)
                    most.append(len(holding))
                    wins.append(number)
                    time.sleep(0.01)
                    holding.remove(number)
            except sp.StoreLockedError:
                time.sleep(0.01)

    threads = [threading.Thread(target=contend, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(wins) >= 2


def test_a_claim_of_a_process_that_is_gone_is_void_and_of_a_namesake_too():
    import os

    mine = lease.process_identity(os.getpid())
    if mine is None:
        pytest.skip("this system does not tell processes apart")
    alive = {"process": os.getpid(), "identity": mine}
    assert not lease._is_dead(alive)
    earlier = {"process": os.getpid(), "identity": mine.rsplit("/", 1)[0] + "/1"}  # same number, another start
    assert lease._is_dead(earlier)
    elsewhere = {"process": 1, "identity": "another-boot/pid:[1]/1/1"}
    assert not lease._is_dead(elsewhere)
    assert not lease._is_dead({"process": 1, "identity": None})


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_a_store_in_memory_resumes_and_notices_damage(memory):
    import fsspec

    spec = problem(2)
    first = run(spec, store=memory, workers=0)
    fs = fsspec.filesystem("memory")
    path = memory.removeprefix("memory:/")
    fs.rm_file(f"{path}/status/c/0/1")
    fs.pipe_file(f"{path}/alignments/c/0/0/0/0/0", b"damaged")
    with pytest.raises(sp.StoreCorruptError, match="alignments/c/0/0/0/0/0"):
        open_results(memory)
    with pytest.warns(UserWarning, match="damaged"):
        xr.testing.assert_identical(run(spec, store=memory, workers=0), first)
    with pytest.raises(sp.SpecMismatchError, match="trials: 2 in the store, 3"):
        run(problem(3), store=memory, workers=0)


def test_a_bucket_that_does_not_exist(s3):
    with pytest.raises(sp.MissingSourceError, match="bucket of s3://no-such-bucket"):
        run(problem(1), store="s3://no-such-bucket/a.zarr", workers=0)
    with pytest.raises(sp.MissingSourceError, match="bucket"):
        open_results("s3://no-such-bucket/a.zarr")
    with pytest.raises(sp.SweepError, match="no sweep store"):
        open_results(f"s3://{BUCKET}/nothing/a.zarr")


def test_missing_credentials(s3, url, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    forget_connections()
    try:
        with pytest.raises(sp.CredentialsError, match="AWS_ACCESS_KEY_ID"):
            run(problem(1), store=url, workers=0)
    finally:
        forget_connections()


def test_a_protocol_that_nothing_speaks():
    with pytest.raises(sp.InvalidInputError, match="nonsense"):
        run(problem(1), store="nonsense://a.zarr", workers=0)
    with pytest.raises(sp.InvalidInputError, match="lease"):
        run(problem(1), store="memory://a.zarr", lease=0)
