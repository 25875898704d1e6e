"""An answer on its way to standard output, token by token, and what Ctrl-C does meanwhile."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cera_core.cli.output import console, printable

if TYPE_CHECKING:
    from cera_core.generation import Generation, Token, TokenStream
    from cera_core.session import Session

DRAFT_STYLES = (
    "underline #56b4e9",
    "bold underline #e69f00",
    "italic underline #009e73",
    "bold italic underline #cc79a7",
)
"""One style a drafter, in the order they come; they differ without colour too.

The colours are of the palette by Okabe and Ito that people with any colour vision can tell apart:
https://jfly.uni-koeln.de/color/
"""


class AnswerWriter:
    """Writes tokens as they come.

    In a terminal, control characters are made visible and, on request, accepted tokens take the style of the drafter
    that guessed them; in a pipe the text is written as it is.

    Attributes:
        tokens: What was written so far.
    """

    def __init__(self, *, show_drafts: bool = False) -> None:
        self.tokens: list[Token] = []
        self._is_terminal = sys.stdout.isatty()
        self._console = console(sys.stdout) if self._is_terminal and show_drafts else None
        self._styles: dict[str, str] = {}
        self._is_at_line_start = True

    def write(self, token: Token) -> None:
        """Writes the text of one token at once."""
        self.tokens.append(token)
        text = printable(token.text) if self._is_terminal else token.text
        if not text:
            return
        self._is_at_line_start = text.endswith("\n")
        if self._console and token.drafter:
            self._console.out(text, style=self.style_of(token.drafter), highlight=False, end="")
        else:
            sys.stdout.write(text)
        sys.stdout.flush()

    def style_of(self, drafter: str) -> str:
        """Returns the style that stands for a drafter."""
        return self._styles.setdefault(drafter, DRAFT_STYLES[len(self._styles) % len(DRAFT_STYLES)])

    def end_line(self) -> None:
        """Sees to it that what follows begins on a line of its own."""
        if not self._is_at_line_start:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._is_at_line_start = True


def write_answer(stream: TokenStream, session: Session, writer: AnswerWriter | None) -> Generation:
    """Writes a stream to its end, or to the first Ctrl-C, and returns what was generated.

    Args:
        stream: The tokens.
        session: The one that makes them.
        writer: Where they are written; None writes nothing.
    """
    try:
        with interrupt_cancels(session):
            for token in stream:
                if writer:
                    writer.write(token)
    finally:
        if writer:
            writer.end_line()
    return stream.generation


@contextmanager
def interrupt_cancels(session: Session) -> Iterator[None]:
    """Lets the first Ctrl-C end the generation, which keeps its text; a second one interrupts as usual."""
    previous = signal.getsignal(signal.SIGINT)

    def cancel(*_: object) -> None:
        session.cancel()
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, cancel)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
