"""The console script: runs a command, and turns whatever ends it into a message and an exit code.

Exit codes: 0 done; 1 an unexpected failure, or a check that did not hold; 2 something the caller can correct; 130
interrupted. What takes time to import is imported inside `main`, so that Ctrl-C is quiet from the beginning.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class _OutputError(Exception):
    """What a command has to say cannot be written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `cera` with some arguments, by default the process's, and returns the exit code."""
    try:
        from cera_core.cli.application import run  # noqa: PLC0415

        _prepare_streams()
        status = run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return _reported(_of_writing(error) if isinstance(error, OSError) else error)
    return status


def _prepare_streams() -> None:
    """Makes standard streams that are there, and that no character stops.

    Python has None for a stream that was closed when the process began. Instead of it stands the null device: to be
    read from as standard input, to be written to as standard error, and not to be written to as standard output, so
    that a command which has something to say there fails like one in front of a full disk.
    """
    for name, flags, mode in (
        ("stdin", os.O_RDONLY, "r"),
        ("stdout", os.O_RDONLY, "w"),
        ("stderr", os.O_WRONLY, "w"),
    ):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, flags)
            setattr(sys, name, open(descriptor, mode, encoding="utf-8"))  # noqa: SIM115 - open as long as the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character is no reason to stop


def _of_writing(error: OSError) -> Exception:
    """Returns an error in cera's words if it is one of writing; else itself, as is that of a pipe nobody reads."""
    try:
        sys.stdout.flush()  # fails again where text was kept back, and would when the interpreter ends
    except OSError as found:
        _forget(sys.stdout.fileno())
        error = found
    if error.errno == errno.EBADF:
        return _OutputError("Standard output must be open, and is closed. Send it to a file, a pipe or a terminal.")
    if error.filename is None and error.errno in _FULL:
        return _OutputError(f"The output cannot be written: {error.strerror}. Make room, or write it elsewhere.")
    return error


def _reported(error: Exception) -> int:
    """Says in one paragraph what went wrong, and returns the exit code that goes with it."""
    if isinstance(error, BrokenPipeError):
        return EXIT_FAILURE  # whoever read the output had enough of it
    try:
        text, status = _told(error)
        if os.environ.get("CERA_TRACEBACK"):
            import traceback  # noqa: PLC0415

            traceback.print_exception(error)
        import typer  # noqa: PLC0415

        typer.secho("Error: ", fg="red", bold=True, nl=False, err=True)
        typer.echo(" ".join(text.split()), err=True)
    except OSError:
        _forget(sys.stderr.fileno())
        return EXIT_FAILURE
    return status


def _told(error: Exception) -> tuple[str, int]:
    """Returns what to say of an error, and the exit code."""
    from cera_core.cli.application import UsageError  # noqa: PLC0415
    from cera_core.errors import CeraError  # noqa: PLC0415

    if isinstance(error, UsageError):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "cera"
        message: str = error.format_message()  # type: ignore[attr-defined]
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} See '{path} --help'.", EXIT_USAGE
    if isinstance(error, _OutputError):
        return str(error), EXIT_FAILURE
    if isinstance(error, CeraError):
        return str(error), EXIT_USAGE
    found = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"Unexpected {found}. CERA_TRACEBACK=1 shows where it came from.", EXIT_FAILURE


def _forget(descriptor: int) -> None:
    """Lets the interpreter flush into nothing at exit what cannot be written, or is not read any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


if __name__ == "__main__":
    sys.exit(main())
