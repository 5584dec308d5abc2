"""Where data lie: a path or a URL as a file system of fsspec, and its many errors under a few names of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spikepool.errors import (
    CredentialsError,
    DataSourceError,
    InvalidInputError,
    MissingDependencyError,
    MissingSourceError,
    SpikepoolError,
    require,
)

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
    """A place that fsspec can reach.

    Attributes
    ----------
    url : str
        As given, for messages and for opening it again elsewhere.
    fs : fsspec.AbstractFileSystem
    path : str
        Within the file system, without a trailing slash.
    """

    url: str
    fs: Any
    path: str

    @property
    def shared(self) -> bool:
        """Whether another process finds the same data there."""
        return not in_memory(self.fs)

    def child(self, name: str) -> str:
        """Path of an object below this one."""
        return f"{self.path}/{name}"


def in_memory(fs: Any) -> bool:
    """Whether a file system lives in this process alone."""
    protocol = getattr(fs, "protocol", ())
    return "memory" in ((protocol,) if isinstance(protocol, str) else tuple(protocol))


def is_url(value: Any) -> bool:
    """Whether `value` names something for fsspec rather than a file of this machine."""
    return isinstance(value, str) and "://" in value


def is_path(value: Any) -> bool:
    """Whether `value` is a path or a URL."""
    return isinstance(value, (str, Path))


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
        Nothing speaks the protocol.
    """
    url = str(where)
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
    return Location(url, fs, str(path).rstrip("/"))


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
    if isinstance(err, FileNotFoundError):
        # the store's own words, not those of a path that has a bucket in its name
        if "bucket" in text.lower().replace(where.split("://")[-1].lower(), ""):
            return MissingSourceError(
                f"the bucket of {where} does not exist", remedy="Check its name and region, or create it first"
            )
        return MissingSourceError(f"there is nothing at {where}", remedy="Check the path")
    return DataSourceError(f"cannot {doing} {where} ({type(err).__name__}: {text})", remedy="Try again, or restore it")


def _causes(err: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while err is not None and err not in found:
        found.append(err)
        err = err.__cause__ or err.__context__
    return found
