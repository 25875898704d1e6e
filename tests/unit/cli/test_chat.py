"""`cera chat` keeps a conversation, and the cache behind it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core.cli.main import main
from cera_core.session import Session
from support.tiny_gguf import write_tiny_gguf

SLOW = ("--backend-option", "seconds=0.02", "--max-tokens", "400", "--ignore-eos", "--drafter", "none")

pytestmark = pytest.mark.usefixtures("table_backend")


@pytest.fixture
def chat(cera: Callable[..., Any], tiny_model: Path) -> Callable[..., Any]:
    def run(*lines: str, flags: tuple[str, ...] = (), model: Path = tiny_model) -> Any:
        stdin = "".join(f"{line}\n" for line in lines)
        return cera("chat", "-m", model, "--max-tokens", "12", "--ignore-eos", *flags, stdin=stdin)

    return run


def expected_answers(model: Path, *messages: str, system: str | None = None) -> list[str]:
    engine = cera_core.load(model)
    conversation = [{"role": "system", "content": system}] if system else []
    answers = []
    for message in messages:
        conversation.append({"role": "user", "content": message})
        answers.append(engine.chat(conversation, max_tokens=12, ignore_eos=True).text)
        conversation.append({"role": "assistant", "content": answers[-1]})
    return answers


def written(answers: list[str]) -> str:
    return "\n".join(answer if answer.endswith("\n") else f"{answer}\n" for answer in answers)


def test_each_answer_knows_the_turns_before(chat: Callable[..., Any], tiny_model: Path) -> None:
    outcome = chat("the name", "the line", "the text")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == written(expected_answers(tiny_model, "the name", "the line", "the text"))


def test_system_text_is_kept_over_a_reset(chat: Callable[..., Any], tiny_model: Path) -> None:
    outcome = chat("the name", "/reset", "the line", flags=("--system", "Be short."))
    first, second = (expected_answers(tiny_model, text, system="Be short.")[0] for text in ("the name", "the line"))
    assert outcome.out == written([first]) + written([second])


def test_exit_ends_before_the_input_does_and_empty_lines_are_no_messages(
    chat: Callable[..., Any], tiny_model: Path
) -> None:
    outcome = chat("", "the name", "  ", "/exit", "the line")
    assert (outcome.status, outcome.out) == (0, written(expected_answers(tiny_model, "the name")))


def test_the_next_turn_keeps_the_cache_up_to_the_first_difference(
    chat: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[int, int]] = []
    replace = Session.replace

    def watched(self: Session, tokens: Any) -> int:
        before = self.position
        kept.append((replace(self, tokens), before))
        return kept[-1][0]

    monkeypatch.setattr(Session, "replace", watched)
    chat("the name", "the line")
    (first_kept, _), (second_kept, second_before) = kept
    assert first_kept == 0
    assert second_kept > second_before - 12 > 0  # at least the whole first prompt


def test_model_without_a_template_is_refused(chat: Callable[..., Any], tmp_path: Path) -> None:
    outcome = chat("the name", model=write_tiny_gguf(tmp_path / "base.gguf", chat_template=None))
    assert (outcome.status, outcome.out) == (2, "")
    assert "has none. `cera run` continues a text." in outcome.err


def test_a_conversation_that_is_too_long_ends_a_script(chat: Callable[..., Any]) -> None:
    outcome = chat("the name", "the line " * 200)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert "512" in outcome.err


def test_a_message_that_is_no_utf_8_is_told_its_byte(
    tiny_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"caf\xe9\n"), encoding="utf-8"))
    assert main(["chat", "-m", str(tiny_model)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == (
        "",
        "Error: A message must be UTF-8, but the byte 0xe9 is not. Convert it.\n",
    )


def test_summary_of_each_answer_on_request(chat: Callable[..., Any]) -> None:
    assert chat("the name", "the line", flags=("--show-drafts",)).err.count("tokens/s") == 2


def test_ctrl_c_stops_the_answer_and_not_the_chat(tmp_path: Path, tiny_model: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cera_core.cli.main", "chat", "-m", str(tiny_model), *SLOW],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"the name\n")
    process.stdin.flush()
    process.stdout.read(3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(b"/exit\n", timeout=30)
    assert (process.returncode, err) == (0, b"")
    assert out.endswith(b"\n")
