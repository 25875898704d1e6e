"""The application behind the console script: its commands, its help, and where warnings go."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from typer.main import get_command

from cera_core.cli.command_group import CommandGroup, add_built_in_commands

UsageError: type[Exception] = typer.BadParameter.__bases__[0]  # typer's public names do not have it


def run(arguments: Sequence[str]) -> int:
    """Runs a command; without any arguments, the help.

    Returns:
        The exit code.

    Raises:
        KeyboardInterrupt: It was interrupted.
        Exception: Whatever else ended it, `UsageError` where the arguments were wrong.
    """
    try:
        with _warnings_as_lines():
            status = get_command(create_app()).main(list(arguments) or ["--help"], "cera", standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    return status or 0


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
