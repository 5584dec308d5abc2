"""Jobs for the tests of the worker; in a module of their own because worker processes import them by name."""

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


def suicide(payload, report):
    os.kill(os.getpid(), signal.SIGKILL)
