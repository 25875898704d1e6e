"""Where the text of a command comes from: its argument, a file, or standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cera_core.errors import InvalidInputError

STANDARD_INPUT = "-"


def read_text(argument: str | None, file: Path | None) -> str:
    """Returns the text as it is written, to the last line end.

    Args:
        argument: The text itself; `-` stands for standard input.
        file: The file that holds it.

    Raises:
        InvalidInputError: There is no text, two, or one that is no UTF-8.
    """
    if argument is not None and file is not None:
        raise InvalidInputError("The text must be given once, but there is an argument and '--file'. Leave out one.")
    if file is not None:
        return _read_file(file)
    if argument is not None and argument != STANDARD_INPUT:
        return checked_argument(argument, "The text")
    if sys.stdin is None or (argument is None and sys.stdin.isatty()):
        raise InvalidInputError("A text is required, as an argument, with '--file', or on standard input.")
    return decode(sys.stdin.buffer.read(), "Standard input")


def checked_argument(text: str, subject: str) -> str:
    """Returns a text of the command line, whose bytes the system may have handed over undecoded.

    Raises:
        InvalidInputError: It is no UTF-8.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return decode(os.fsencode(text), subject)
    return text


def _read_file(file: Path) -> str:
    try:
        return decode(file.read_bytes(), f"The file '{file}'")
    except OSError as error:
        raise InvalidInputError(f"The file '{file}' cannot be read: {error.strerror}.") from error


def decode(text: bytes, source: str) -> str:
    """Reads bytes as UTF-8.

    Raises:
        InvalidInputError: They are none.
    """
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{source} must be UTF-8, but byte {error.start} is not. Convert it.") from error
