"""Files and folders that appear complete or not at all, and files that are read whole within a bound.

Content is written beside its target under a temporary name, with the permissions of the target, and renamed when it is
complete. On any error, Ctrl-C included, only what this call has created is removed; the command line treats SIGTERM and
SIGHUP in the same way. A killed process leaves the old target and a hidden ``.part`` file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spikepool.errors import DataSourceError, InvalidInputError, SpikepoolError

_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space or choose another disk",
    errno.EDQUOT: "The disk quota is used up: free some space or choose another disk",
    errno.EROFS: "The file system is read-only: choose another folder",
    errno.EACCES: "Check the permissions of the folder, or choose another one",
    errno.EPERM: "Check the permissions of the folder, or choose another one",
    errno.EISDIR: "A folder has this name: choose another one",
}

# Ending of what is not complete.
UNFINISHED = ".part"
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, and RENAME_EXCHANGE of Linux or RENAME_SWAP of macOS


def regular_file(path: Any, most: int) -> Path:
    """`path`, if it is a regular file of at most `most` bytes; pipes and devices are refused without being opened.

    Raises
    ------
    DataSourceError
    """
    file = Path(path)
    try:
        found = file.stat()
    except OSError as err:
        raise DataSourceError(f"cannot read {file.name}: {err.strerror or err}", str(path), "Check the path") from err
    if not stat.S_ISREG(found.st_mode):
        raise DataSourceError(f"{file.name} is not a regular file", str(path), "Pass a file")
    if found.st_size > most:
        raise DataSourceError(
            f"{file.name} has {found.st_size:,} bytes, more than the {most:,} that it may have", str(path), "Check it"
        )
    return file


def read_file(path: Any, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes.

    The bound holds while the file is read as well, and a file that is replaced by a pipe meanwhile does not block.
    """
    file = regular_file(path, most)
    try:
        with open(os.open(file, _READ), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise DataSourceError(f"{file.name} is not a regular file", str(path), "Pass a file")
            content = stream.read(most + 1)
    except OSError as err:
        raise DataSourceError(f"cannot read {file.name}: {err.strerror or err}", str(path), "Check the path") from err
    if len(content) > most:
        raise DataSourceError(f"{file.name} has more than {most:,} bytes", str(path), "Check it")
    return content


def write_error(err: OSError, path: Any) -> SpikepoolError:
    """The named error for a file or folder that could not be written."""
    remedy = _REMEDIES.get(err.errno or 0, "Choose another place")
    return SpikepoolError(f"cannot write {path}: {err.strerror or err}", remedy=remedy)


@contextmanager
def replacing_file(path: Any, *, durable: bool = True) -> Iterator[Path]:
    """Give a temporary path in the folder of `path`; afterwards the file written there replaces `path` atomically.

    A symbolic link stays a link: the file that it points to is replaced. Permissions of an existing file are kept.
    Without `durable` nothing waits for the disk: for many small files that can be computed again.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise InvalidInputError("the output exists and is not a regular file", str(path), "Choose another name")
    temporary = beside(target)
    created = False
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        # readable by no one else than the target is, from the first byte on
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600))
        created = True
        yield temporary
        if durable:
            _sync(temporary)
        if mode is not None:
            os.chmod(temporary, mode)
        os.replace(temporary, target)
        created = False
        if durable:
            _sync(target.parent)
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
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        temporary.mkdir(0o777 if mode is None else 0o700)
        created = True
        yield temporary
        for folder, _, names in os.walk(temporary):
            for place in (*(os.path.join(folder, name) for name in names), folder):
                _sync(place)
        if mode is not None:
            os.chmod(temporary, mode)
        if target.exists():
            _exchange(temporary, target)
        else:
            os.rename(temporary, target)
            created = False
        _sync(target.parent)
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
    """Exchange two folders: in one step where the kernel can (Linux, macOS), else by renaming."""
    names = os.fsencode(first), os.fsencode(second)
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            if ctypes.CDLL(None).renameat2(_HERE, names[0], _HERE, names[1], _EXCHANGE) == 0:
                return
        elif sys.platform == "darwin" and ctypes.CDLL(None).renamex_np(*names, _EXCHANGE) == 0:
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
    return target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}{UNFINISHED}")


def _sync(path: Any) -> None:
    """Wait until a file, or the names in a folder, are on the disk; Windows does so for files only."""
    if os.path.islink(path) or (os.name == "nt" and os.path.isdir(path)):
        return
    place = os.open(path, os.O_RDWR if os.name == "nt" else _READ)
    try:
        os.fsync(place)
    except OSError as err:
        if err.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot
            raise
    finally:
        os.close(place)
