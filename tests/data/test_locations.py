"""URLs of object stores: read and written through fsspec, and a named error with its remedy where a package lacks."""

import importlib
import re
import sys
from typing import ClassVar

import numpy as np
import pytest

fsspec = pytest.importorskip("fsspec", reason="the remote extra is not installed")

import spikepool as sp  # noqa: E402
from spikepool.data.locations import locate, named_errors  # noqa: E402
from spikepool.errors import CredentialsError, MemoryBudgetError  # noqa: E402


@pytest.fixture
def registry():
    """fsspec's protocols, forgotten and put back afterwards."""
    found = importlib.import_module("fsspec.registry")._registry
    kept = dict(found)
    found.clear()
    yield found
    found.clear()
    found.update(kept)


@pytest.mark.parametrize(
    ("scheme", "module", "remedy"),
    [
        ("gs", "gcsfs", "pip install gcsfs"),
        ("gcs", "gcsfs", "pip install gcsfs"),
        ("az", "adlfs", "pip install adlfs"),
        ("s3", "s3fs", "pip install 'spikepool[remote]'"),
    ],
)
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, registry, scheme, module, remedy):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(sp.MissingDependencyError, match=f"{scheme}://") as caught:
        locate(f"{scheme}://bucket/x.zarr")
    assert module in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("ending", ["npy", "zarr", "parquet"])
def test_every_reader_says_so(monkeypatch, registry, ending):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    for use in (sp.report, sp.diagnose, sp.SpectralPooling().fit):
        with pytest.raises(sp.MissingDependencyError, match="pip install gcsfs"):
            use(f"gs://bucket/x.{ending}")


@pytest.mark.parametrize("url", ["nonsense://bucket/x.zarr", "gs+x://bucket/y"])
def test_a_protocol_that_nobody_speaks_is_named(url):
    with pytest.raises(sp.InvalidInputError, match="cannot be used"):
        locate(url)


@pytest.fixture
def bucket(registry):
    """gs:// served from memory: the way of a URL through the library without the package or the service."""
    from fsspec.implementations.memory import MemoryFileSystem

    class Bucket(MemoryFileSystem):
        protocol = ("gs", "gcs")
        store: ClassVar = {}
        pseudo_dirs: ClassVar = [""]

        @classmethod
        def _strip_protocol(cls, path):
            return MemoryFileSystem._strip_protocol(str(path).removeprefix("gs://").removeprefix("gcs://"))

    registry.update(gs=Bucket, gcs=Bucket)
    return Bucket()


def test_rows_at_a_google_url(bucket):
    pytest.importorskip("zarr", reason="zarr is not installed")
    X = np.random.default_rng(0).standard_normal((60, 4, 5))
    with bucket.open("bucket/x.npy", "wb") as file:
        np.save(file, X)
    here = sp.SpectralPooling(weights="mean").fit(X)
    there = sp.SpectralPooling(weights="mean").fit("gs://bucket/x.npy")
    np.testing.assert_allclose(there.transform("gs://bucket/x.npy"), here.transform(X))
    sp.write_pooled(here, X, "gs://bucket/out/P.zarr")
    features = sp.open_blocks("gs://bucket/out/P.zarr")
    assert features.shape == (60, 5)
    stored, plain = sp.diagnose("gs://bucket/out/P.zarr"), sp.diagnose(here.transform(X))
    np.testing.assert_allclose(stored.eigenvalues, plain.eigenvalues, rtol=1e-5)
    with pytest.raises(sp.MissingSourceError, match=re.escape("nothing at gs://bucket/absent.npy")):
        sp.diagnose("gs://bucket/absent.npy")


class EndpointConnectionError(Exception):
    """What the client library of S3 raises when nothing answers; recognised by its name."""


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ConnectionRefusedError(111, "Connection refused"), sp.DataSourceError, r"cannot connect to .*network"),
        (TimeoutError("timed out"), sp.DataSourceError, r"cannot connect to .*network"),
        (EndpointConnectionError("Could not connect"), sp.DataSourceError, r"cannot connect to .*network"),
        (MemoryError(), MemoryBudgetError, r"not enough memory .*fewer rows"),
        (OSError(28, "No space left on device"), sp.DataSourceError, r"the disk is full\. Free some space"),
        (OSError(122, "Disk quota exceeded"), sp.DataSourceError, r"the disk is full\. Free some space"),
        (ValueError("codec not available: 'zfpy'"), sp.DataSourceError, r"zfpy.*Install the package of that codec"),
        (PermissionError(13, "Permission denied"), CredentialsError, r"not allowed"),
        (RuntimeError("chunk (3, 0) is short"), sp.DataSourceError, r"chunk \(3, 0\).*complete"),
    ],
)
def test_messages_say_what_happened_and_what_to_do(error, kind, message):
    with pytest.raises(kind, match=message) as caught, named_errors("s3://bucket/x.zarr"):
        raise error
    assert "again, or restore" not in str(caught.value)
    assert caught.value.__cause__ is error


def test_a_refused_connection_is_not_a_missing_file():
    aiohttp = pytest.importorskip("aiohttp", reason="http:// is read through aiohttp")
    assert aiohttp
    with pytest.raises(sp.DataSourceError, match="cannot connect"):
        sp.open_blocks("http://127.0.0.1:9/x.npy")
