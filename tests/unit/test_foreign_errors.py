"""Errors of foreign code: quoted on one line whatever they are, and only a Ctrl-C goes through."""

from __future__ import annotations

import pytest

from cera_core.errors import PluginError
from cera_core.foreign_errors import MAX_QUOTED_LENGTH, error_line, let_interrupt_through


class SilentError(Exception):
    def __str__(self) -> str:
        raise SystemExit


class InterruptingError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (ValueError(), "ValueError"),
        (SilentError(), "SilentError"),
        (ValueError("x" * 10_000), f"ValueError: {'x' * MAX_QUOTED_LENGTH}"),
        (PluginError("x" * 10_000), "x" * 10_000),
    ],
    ids=["lines", "empty", "cannot say", "long", "ours"],
)
def test_error_is_quoted_on_one_line(error: Exception, line: str) -> None:
    assert error_line(error) == line


def test_interrupt_while_an_error_says_what_it_is_goes_through() -> None:
    with pytest.raises(KeyboardInterrupt):
        error_line(InterruptingError())


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), GeneratorExit(), BaseException()])
def test_only_an_interrupt_is_raised_again(error: BaseException) -> None:
    let_interrupt_through(error)
    with pytest.raises(KeyboardInterrupt):
        let_interrupt_through(KeyboardInterrupt())
