"""The console script: runs a command, and turns whatever ends it into a message and an exit code.

Exit codes: 0 done; 1 an unexpected failure, or a check that did not hold; 2 something the caller can correct; 130
interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from typer.main import get_command

from cera_core.cli.command_group import CommandGroup, add_built_in_commands
from cera_core.errors import CeraError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # typer's public names do not have it


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `cera` with some arguments, by default the process's, and returns the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop
    try:
        with _warnings_as_lines():
            status = get_command(create_app()).main(list(arguments) or ["--help"], "cera", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return EXIT_FAILURE
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:
        if os.environ.get("CERA_TRACEBACK"):
            traceback.print_exception(error)
        return _reported(error)
    return status or 0


def _open_closed_streams() -> None:
    """Stands in for a standard stream that was closed when the process began, which Python has as None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process


def create_app() -> typer.Typer:
    """Makes the application; its help is laid out by rich in a terminal and plain in a pipe."""
    app = typer.Typer(
        cls=CommandGroup,
        add_completion=True,
        rich_markup_mode="rich" if sys.stdout.isatty() else None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )

    @app.callback(help="Runs language models, guesses their next tokens, and verifies several at once.")
    def options(
        version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_show_version)] = False,
    ) -> None:
        del version

    add_built_in_commands(app)
    return app


def _show_version(wanted: bool) -> None:
    """Shows the version and ends."""
    if wanted:
        from cera_core import __version__  # noqa: PLC0415 - the package's names are imported when asked for

        typer.echo(f"cera {__version__}")
        raise typer.Exit


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Lets warnings, and what cera logs, come out as one line each, without the line of code they come from."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        typer.echo(f"Warning: {message}", err=True)

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("Warning: %(message)s"))
    log = logging.getLogger("cera")
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        log.removeHandler(handler)


def _reported(error: Exception) -> int:
    """Says in one paragraph what went wrong, and returns the exit code that goes with it."""
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "cera"
        message: str = error.format_message()  # type: ignore[attr-defined]
        text, status = f"{message}{'' if message.endswith(('.', '?')) else '.'} See '{path} --help'.", EXIT_USAGE
    elif isinstance(error, CeraError):
        text, status = str(error), EXIT_USAGE
    else:
        found = f"{type(error).__name__}: {error}".rstrip(": ")
        text, status = f"Unexpected {found}. CERA_TRACEBACK=1 shows where it came from.", EXIT_FAILURE
    typer.secho("Error: ", fg="red", bold=True, nl=False, err=True)
    typer.echo(" ".join(text.split()), err=True)
    return status


def _forget_stdout() -> None:
    """Lets the interpreter flush into nothing at exit, as nobody reads the output any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
