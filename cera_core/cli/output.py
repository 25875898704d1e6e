"""How commands write: the answer to standard output, all else to standard error, plain wherever no terminal is.

rich is imported only where it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def console(stream: TextIO) -> Console:
    """Makes a console that styles only what a person sees: `FORCE_COLOR` does not put escape codes into a pipe."""
    from rich.console import Console  # noqa: PLC0415 - 40 ms

    if stream.isatty():
        return Console(file=stream, highlight=False, soft_wrap=True)
    return Console(file=stream, highlight=False, soft_wrap=True, force_terminal=False, width=10_000)


def say(text: str = "") -> None:
    """Writes a line that is not the answer."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def write_json(value: Any) -> None:
    """Writes a value as indented JSON; an infinite number becomes a text, as JSON has none."""
    from pydantic_core import to_json  # noqa: PLC0415

    sys.stdout.write(to_json(value, indent=2, inf_nan_mode="strings").decode() + "\n")


def write_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Writes columns, each as wide as its longest cell; in a terminal the header is bold."""
    cells = [list(headers), *([printable(str(cell)).replace("\n", " ") for cell in row] for row in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    if sys.stdout.isatty():
        lines[0] = f"\N{ESCAPE}[1m{lines[0]}\N{ESCAPE}[0m"
    sys.stdout.write("\n".join(lines) + "\n")


def printable(text: str) -> str:
    """Makes control characters visible, which would let a model's text steer the terminal."""
    return text.translate(_VISIBLE)


_VISIBLE = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
