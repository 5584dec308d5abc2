"""Where a store keeps its files: a folder of this machine, or a prefix of an object store.

Both give the same few verbs. A file is only ever replaced whole: renamed into place on disk, a single upload elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spikepool.data.locations import is_url, locate, translate
from spikepool.errors import (
    CredentialsError,
    MissingSourceError,
    SpikepoolError,
    StoreCorruptError,
    StoreWriteError,
    require,
)
from spikepool.kit.files import UNFINISHED, replacing_file


class Folder(ABC):
    """Files by relative name, with slashes.

    Attributes
    ----------
    where : str
        Path or URL; another process opens the same folder with it.
    """

    where: str

    @abstractmethod
    def place(self, name: str) -> Any:
        """The full path (or URL) of a file, for messages."""

    @abstractmethod
    def read(self, names: Sequence[str]) -> list[bytes | None]:
        """Contents of files; None for those that are not there."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it is there whole or not at all."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file if it is there."""

    @abstractmethod
    def names(self) -> list[str]:
        """All files, sorted."""

    @abstractmethod
    def remove_leftovers(self) -> None:
        """Remove what a killed writer had not finished."""

    @abstractmethod
    def open_array(self, name: str) -> Any:
        """The Zarr array in a subfolder, to be written to."""


class LocalFolder(Folder):
    """A folder on a disk, or on one that machines share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.where = str(path)

    def __str__(self) -> str:
        return self.where

    def place(self, name: str) -> Path:
        """The full path of a file."""
        return self.path / name

    def read(self, names: Sequence[str]) -> list[bytes | None]:
        """Contents of files; None for those that are not there."""
        return [self._read(self.path / name) for name in names]

    @staticmethod
    def _read(file: Path) -> bytes | None:
        try:
            return file.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise StoreCorruptError(
                f"cannot read {file}: {err.strerror}", remedy="Restore access, or delete that file to recompute it"
            ) from err

    def write(self, name: str, content: bytes) -> None:
        """Write beside, then rename."""
        file = self.path / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with replacing_file(file, durable=False) as temporary:
                temporary.write_bytes(content)
        except (OSError, SpikepoolError) as err:
            reason = err.__cause__ if isinstance(err, SpikepoolError) else err
            raise StoreWriteError(
                f"cannot write {file}: {getattr(reason, 'strerror', err)}",
                remedy="Free some space or restore access and run again",
            ) from err

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """All files, sorted."""
        if self.path.exists() and not self.path.is_dir():
            raise StoreWriteError("the store must be a folder", str(self.path), "Choose another path")
        return [file.relative_to(self.path).as_posix() for file in sorted(self.path.rglob("*")) if not file.is_dir()]

    def remove_leftovers(self) -> None:
        """Files that a killed writer had not yet renamed."""
        for file in self.path.rglob(f"*{UNFINISHED}"):
            file.unlink(missing_ok=True)

    def open_array(self, name: str) -> Any:
        """The Zarr array in a subfolder."""
        return require("zarr", "sweeps").open_array(str(self.path / name), mode="r+", zarr_format=3)


class RemoteFolder(Folder):
    """A prefix of whatever fsspec reaches: ``s3://bucket/runs/a.zarr``.

    Credentials come from the environment of each machine; they are in no task, no spec and no store.
    """

    def __init__(self, url: str) -> None:
        self.where = url.rstrip("/")
        # other drivers and workers write here too: a remembered listing would be wrong
        self._location = locate(self.where, {"use_listings_cache": False})

    def __str__(self) -> str:
        return self.where

    def place(self, name: str) -> str:
        """The URL of a file."""
        return f"{self.where}/{name}"

    def read(self, names: Sequence[str]) -> list[bytes | None]:
        """Contents of files, many at a time; None for those that are not there."""
        paths = [self._location.child(name) for name in names]
        if not paths:
            return []
        try:
            contents = self._location.fs.cat(paths, on_error="return", recursive=False)
        except Exception as err:  # before the first request: credentials, connection
            contents = dict.fromkeys(paths, err)
        if isinstance(contents, bytes):  # fsspec unpacks a list of one
            contents = {paths[0]: contents}
        return [self._checked(contents.get(path), name) for path, name in zip(paths, names, strict=True)]

    def _checked(self, content: Any, name: str) -> bytes | None:
        if isinstance(content, bytes) or content is None:
            return content
        named = translate(content, self.place(name))
        if isinstance(named, MissingSourceError) and "bucket" not in str(named):
            return None
        if isinstance(named, (CredentialsError, MissingSourceError)):
            raise named from content
        raise StoreCorruptError(str(named).rstrip("."), remedy="Run again when it can be reached") from content

    def write(self, name: str, content: bytes) -> None:
        """One upload, which object stores make visible whole."""
        try:
            self._location.fs.pipe_file(self._location.child(name), content)
        except Exception as err:
            raise self.write_error(err, name) from err

    def remove(self, name: str) -> None:
        """Remove an object if it is there."""
        try:
            self._location.fs.rm_file(self._location.child(name))
        except FileNotFoundError as err:
            if "bucket" in str(err).lower():
                raise self.write_error(err, name) from err
        except Exception as err:
            raise self.write_error(err, name) from err

    def write_error(self, err: BaseException, name: str) -> Exception:
        """The error of ours for one met while writing."""
        named = translate(err, self.place(name), "write")
        if isinstance(named, (CredentialsError, MissingSourceError)):
            return named
        return StoreWriteError(str(named).rstrip("."), remedy="Run again when it can be reached: results are kept")

    def names(self) -> list[str]:
        """All objects below the prefix, sorted."""
        try:
            listing = self._location.fs.find(self._location.path)
        except FileNotFoundError as err:
            if "bucket" in str(err).lower():
                raise translate(err, self.where) from err
            return []
        except Exception as err:
            raise translate(err, self.where) from err
        start = len(self._location.path) + 1
        return sorted(path[start:] for path in listing if path != self._location.path)

    def remove_leftovers(self) -> None:
        """An upload that was cut off leaves nothing."""

    def open_array(self, name: str) -> Any:
        """The Zarr array below a prefix."""
        zarr = require("zarr", "sweeps")
        options = {"use_listings_cache": False}
        return zarr.open_array(self.place(name), mode="r+", zarr_format=3, storage_options=options)

    def sibling(self, suffix: str) -> RemoteFolder:
        """The prefix beside this one."""
        return RemoteFolder(self.where + suffix)

    def modified(self, name: str) -> float | None:
        """Seconds at which an object was last written, by the clock of the store; None when it is not there."""
        try:
            return float(self._location.fs.modified(self._location.child(name)).timestamp())
        except FileNotFoundError:
            return None


def as_folder(where: str | Path | Folder) -> Folder:
    """The folder of a path or URL."""
    if isinstance(where, Folder):
        return where
    return RemoteFolder(str(where)) if is_url(str(where)) else LocalFolder(Path(where))
