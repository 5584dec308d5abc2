"""Files and folders appear complete or not at all."""

import os
import stat

import pytest

from spikepool.errors import InvalidInputError, SpikepoolError
from spikepool.kit.files import making_parents, replacing_file, replacing_folder, write_text


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
