"""Paths of data files: which ones are accepted, and named errors for what the file system raises."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spikepool.errors import (
    DataSourceError,
    InvalidInputError,
    MemoryBudgetError,
    MissingSourceError,
    SpikepoolError,
)
from spikepool.kit.memory import require_memory


def is_path(value: Any) -> bool:
    """Whether `value` is a path."""
    return isinstance(value, (str, Path))


def existing_path(where: Any) -> Path:
    """The absolute path of a regular file or folder that exists.

    Raises
    ------
    InvalidInputError
        `where` is empty, holds a NUL character, or is a URL.
    MissingSourceError
        There is nothing at `where`.
    DataSourceError
        It is neither a regular file nor a folder, or may not be read.
    """
    text = str(where)
    # an unset shell variable must not become the current folder
    if not text.strip() or "\0" in text or (isinstance(where, Path) and not where.parts):
        raise InvalidInputError("the path is empty or has a NUL character", text, "Pass the name of a file")
    if "://" in text:
        raise InvalidInputError("URLs are not read", text, "Download the file and pass its path")
    path = Path(os.path.abspath(os.path.expanduser(text)))
    with named_errors(path):
        mode = path.stat().st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise DataSourceError("this is not a regular file", str(path), "Pass a file or a folder")
    return path


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Turn what reading `path` raises inside the block into an error that names the file and a remedy."""
    try:
        yield
    except SpikepoolError:
        raise
    except FileNotFoundError as err:
        raise MissingSourceError(f"there is nothing at {path}", remedy="Check the path") from err
    except MemoryError as err:
        raise MemoryBudgetError(f"not enough memory to read {path}", remedy="Use fewer rows") from err
    except Exception as err:  # whatever codecs, file systems and drivers raise
        refused = isinstance(err, OSError) and err.errno in (errno.EACCES, errno.EPERM)
        text = " ".join(str(err).split())
        raise DataSourceError(
            f"cannot read {path} ({type(err).__name__}: {text})",
            remedy="Check the permissions of the file" if refused else "Check that the file is complete",
        ) from err


def require_whole(nbytes: int, path: Path | str) -> None:
    """Raise if `nbytes`, the content of a file once decoded, do not fit in memory."""
    require_memory(nbytes, f"{path} as one array", "Use fewer rows, or an npy file, which is not read at once")
