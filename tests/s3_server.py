"""An S3 server (moto) on the loopback interface, in a subprocess."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time

BUCKET = "spikepool-test"


@contextlib.contextmanager
def s3_server():
    """The environment variables with which s3fs finds the server; they are set meanwhile, and a bucket is made."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",  # never ask a machine's neighbours for credentials
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, "the S3 server did not start"
                assert time.monotonic() < deadline, "the S3 server does not answer"
                time.sleep(0.05)
        file_system().mkdir(BUCKET)
        yield settings
    finally:
        server.kill()
        server.wait()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        forget_connections()


def file_system():
    """A client without memory of listings."""
    import fsspec

    return fsspec.filesystem("s3", use_listings_cache=False)


def forget_connections():
    """Make s3fs look at the environment again."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
