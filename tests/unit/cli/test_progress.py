"""Progress is shown in a terminal only, and shows names as they are."""

from __future__ import annotations

import sys
from io import StringIO

import pytest

from cera_core.cli.progress import measured_progress, progress

ODD_NAMES = ("[/b]", "[red]", "a\N{ESCAPE}[2J")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown_in(terminal: StringIO, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """Puts a stream in the place of standard error, which pytest replaces between a fixture and its test."""
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    return terminal


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_steps_are_no_markup(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    terminal = shown_in(Terminal(), monkeypatch)
    with progress(2) as on_step:
        on_step(name)
    assert name.replace("\N{ESCAPE}", "\N{REPLACEMENT CHARACTER}") in terminal.getvalue()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_amounts_are_no_markup(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    terminal = shown_in(Terminal(), monkeypatch)
    with measured_progress() as show:
        show(1, 2, name)
    assert name.replace("\N{ESCAPE}", "\N{REPLACEMENT CHARACTER}") in terminal.getvalue()


def test_nothing_is_shown_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = shown_in(StringIO(), monkeypatch)
    with progress(1) as on_step, measured_progress() as show:
        on_step("a")
        show(1, 2, "b")
    assert pipe.getvalue() == ""
