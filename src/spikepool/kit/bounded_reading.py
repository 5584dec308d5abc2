"""Files of others, read whole within a bound: pipes, devices and files that are too large are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from spikepool.errors import DataSourceError

# A pipe that has taken the place of a file does not block.
READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


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
        with open(os.open(file, READ_FLAGS), "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise DataSourceError(f"{file.name} is not a regular file", str(path), "Pass a file")
            content = stream.read(most + 1)
    except OSError as err:
        raise DataSourceError(f"cannot read {file.name}: {err.strerror or err}", str(path), "Check the path") from err
    if len(content) > most:
        raise DataSourceError(f"{file.name} has more than {most:,} bytes", str(path), "Check it")
    return content
