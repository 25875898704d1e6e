"""Chat logs and JSON lines become prompts and answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cera_core.errors import InvalidInputError
from cera_core.instruments.transcripts import Transcript, read_transcripts


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def read(folder: Path, *lines: object, name: str = "log.jsonl") -> list[Transcript]:
    path = folder / name
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return list(read_transcripts(path, encode))


@pytest.mark.parametrize("key", ["output", "response", "completion", "answer"])
def test_prompt_and_answer_as_ids_or_text(tmp_path: Path, key: str) -> None:
    assert read(tmp_path, {"category": "chat", "prompt": [1, 2], key: "ab"}) == [Transcript("chat", (1, 2), (97, 98))]


def test_every_message_of_the_assistant_is_an_answer_to_those_before_it(tmp_path: Path) -> None:
    messages = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")]
    expected = [(tuple(encode(prompt)), tuple(encode(answer))) for prompt, answer in (("a", "b"), ("a\n\nb\n\nc", "d"))]
    by_role = {"messages": [{"role": role, "content": content} for role, content in messages]}
    by_speaker = {
        "conversations": [{"from": "gpt" if role == "assistant" else "human", "value": text} for role, text in messages]
    }
    for line in (by_role, by_speaker):
        transcripts = read(tmp_path, line)
        assert [(t.prompt, t.output) for t in transcripts] == expected
        assert transcripts[0].category == "log.jsonl"


def test_a_text_is_all_answer(tmp_path: Path) -> None:
    assert read(tmp_path, "one", "two", name="story.txt") == [Transcript("story.txt", (), tuple(encode("one\ntwo")))]
    assert read(tmp_path, {"text": "ab"}, {"token_ids": [5]}) == [
        Transcript("log.jsonl", (), (97, 98)),
        Transcript("log.jsonl", (), (5,)),
    ]


def test_an_empty_answer_is_passed_over(tmp_path: Path) -> None:
    assert read(tmp_path, {"prompt": "a", "output": ""}, {"prompt": "a", "output": []}) == []


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[1]",
        "{}",
        '{"prompt": "a"}',
        '{"prompt": "a", "output": 3}',
        '{"prompt": [-1], "output": "a"}',
        '{"prompt": "a", "output": [true]}',
        '{"prompt": "a", "output": "b", "answer": "c"}',
        '{"messages": [{"role": "user", "content": "a"}]}',
        '{"messages": [{"role": "assistant", "content": null}]}',
        '{"messages": ["a"]}',
    ],
)
def test_a_line_of_another_form_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidInputError, match=r"log\.jsonl, line 2(, column 2)?: must be"):
        read(tmp_path, {"text": "sound"}, line)
