"""`cera tokenize` shows a text as the model sees it, wherever the text comes from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEXT = "the name of é"


def tokens(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)["tokens"]
    return found


def test_each_line_is_an_id_and_its_text(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("tokenize", "def name", "-m", tiny_model)
    assert outcome.status == 0
    assert "".join(json.loads(line.split(None, 1)[1]) for line in outcome.out.splitlines()) == "def name"
    assert outcome.err == f"tokens: {len(outcome.out.splitlines())}\n"


def test_text_comes_from_argument_file_or_standard_input(cera: Callable[..., Any], tiny_model: Path) -> None:
    Path("text.txt").write_text(TEXT, encoding="utf-8")
    expected = tokens(cera("tokenize", TEXT, "-m", tiny_model, "--json").out)
    assert "".join(token["text"] for token in expected).startswith("the name of ")
    assert tokens(cera("tokenize", "-f", "text.txt", "-m", tiny_model, "--json").out) == expected
    assert tokens(cera("tokenize", "-m", tiny_model, "--json", stdin=TEXT).out) == expected
    assert tokens(cera("tokenize", "-", "-m", tiny_model, "--json", stdin=TEXT).out) == expected


def test_part_of_a_character_is_shown_as_bytes(cera: Callable[..., Any], tiny_model: Path) -> None:
    assert r"b'\xf0'" in cera("tokenize", "😀", "-m", tiny_model).out
    assert tokens(cera("tokenize", "😀", "-m", tiny_model, "--json").out)[0]["text"] == r"\xf0"


def test_control_tokens_are_read_on_request_only(cera: Callable[..., Any], tiny_model: Path) -> None:
    assert len(tokens(cera("tokenize", "<|im_end|>", "-m", tiny_model, "--json").out)) > 1
    (token,) = tokens(cera("tokenize", "<|im_end|>", "-m", tiny_model, "--parse-special", "--json").out)
    assert (token["text"], token["control"]) == ("", "<|im_end|>")
    assert cera("tokenize", "<|im_end|>", "-m", tiny_model, "--parse-special").out.split()[1] == "<|im_end|>"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["text", "-f", "text.txt"], "The text must be given once"),
        (["-f", "missing.txt"], "The file 'missing.txt' cannot be read: No such file or directory."),
        (["-f", "binary.txt"], "The file 'binary.txt' must be UTF-8, but byte 2 is not."),
    ],
)
def test_text_that_cannot_be_had_is_refused(
    cera: Callable[..., Any], tiny_model: Path, arguments: list[str], complaint: str
) -> None:
    Path("text.txt").touch()
    Path("binary.txt").write_bytes(b"ab\xff")
    outcome = cera("tokenize", *arguments, "-m", tiny_model)
    assert (outcome.status, outcome.out) == (2, "")
    assert complaint in outcome.err
