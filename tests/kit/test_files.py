"""Files and folders appear complete or not at all."""

import os
import stat
from pathlib import Path

import pytest

from spikepool.errors import DataSourceError, InvalidInputError, SpikepoolError
from spikepool.kit.files import making_parents, read_file, replacing_file, replacing_folder, write_text


def test_a_file_is_replaced_when_it_is_complete(tmp_path):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    os.chmod(target, 0o640)
    with replacing_file(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    with pytest.raises(KeyboardInterrupt), replacing_file(target):
        raise KeyboardInterrupt
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_folder_is_exchanged_when_it_is_complete(tmp_path):
    target = tmp_path / "a"
    for content in ("first", "second"):
        with replacing_folder(target) as temporary:
            (temporary / "x").write_text(content)
        assert (target / "x").read_text() == content
        assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(SpikepoolError, match="disk is full"), replacing_folder(target):
        raise OSError(28, "No space left on device")
    assert (target / "x").read_text() == "second"
    assert os.listdir(tmp_path) == ["a"]


def test_a_private_file_stays_private_while_it_is_written(tmp_path):
    target, folder = tmp_path / "a.txt", tmp_path / "b"
    write_text(target, "old")
    folder.mkdir()
    for path, mode in ((target, 0o600), (folder, 0o700)):
        os.chmod(path, mode)
    with replacing_file(target) as temporary:
        temporary.write_text("new")
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    with replacing_folder(folder) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, folder)] == [0o600, 0o700]
    os.chmod(target, 0o444)
    write_text(target, "newer")
    assert stat.S_IMODE(target.stat().st_mode) == 0o444


def test_names_and_content_reach_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda place: synced.append(os.readlink(f"/proc/self/fd/{place}")))
    write_text(tmp_path / "a.txt", "x")
    assert str(tmp_path) == synced[-1]
    assert len(synced) == 2
    with replacing_folder(tmp_path / "b") as temporary:
        (temporary / "c").mkdir()
        (temporary / "c" / "x").write_text("x")
    assert {Path(place).name for place in synced[2:-1]} == {"x", "c", temporary.name}
    assert str(tmp_path) == synced[-1]


@pytest.mark.parametrize("system", ["linux", "darwin", "win32"])
def test_folders_are_exchanged_on_every_system(system, tmp_path, monkeypatch):
    import ctypes
    import sys

    calls = []

    class Library:
        def __init__(self, name):
            if sys.platform == "win32":
                raise TypeError("bad argument type for built-in operation")

        def renameat2(self, _h, first, _i, second, flag):
            return self.renamex_np(first, second, flag)

        def renamex_np(self, first, second, flag):
            calls.append(flag)
            os.rename(first, first + b".x")
            os.rename(second, first)
            os.rename(first + b".x", second)
            return 0

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(ctypes, "CDLL", Library)
    test_a_folder_is_exchanged_when_it_is_complete(tmp_path)
    assert calls == ([] if system == "win32" else [2])


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
