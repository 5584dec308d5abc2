"""Files and folders appear complete or not at all."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from spikepool.errors import DataSourceError, InvalidInputError, SpikepoolError
from spikepool.kit import files
from spikepool.kit.bounded_reading import read_file
from spikepool.kit.files import making_parents, publishing, write_text


def test_a_file_is_replaced_when_it_is_complete(tmp_path):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    os.chmod(target, 0o640)
    with publishing(target, overwrite=True) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    with pytest.raises(KeyboardInterrupt), publishing(target, overwrite=True):
        raise KeyboardInterrupt
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_is_exchanged_when_it_is_complete(tmp_path):
    target = tmp_path / "a"
    for content in ("first", "second"):
        with publishing(target, overwrite=True, folder=True) as temporary:
            (temporary / "x").write_text(content)
        assert (target / "x").read_text() == content
        assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(SpikepoolError, match="disk is full"), publishing(target, overwrite=True, folder=True):
        raise OSError(28, "No space left on device")
    assert (target / "x").read_text() == "second"
    assert os.listdir(tmp_path) == ["a"]


def test_a_private_file_stays_private_while_it_is_written(tmp_path):
    target, folder = tmp_path / "a.txt", tmp_path / "b"
    write_text(target, "old")
    folder.mkdir()
    for path, mode in ((target, 0o600), (folder, 0o700)):
        os.chmod(path, mode)
    with publishing(target, overwrite=True) as temporary:
        temporary.write_text("new")
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    with publishing(folder, overwrite=True, folder=True) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, folder)] == [0o600, 0o700]
    os.chmod(target, 0o444)
    write_text(target, "newer", overwrite=True)
    assert stat.S_IMODE(target.stat().st_mode) == 0o444


def test_names_and_content_reach_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda place: synced.append(os.readlink(f"/proc/self/fd/{place}")))
    write_text(tmp_path / "a.txt", "x")
    assert str(tmp_path) == synced[-1]
    assert len(synced) == 2
    with publishing(tmp_path / "b", folder=True) as temporary:
        (temporary / "c").mkdir()
        (temporary / "c" / "x").write_text("x")
    assert {Path(place).name for place in synced[2:-1]} == {"x", "c", temporary.name}
    assert str(tmp_path) == synced[-1]


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_folders_are_exchanged_on_every_system(system, tmp_path, monkeypatch):
    import ctypes

    calls = []

    class Library:
        def __init__(self, name, use_errno):
            if sys.platform == "win32":
                raise TypeError("bad argument type for built-in operation")

        def renameat2(self, _h, first, _i, second, flag):
            return self.renamex_np(first, second, {1: 4, 2: 2}[flag])

        def renamex_np(self, first, second, flag):
            calls.append(flag)
            if flag == 4:
                os.rename(first, second)
                return 0
            os.rename(first, first + b".x")
            os.rename(second, first)
            os.rename(first + b".x", second)
            return 0

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    test_a_folder_is_exchanged_when_it_is_complete(tmp_path)
    assert calls == ([] if system == "win32" else [4, 2])


def test_only_regular_files_within_the_bound_are_read(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 100)
    assert read_file(tmp_path / "a", 100) == b"x" * 100
    (tmp_path / "link").symlink_to("a")
    assert read_file(tmp_path / "link", 100) == b"x" * 100
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as stream:
        stream.truncate(20 * 2**30)
    for path, most, message in (
        (tmp_path / "a", 99, "more than"),
        (tmp_path / "sparse", 2**20, "more than"),
        (tmp_path / "pipe", 100, "not a regular file"),
        (tmp_path, 100, "not a regular file"),
        ("/dev/zero", 100, "not a regular file"),
        ("/proc/self/status", 10, "more than"),  # its size is said to be 0
        (tmp_path / "nowhere", 100, "cannot read"),
    ):
        with pytest.raises(DataSourceError, match=message):
            read_file(path, most)


def test_exchange_without_the_kernel(tmp_path, monkeypatch):
    import ctypes

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    test_a_folder_is_exchanged_when_it_is_complete(tmp_path)  # asserts the same without the system call
    assert os.listdir(tmp_path) == ["a"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidInputError, match="regular file"):
        write_text(tmp_path / "folder", "x")
    with pytest.raises(SpikepoolError, match="cannot write"):
        write_text(tmp_path / "absent" / "a.txt", "x")


def test_parents_are_removed_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="no"), making_parents(tmp_path / "a" / "b" / "c.txt"):
        raise ValueError("no")
    assert not (tmp_path / "a").exists()
    with making_parents(tmp_path / "a" / "b" / "c.txt"):
        pass
    assert (tmp_path / "a" / "b").is_dir()


WITHOUT = {"as it is": (), "without links": ("link",), "without flags": ("flags",), "with neither": ("link", "flags")}


def lack(monkeypatch, what):
    """Take hard links, or renames with flags, away from the system."""
    if "link" in what:

        def no_link(*_):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", no_link)
    if "flags" in what:
        monkeypatch.setattr(files, "_renamed", lambda *_: False)


def write_while(target, theirs, *, overwrite, folder):
    """Write a file or folder, and run the command `theirs` in another process before it appears."""
    with publishing(target, overwrite=overwrite, folder=folder) as temporary:
        (temporary / "ours" if folder else temporary).write_text("ours")
        subprocess.run(["sh", "-c", theirs], check=True)


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("without", WITHOUT)
def test_what_another_process_puts_there_is_never_replaced(tmp_path, monkeypatch, folder, overwrite, without):
    lack(monkeypatch, WITHOUT[without])
    target = tmp_path / "out"
    theirs = f"mkdir {target} && echo precious > {target}/theirs" if folder else f"echo precious > {target}"
    with pytest.raises(InvalidInputError, match="was not replaced"):
        write_while(target, theirs, overwrite=overwrite, folder=folder)
    assert (target / "theirs" if folder else target).read_text() == "precious\n"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("without", WITHOUT)
def test_only_what_was_there_at_first_is_overwritten(tmp_path, monkeypatch, folder, without):
    lack(monkeypatch, WITHOUT[without])
    target = tmp_path / "out"
    for content in ("first", "second"):
        with publishing(target, overwrite=True, folder=folder) as temporary:
            (temporary / content if folder else temporary).write_text(content)
    if folder:
        assert os.listdir(target) == ["second"]  # replaced whole
    theirs = f"mv {target} {tmp_path}/old && cp -r {tmp_path}/old {target}"
    with pytest.raises(InvalidInputError, match="was not replaced"):
        write_while(target, theirs, overwrite=True, folder=folder)
    assert (target / "second" if folder else target).read_text() == "second"
    assert sorted(os.listdir(tmp_path)) == ["old", "out"]


@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("without", WITHOUT)
def test_a_new_one_of_the_same_number_is_not_overwritten(tmp_path, monkeypatch, folder, without):
    """File systems give the number of what was deleted to what is made next."""
    lack(monkeypatch, WITHOUT[without])
    target = tmp_path / "out"
    with publishing(target, folder=folder) as temporary:
        (temporary / "first" if folder else temporary).write_text("first")
    made = f"mkdir {target} && echo precious > {target}/theirs" if folder else f"echo precious > {target}"
    with pytest.raises(InvalidInputError, match="was not replaced"):
        write_while(target, f"rm -r {target} && {made}", overwrite=True, folder=folder)
    assert (target / "theirs" if folder else target).read_text() == "precious\n"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("without", WITHOUT)
def test_a_file_that_comes_into_a_folder_is_not_deleted_with_it(tmp_path, monkeypatch, without):
    lack(monkeypatch, WITHOUT[without])
    target = tmp_path / "out"
    with publishing(target, folder=True) as temporary:
        (temporary / "first").write_text("first")
    with pytest.raises(InvalidInputError, match="was not replaced"):
        write_while(target, f"echo precious > {target}/theirs", overwrite=True, folder=True)
    assert sorted(os.listdir(target)) == ["first", "theirs"]
    assert os.listdir(tmp_path) == ["out"]


RACE = """
import sys, time
from pathlib import Path
from spikepool.errors import InvalidInputError
from spikepool.kit import files
me, target, folder, without = sys.argv[1], Path(sys.argv[2]), sys.argv[3] == "True", sys.argv[4]
if "flags" in without:
    files._renamed = lambda *_: False
if "link" in without:
    def no_link(*_):
        raise OSError(1, "no")
    files.os.link = no_link
for number in range(30):
    place = target / str(number)
    while not Path(f"{place}.go").exists():
        time.sleep(0.0005)
    try:
        with files.publishing(place, folder=folder, durable=False) as temporary:
            (temporary / "x" if folder else temporary).write_text(me)
        print(number, me, flush=True)
    except InvalidInputError:
        print(number, "-", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("without", ["", "link flags"])
def test_of_processes_that_race_for_one_name_one_wins(tmp_path, folder, without):
    arguments = [str(tmp_path), str(folder), without]
    racing = [
        subprocess.Popen([sys.executable, "-c", RACE, str(k), *arguments], stdout=subprocess.PIPE, text=True)
        for k in range(3)
    ]
    for number in range(30):
        (tmp_path / f"{number}.go").touch()
    said = [process.communicate(timeout=120)[0].split() for process in racing]
    for number in range(30):
        winners = {words[2 * number + 1] for words in said} - {"-"}
        place = tmp_path / str(number)
        assert winners == {(place / "x" if folder else place).read_text()}
        assert sum(words[2 * number + 1] == "-" for words in said) == 2
    assert not list(tmp_path.glob(".*"))
