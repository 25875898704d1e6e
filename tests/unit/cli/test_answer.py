"""Tokens reach a terminal styled and harmless, a pipe as they are."""

from io import StringIO
from types import SimpleNamespace

import pytest

from cera_core.cli import answer
from cera_core.cli.answer import DRAFT_STYLES, AnswerWriter
from cera_core.generation import Token


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    monkeypatch.setattr(answer, "sys", SimpleNamespace(stdout=stream))
    return stream


def plain(text: str) -> Token:
    return Token(1, text)


def drafted(text: str, drafter: str = "a") -> Token:
    return Token(1, text, from_draft=True, drafter=drafter)


def test_accepted_tokens_are_underlined_and_coloured(terminal: Terminal) -> None:
    writer = AnswerWriter(show_drafts=True)
    for token in (plain("one"), drafted(" two")):
        writer.write(token)
    assert terminal.getvalue() == "one\x1b[4;38;2;86;180;233m two\x1b[0m"


def test_drafters_can_be_told_apart_without_colour(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    writer = AnswerWriter(show_drafts=True)
    for name in "abcd":
        writer.write(drafted("x", name))
    codes = [part.removesuffix("mx\x1b[0m") for part in terminal.getvalue().split("\x1b[") if part.endswith("mx")]
    assert len(set(codes)) == len(DRAFT_STYLES) == 4
    assert all("4" in code.removesuffix("mx").split(";") for code in codes)  # 4 is underlined


def test_a_drafter_keeps_its_style() -> None:
    writer = AnswerWriter()
    assert writer.style_of("a") == writer.style_of("a") != writer.style_of("b")


def test_nothing_is_styled_unless_asked(terminal: Terminal) -> None:
    AnswerWriter().write(drafted("two"))
    assert terminal.getvalue() == "two"


def test_control_characters_cannot_steer_the_terminal(terminal: Terminal) -> None:
    AnswerWriter().write(plain("a\x1b[2Jb\tc\n\x9b\x7f"))
    assert terminal.getvalue() == "a\N{REPLACEMENT CHARACTER}[2Jb\tc\n" + 2 * "\N{REPLACEMENT CHARACTER}"


def test_text_is_not_wrapped_or_read_as_markup(terminal: Terminal) -> None:
    text = "[bold]" + "long " * 100
    AnswerWriter(show_drafts=True).write(drafted(text))
    assert text in terminal.getvalue()


def test_a_pipe_gets_the_text_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    writer = AnswerWriter(show_drafts=True)
    for token in (plain("a\x1b"), drafted("b\r")):
        writer.write(token)
    assert capsys.readouterr().out == "a\x1bb\r"


@pytest.mark.parametrize(("texts", "written"), [([], ""), (["a"], "a\n"), (["a\n"], "a\n"), (["a", ""], "a\n")])
def test_the_answer_ends_its_line_once(capsys: pytest.CaptureFixture[str], texts: list[str], written: str) -> None:
    writer = AnswerWriter()
    for text in texts:
        writer.write(plain(text))
    writer.end_line()
    writer.end_line()
    assert capsys.readouterr().out == written
