"""Command line ``spikepool``: parses, calls, prints. Heavy imports happen inside the commands.

This module is the entry point, and the one place where errors become messages and exit codes: 0 success; 2
wrong usage or invalid input; 1 any other failure; 130 interrupted; 143 and 129
ended by SIGTERM and SIGHUP, after cleaning up.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

from spikepool import __version__


class _EndedError(BaseException):
    """A signal asked the process to end."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; always ends in SystemExit with a documented code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv == ["--version"]:  # answered before anything is imported
        print(f"spikepool {__version__}")
        raise SystemExit(0)
    # accepted in any position: someone who has just seen an error adds it at the end of the line
    debug = "--debug" in argv
    argv = [item for item in argv if item != "--debug"]
    # before the imports, which take most of the time of a short command
    with _cleaning_up():
        try:
            code = _built_and_run(argv, debug)
        except _EndedError as ended:
            print("spikepool: ended", file=sys.stderr)
            code = 128 + int(ended.args[0])
        except KeyboardInterrupt:
            print("spikepool: interrupted", file=sys.stderr)
            code = 130
    raise SystemExit(code)


def _built_and_run(argv: list[str], debug: bool) -> int:
    """Import the commands, run one and return its exit code."""
    try:
        import typer

        from spikepool.cli.application import app
        from spikepool.cli.standard_output import PatientOutput
        from spikepool.kit.progress import announced
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        _say("the command line needs typer and rich. Install them with: pip install '.[cli]'")
        return 1
    output, sys.stdout = sys.stdout, PatientOutput(sys.stdout)
    try:
        with announced():
            # options may set context variables, which end with the command
            return copy_context().run(_run, typer.main.get_command(app), argv, debug)
    finally:
        sys.stdout = output


@contextmanager
def _cleaning_up() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind like Ctrl-C, so that unfinished outputs are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals belong to the main thread
        return

    def end(number: int, _frame: object) -> None:
        raise _EndedError(number)

    numbers = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
    # one that is ignored, as under nohup, stays so
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler is signal.SIG_DFL}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(command: object, argv: list[str], debug: bool) -> int:
    """Run a command and return its exit code."""
    import typer

    from spikepool.errors import InvalidInputError

    # Typer may carry its own copy of click: the base of its usage errors is found through a public one.
    usage_error = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
    try:
        outcome = command.main(args=argv, prog_name="spikepool", standalone_mode=False)  # type: ignore[attr-defined]
        sys.stdout.flush()
        return outcome if isinstance(outcome, int) else 0
    except typer.Abort:  # what Typer makes of Ctrl-C
        raise KeyboardInterrupt from None
    except typer.Exit as leave:
        return int(leave.exit_code)
    except Exception as error:
        if isinstance(error, usage_error):
            _usage(error)
            return 2
        if debug:
            import traceback

            traceback.print_exception(error)
        else:
            _say(" ".join(str(error).split()) or type(error).__name__)
        return 2 if isinstance(error, InvalidInputError) else 1


def _usage(error: Exception) -> None:
    message = " ".join(str(error.format_message()).split())  # type: ignore[attr-defined]
    if message:  # without arguments the help has been printed and the message is empty
        _say(f"{message} (see spikepool --help)")


def _say(message: str) -> None:
    print(f"spikepool: error: {message}", file=sys.stderr)


__all__ = ["main"]
