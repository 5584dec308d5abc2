"""Files and folders that appear complete or not at all.

Content is written beside its target under a temporary name and renamed when it is complete. On any error, Ctrl-C
included, only what this call has created is removed. A killed process leaves the old target and a hidden
``.part`` file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spikepool.errors import InvalidInputError, SpikepoolError

_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space or choose another disk",
    errno.EDQUOT: "The disk quota is used up: free some space or choose another disk",
    errno.EROFS: "The file system is read-only: choose another folder",
    errno.EACCES: "Check the permissions of the folder, or choose another one",
    errno.EPERM: "Check the permissions of the folder, or choose another one",
    errno.EISDIR: "A folder has this name: choose another one",
}

_HERE, _RENAME_EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of renameat2(2)


def write_error(err: OSError, path: Any) -> SpikepoolError:
    """The named error for a file or folder that could not be written."""
    remedy = _REMEDIES.get(err.errno or 0, "Choose another place")
    return SpikepoolError(f"cannot write {path}: {err.strerror or err}", remedy=remedy)


@contextmanager
def replacing_file(path: Any) -> Iterator[Path]:
    """Give a temporary path in the folder of `path`; afterwards the file written there replaces `path` atomically.

    A symbolic link stays a link: the file that it points to is replaced. Permissions of an existing file are kept.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InvalidInputError("the output exists and is not a regular file", str(path), "Choose another name")
    temporary = beside(target)
    created = False
    try:
        with temporary.open("xb"):
            created = True
        yield temporary
        if target.exists():
            os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
        with temporary.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        created = False
    except SpikepoolError:
        raise
    except OSError as err:
        raise write_error(err, path) from err
    finally:
        if created:
            with suppress(OSError):
                temporary.unlink()


def write_text(path: Any, text: str) -> None:
    """Write `text` to `path` in UTF-8, atomically."""
    with replacing_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing_folder(path: Any) -> Iterator[Path]:
    """Give an empty temporary folder beside `path`; afterwards it takes the place of `path`.

    An existing folder is exchanged for the new one and removed then. The caller decides before whether it may be
    replaced.
    """
    target = Path(os.path.realpath(path))
    temporary = beside(target)
    created = False
    try:
        temporary.mkdir()
        created = True
        yield temporary
        if target.exists():
            _exchange(temporary, target)
        else:
            os.rename(temporary, target)
            created = False
    except SpikepoolError:
        raise
    except OSError as err:
        raise write_error(err, path) from err
    finally:
        if created:  # the new one after an error, the old one after success
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def making_parents(path: Any) -> Iterator[None]:
    """Make the folders above `path` that are missing; after an error those that are still empty are removed."""
    made: list[Path] = []
    try:
        try:
            for folder in reversed([p for p in Path(path).absolute().parents if not p.exists()]):
                folder.mkdir(exist_ok=True)
                made.append(folder)
        except OSError as err:
            raise write_error(err, path) from err
        yield
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def _exchange(first: Path, second: Path) -> None:
    """Exchange two folders: in one step where the kernel can (Linux), else by renaming."""
    with suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.renameat2(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _RENAME_EXCHANGE) == 0:
            return
    old = beside(second)
    os.rename(second, old)
    try:
        os.rename(first, second)
    except BaseException:
        os.rename(old, second)
        raise
    os.rename(old, first)


def beside(target: Path) -> Path:
    """A new hidden name in the folder of `target`."""
    return target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.part")
