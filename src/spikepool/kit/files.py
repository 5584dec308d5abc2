"""Files and folders that appear complete or not at all.

Content is written beside its target under a temporary name and published when it is complete (:func:`publishing`). On
any error, Ctrl-C included, only what this call has created is removed; the command line treats SIGTERM and SIGHUP in
the same way. A killed process leaves the old target and a hidden ``.part`` file.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from spikepool.errors import InvalidInputError, SpikepoolError
from spikepool.kit.bounded_reading import READ_FLAGS

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
_HERE, _NO_REPLACE, _EXCHANGE = -100, 1, 2  # AT_FDCWD, RENAME_NOREPLACE and RENAME_EXCHANGE of Linux
# What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV, errno.EINVAL)
_OTHER_NAME = "Choose another name, or pass overwrite=True (--overwrite)"


def write_error(err: OSError, path: Any) -> SpikepoolError:
    """The named error for a file or folder that could not be written."""
    remedy = _REMEDIES.get(err.errno or 0, "Choose another place")
    return SpikepoolError(f"cannot write {path}: {err.strerror or err}", remedy=remedy)


@contextmanager
def publishing(path: Any, *, overwrite: bool = False, folder: bool = False, durable: bool = True) -> Iterator[Path]:
    """Give a temporary file or empty folder beside `path`; afterwards it appears at `path`, complete.

    Every output is written through this function. Without `overwrite`, and with it where nothing was there at first,
    what is at `path` in the end is never replaced: a file appears by a hard link, a folder by a rename that refuses to
    replace. With `overwrite` the file or folder that was there at first is replaced as a whole, and nothing else is:
    both are exchanged in one step, and exchanged back if another one, or another file in the folder, has come in
    between.

    A symbolic link stays a link: what it points to is replaced. Permissions of what is replaced are kept.

    Parameters
    ----------
    path : str or Path
    overwrite : bool
        Replace what is there now. The caller has checked that it may.
    folder : bool
        Write a folder instead of a file.
    durable : bool
        Wait for the disk. Without, for many small files that can be computed again.

    Raises
    ------
    InvalidInputError
        Something that is not to be replaced is at `path`; it is left as it is.

    Notes
    -----
    Where a file system has no hard links, an empty file reserves the name and is replaced. Where the kernel cannot
    rename without replacing, an empty folder does the same; both are created only if nothing is there. Where it cannot
    exchange, what is replaced is compared with what was there at first, and replaced right after.
    """
    target = Path(os.path.realpath(path))
    temporary = beside(target)
    created, held = False, None
    try:
        held = _hold(target)
        first = _identity(target)
        if first is not None and not (target.is_dir() if folder else target.is_file()):
            raise InvalidInputError(
                f"the output exists and is not a {'folder' if folder else 'regular file'}", str(path), _OTHER_NAME
            )
        if first is not None and not overwrite:
            raise _taken(path)
        mode = None if first is None else stat.S_IMODE(target.stat().st_mode)
        # readable by no one else than the target is, from the first byte on
        if folder:
            temporary.mkdir(0o777 if mode is None else 0o700)
        else:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else 0o600))
        created = True
        yield temporary
        if durable:
            _sync_all(temporary)
        if mode is not None:
            os.chmod(temporary, mode)
        if first is None:
            (_folder_appears if folder else _file_appears)(temporary, target, path)
            created = False
        else:
            created = _replaces(temporary, target, first, path)
        if durable:
            _sync(target.parent)
    except SpikepoolError:
        raise
    except OSError as err:
        raise write_error(err, path) from err
    finally:
        if held is not None:
            os.close(held)
        if created:  # the new one after an error, the old one after success
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                with suppress(OSError):
                    temporary.unlink()


def write_text(path: Any, text: str, *, overwrite: bool = False) -> None:
    """Write `text` to `path` in UTF-8; see :func:`publishing`."""
    with publishing(path, overwrite=overwrite) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _taken(path: Any) -> InvalidInputError:
    return InvalidInputError("the output exists already and was not replaced", str(path), _OTHER_NAME)


def _hold(path: Path) -> int | None:
    """An open descriptor of what is at `path`: while it is open, nothing new gets the same number."""
    try:
        return os.open(path, READ_FLAGS)
    except OSError:  # nothing there, not readable, or a folder of Windows
        return None


def _identity(path: Path) -> tuple[object, ...] | None:
    """Device and number of the file or folder at `path`, and the names in the folder; None where there is nothing."""
    try:
        found = os.lstat(path)
        names = sorted(os.listdir(path)) if stat.S_ISDIR(found.st_mode) else []
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, *names


def _file_appears(temporary: Path, target: Path, path: Any) -> None:
    try:
        os.link(temporary, target)
        temporary.unlink()
    except FileExistsError as err:
        raise _taken(path) from err
    except (OSError, NotImplementedError) as err:
        if isinstance(err, OSError) and err.errno not in _NO_LINKS:
            raise
        _reserved(lambda: os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL)), path)
        os.replace(temporary, target)


def _folder_appears(temporary: Path, target: Path, path: Any) -> None:
    if _renamed(temporary, target, _NO_REPLACE, path):
        return
    if os.name == "nt":  # where a rename never replaces
        _reserved(lambda: os.rename(temporary, target), path)
    else:
        _reserved(lambda: os.mkdir(target), path)
        os.rename(temporary, target)  # over the empty folder


def _reserved(take: Callable[[], None], path: Any) -> None:
    try:
        take()
    except FileExistsError as err:
        raise _taken(path) from err


def _replaces(temporary: Path, target: Path, first: tuple[object, ...], path: Any) -> bool:
    """Put `temporary` in the place of the file or folder `first`; whether something is left under its name."""
    now = _identity(target)
    if now is None:  # it has been removed meanwhile
        (_folder_appears if temporary.is_dir() else _file_appears)(temporary, target, path)
        return False
    if now != first:
        raise _taken(path)
    if _renamed(temporary, target, _EXCHANGE, path):
        if _identity(temporary) != first:  # another one came in between
            _renamed(temporary, target, _EXCHANGE, path)
            raise _taken(path)
        return True
    if temporary.is_file():
        os.replace(temporary, target)
        return False
    old = beside(target)
    os.rename(target, old)
    try:
        os.rename(temporary, target)
    except BaseException:
        os.rename(old, target)
        raise
    os.rename(old, temporary)
    return True


def _renamed(first: Path, second: Path, flag: int, path: Any) -> bool:
    """Rename with a flag of the kernel (Linux, macOS); False where it, or the file system, does not know the flag."""
    names = os.fsencode(first), os.fsencode(second)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "linux":
            failed = library.renameat2(_HERE, names[0], _HERE, names[1], flag)
        elif sys.platform == "darwin":
            failed = library.renamex_np(*names, {_NO_REPLACE: 4, _EXCHANGE: 2}[flag])
        else:
            return False
    except (OSError, AttributeError, TypeError):
        return False
    if failed and ctypes.get_errno() in (errno.EEXIST, errno.ENOTEMPTY):
        raise _taken(path)
    return not failed


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


def beside(target: Path) -> Path:
    """A new hidden name in the folder of `target`."""
    return target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}{UNFINISHED}")


def _sync_all(place: Path) -> None:
    """Wait until a file, or a folder with all it holds, is on the disk."""
    for folder, _, names in os.walk(place):
        for name in names:
            _sync(os.path.join(folder, name))
        _sync(folder)
    if place.is_file():
        _sync(place)


def _sync(path: Any) -> None:
    """Wait until a file, or the names in a folder, are on the disk; Windows does so for files only."""
    if os.path.islink(path) or (os.name == "nt" and os.path.isdir(path)):
        return
    place = os.open(path, os.O_RDWR if os.name == "nt" else READ_FLAGS)
    try:
        os.fsync(place)
    except OSError as err:
        if err.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot
            raise
    finally:
        os.close(place)
