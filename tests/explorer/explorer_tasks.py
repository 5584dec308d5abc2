"""Jobs for the tests of the job runner; in a module of their own because worker processes import them by name."""

import os
import signal
import time


def echo(payload, report):
    report(0.5, "half way")
    return {"payload": payload, "pid": os.getpid()}


def forever(payload, report):
    report(0.25, f"pid {os.getpid()}")
    while True:
        time.sleep(0.05)


def named_error(payload, report):
    from spikepool.errors import DomainError

    raise DomainError("this cannot be", 7, "Do something else")


def surprise(payload, report):
    raise RuntimeError("secret detail")


def not_a_number(payload, report):
    return {"value": float("nan")}


def suicide(payload, report):
    os.kill(os.getpid(), signal.SIGKILL)


def glutton(payload, report):
    hoard = bytearray(payload["bytes"])
    return {"length": len(hoard)}


def read_folder(payload, report):
    from pathlib import Path

    path = Path(payload["path"])
    return {"text": path.read_text(), "niceness": os.nice(0)}


WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def watch_writes(written):
    """Append to `written` the path of everything this process opens for writing, makes, moves or deletes."""
    import sys

    def hook(event, arguments):
        if event == "open":
            path, mode, flags = arguments
            writes = any(letter in (mode or "") for letter in "wax+") or (mode is None and flags & WRITES)
            if writes and isinstance(path, (str, bytes, os.PathLike)):
                written.append(os.path.abspath(os.fsdecode(path)))
        elif event in ("os.remove", "os.rmdir") and arguments[1] != -1:
            pass  # relative to an open folder: part of an rmtree, whose own event names the folder
        elif event in ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree"):
            written.append(os.path.abspath(os.fsdecode(arguments[0])))

    sys.addaudithook(hook)


def audited_upload(payload, report):
    """`upload_task`, failing loudly when it touches anything outside the folder of the upload."""
    from pathlib import Path

    from spikepool.explorer.uploads import upload_task

    written = []
    watch_writes(written)
    folder = str(Path(payload["paths"]["data"]).parent)
    try:
        return upload_task(payload, report)
    finally:
        outside = [path for path in written if not path.startswith(folder + os.sep)]
        if outside:
            report(0.99, f"OUTSIDE {outside}")
            time.sleep(3600)
