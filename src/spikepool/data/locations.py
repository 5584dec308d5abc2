"""Where data lie: a file of this machine or a URL that fsspec reads, and named errors for both.

How much a file may ask for, known before its data are read.

One rule for every reader: what a file becomes in memory is at most `RATIO_LIMIT` times what is stored, or
`HARMLESS_BYTES`, and what has to be held at once fits in the memory of the machine.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from spikepool.errors import (
    CredentialsError,
    DataSourceError,
    InvalidInputError,
    MemoryBudgetError,
    MissingDependencyError,
    MissingSourceError,
    SpikepoolError,
    TableFormatError,
    require,
)
from spikepool.kit.memory import require_memory

# What the client libraries of object stores raise for want of credentials, by class name: none is a dependency here.
_NO_CREDENTIALS = (
    "NoCredentialsError",
    "PartialCredentialsError",
    "CredentialRetrievalError",
    "NoAuthTokenError",
    "DefaultCredentialsError",
    "RefreshError",
    "TokenRetrievalError",
    "UnauthorizedSSOTokenError",
    "ClientAuthenticationError",
    "ProfileNotFound",
)
# The same for servers that do not answer.
_NO_CONNECTION = (
    "ClientConnectorError",
    "ClientConnectorDNSError",
    "EndpointConnectionError",
    "ConnectTimeoutError",
    "ServerTimeoutError",
    "ConnectionTimeoutError",
)
# Words by which object stores refuse a request that carried credentials.
_REFUSED = ("accessdenied", "access denied", "forbidden", "invalidaccesskeyid", "signaturedoesnotmatch", "expiredtoken")

# How to get the package that speaks a protocol.
_REMEDIES = {
    "s3": "Install it with: pip install 'spikepool[remote]'",
    **dict.fromkeys(("gs", "gcs"), "Install it with: pip install gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "Install it with: pip install adlfs"),
}


@dataclass(frozen=True)
class Location:
    """A file or folder of this machine, or a place that fsspec can reach.

    Attributes
    ----------
    url : str
        As given, for messages and for opening it again elsewhere.
    path : str
        On this machine, or within the file system; without a trailing slash.
    fs : fsspec.AbstractFileSystem or None
        None on this machine, where fsspec is not needed.
    options : mapping or None
        What the file system was made with.
    """

    url: str
    path: str
    fs: Any = None
    options: Mapping[str, Any] | None = None

    @property
    def local(self) -> Path | None:
        """The path, if it is on this machine."""
        return Path(self.path) if self.fs is None else None

    @property
    def shared(self) -> bool:
        """Whether another process finds the same data there."""
        return self.fs is None or not in_memory(self.fs)

    @property
    def name(self) -> str:
        """Last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """Ending of the name in lower case, without ``.gz``."""
        return Path(self.name.lower().removesuffix(".gz")).suffix

    def child(self, name: str) -> str:
        """Path of an object below this one."""
        return f"{self.path}/{name}"

    def is_folder(self) -> bool:
        """Whether it is a folder; raises if there is nothing, or something that is neither file nor folder."""
        with named_errors(self.url):
            if self.fs is not None:
                return bool(self.fs.info(self.path)["type"] == "directory")
            mode = os.stat(self.path).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise DataSourceError("this is not a regular file", self.url, "Pass a file or a folder")
        return stat.S_ISDIR(mode)

    def has(self, name: str) -> bool:
        """Whether there is a file of that name below."""
        if self.fs is None:
            return os.path.isfile(self.child(name))
        with named_errors(self.url):
            return bool(self.fs.exists(self.child(name)))

    def files(self) -> dict[str, int]:
        """Path and size of every file below, in order of name."""
        with named_errors(self.url):
            if self.fs is None:
                return {str(p): p.stat().st_size for p in sorted(Path(self.path).rglob("*")) if p.is_file()}
            listing = self.fs.find(self.path, detail=True)
            return {path: int(info["size"]) for path, info in sorted(listing.items())}

    def size(self) -> int:
        """Bytes of the file."""
        with named_errors(self.url):
            return os.stat(self.path).st_size if self.fs is None else int(self.fs.info(self.path)["size"])

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """Bytes `start` to `stop` of the file."""
        with named_errors(self.url):
            if self.fs is not None:
                return bytes(self.fs.cat_file(self.path, start=start, end=stop))
            with open(self.path, "rb") as file:
                file.seek(start)
                return file.read() if stop is None else file.read(stop - start)

    def open(self) -> Any:
        """The file, open for reading bytes."""
        with named_errors(self.url):
            return open(self.path, "rb") if self.fs is None else self.fs.open(self.path, "rb")

    def at(self, path: str) -> Location:
        """Another place of the same file system."""
        url = path if self.fs is None else f"{self.url.partition('://')[0]}://{path}"
        return Location(url, path, self.fs, self.options)


def in_memory(fs: Any) -> bool:
    """Whether a file system lives in this process alone."""
    protocol = getattr(fs, "protocol", ())
    return "memory" in ((protocol,) if isinstance(protocol, str) else tuple(protocol))


def is_url(value: Any) -> bool:
    """Whether `value` names something for fsspec rather than a file of this machine."""
    return isinstance(value, str) and "://" in value


def locate(where: str | Path, storage_options: Mapping[str, Any] | None = None) -> Location:
    """The file system and path of `where`.

    Parameters
    ----------
    where : str or Path
        ``"s3://bucket/tokens.zarr"``, ``"gs://..."``, ``"memory://..."`` or a path of this machine.
    storage_options : mapping, optional
        Passed to the file system (endpoint, profile, key ...). By default it finds its own: for S3 the environment
        variables ``AWS_*`` and ``~/.aws``.

    Raises
    ------
    MissingDependencyError
        The package that speaks the protocol is not installed.
    InvalidInputError
        Nothing speaks the protocol, or `where` is empty.
    """
    url = str(where)
    # an unset shell variable must not become the current folder
    if not url.strip() or "\0" in url or (isinstance(where, Path) and not where.parts):
        raise InvalidInputError("the path is empty", url, "Pass the name of a file, '.' for the current folder")
    if url.startswith("file://"):
        url = unquote(urlsplit(url).path)
    if "://" not in url:
        path = os.path.abspath(os.path.expanduser(url))
        return Location(path, path)
    core = require("fsspec.core", "remote")
    try:
        fs, path = core.url_to_fs(url, **dict(storage_options or {}))
    except ImportError as err:
        raise MissingDependencyError(
            f"{url.split('://')[0]}:// needs a package that is not installed ({err})",
            remedy=_REMEDIES.get(url.split("://")[0], "Install the package that fsspec names"),
        ) from err
    except (ValueError, TypeError) as err:
        raise InvalidInputError(
            f"this URL cannot be used: {err}", url, "Pass s3://, gs://, memory:// or a path"
        ) from err
    return Location(url, str(path).rstrip("/"), fs, storage_options)


@contextmanager
def named_errors(where: str, doing: str = "read") -> Iterator[None]:
    """Turn what a file system raises inside the block into an error of ours that names `where` and a remedy."""
    try:
        yield
    except SpikepoolError:
        raise
    except Exception as err:
        raise translate(err, where, doing) from err


def translate(err: BaseException, where: str, doing: str = "read") -> SpikepoolError:
    """The error of ours for `err`, which a file system raised about `where`."""
    chain = _causes(err)
    text = " ".join(str(err).split()) or type(err).__name__
    if any(type(cause).__name__ in _NO_CREDENTIALS for cause in chain):
        return CredentialsError(
            f"no usable credentials to {doing} {where} ({text})",
            remedy="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (for s3://; other stores have their own), or pass "
            "storage_options",
        )
    if isinstance(err, PermissionError) or any(word in text.lower() for word in _REFUSED):
        return CredentialsError(
            f"not allowed to {doing} {where} ({text})", remedy="Check the credentials and what they permit"
        )
    if any(_is_refused_connection(cause) for cause in chain):
        return DataSourceError(
            f"cannot connect to {where} ({text})", remedy="Check the address and the network, then try again"
        )
    if isinstance(err, FileNotFoundError):
        # the store's own words, not those of a path that has a bucket in its name
        if "bucket" in text.lower().replace(where.split("://")[-1].lower(), ""):
            return MissingSourceError(
                f"the bucket of {where} does not exist", remedy="Check its name and region, or create it first"
            )
        return MissingSourceError(f"there is nothing at {where}", remedy="Check the path")
    if isinstance(err, MemoryError):
        return MemoryBudgetError(f"not enough memory to {doing} {where}", remedy="Use smaller chunks or fewer rows")
    if isinstance(err, OSError) and err.errno in (errno.ENOSPC, errno.EDQUOT):
        return DataSourceError(f"cannot {doing} {where}: the disk is full", remedy="Free some space")
    if "codec" in text.lower() or "compressor" in text.lower():
        return DataSourceError(
            f"cannot {doing} {where} ({text})", remedy="Install the package of that codec, or write it with zstd"
        )
    return DataSourceError(
        f"cannot {doing} {where} ({type(err).__name__}: {text})", remedy="Check that the data are complete"
    )


def _is_refused_connection(err: BaseException) -> bool:
    """Whether an error of the network says that nothing answered, by its class or its name."""
    return isinstance(err, (ConnectionError, TimeoutError)) or type(err).__name__ in _NO_CONNECTION


def _causes(err: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while err is not None and err not in causes:
        causes.append(err)
        err = err.__cause__ or err.__context__
    return causes


# Numbers that carry information do not shrink a hundred times: deflate reaches 1000:1 on zeros only.
RATIO_LIMIT = 100
HARMLESS_BYTES = 1 << 26
# Chunks, members, row groups or columns that a file may have: a larger number indicates a damaged or hostile file.
MOST_PIECES = 1_000_000
MOST_COLUMNS = 10_000


def refuse_bomb(decoded: int, stored: int, name: str) -> None:
    """Raise if `decoded` bytes cannot be what `stored` bytes of `name` are meant to hold."""
    if decoded > max(HARMLESS_BYTES, RATIO_LIMIT * stored):
        raise TableFormatError(
            f"{name} would expand more than {RATIO_LIMIT} times, to {decoded / 2**20:,.0f} MiB",
            stored,
            "Do not use this file, or store its numbers uncompressed",
        )


def refuse_pieces(count: int, name: str, what: str, most: int = MOST_PIECES) -> None:
    """Raise if `name` has more than `most` pieces of a kind."""
    if count > most:
        raise TableFormatError(f"{name} has more than {most:,} {what}", count, f"Store it with fewer {what}")


def require_whole(nbytes: int, name: str) -> None:
    """Raise if `nbytes` that have to be held at once do not fit in memory."""
    require_memory(nbytes, f"{name} as one array", "Use fewer rows, or a format that is read in blocks (npy, Zarr)")
