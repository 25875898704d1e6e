"""`cera corpus build` makes a corpus that `cera run` drafts from; `cera corpus info` shows and checks it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.tiny_gguf import write_tiny_gguf

Cera = Callable[..., Any]


@pytest.fixture
def built(cera: Cera, tiny_model: Path) -> Any:
    Path("docs").mkdir()
    Path("docs/a.txt").write_text("def name(): the name of the name\n" * 4, encoding="utf-8")
    Path("docs/.hidden").write_text("hidden", encoding="utf-8")
    Path("docs/b.bin").write_bytes(b"\0")
    return cera("corpus", "build", "docs", "-o", "docs.corpus", "-m", tiny_model)


def test_build_says_what_was_read_and_what_skipped(built: Any) -> None:
    assert (built.status, built.out) == (0, "docs.corpus\n")
    lines = built.err.splitlines()
    assert lines[0].startswith("files: 1, documents: 1, tokens: ")
    assert lines[1:] == ["skipped, hidden: 1", "skipped, not text: 1"]


@pytest.mark.usefixtures("built")
def test_info_shows_what_it_holds(cera: Cera) -> None:
    found = json.loads(cera("corpus", "info", "docs.corpus", "--json").out)
    assert (found["num_documents"], found["format_version"]) == (1, 1)
    assert found["num_bytes"] == Path("docs.corpus").stat().st_size
    assert f"num tokens      {found['num_tokens']}\n" in cera("corpus", "info", "docs.corpus").out


@pytest.mark.usefixtures("built")
def test_info_finds_damage(cera: Cera) -> None:
    content = bytearray(Path("docs.corpus").read_bytes())
    content[-1] ^= 1
    Path("docs.corpus").write_bytes(content)
    outcome = cera("corpus", "info", "docs.corpus")
    assert (outcome.status, outcome.out) == (2, "")
    assert "it is damaged. Build it with 'cera corpus build'." in outcome.err


@pytest.mark.usefixtures("built")
def test_text_is_the_same_with_the_corpus(cera: Cera, tiny_model: Path) -> None:
    flags = ("run", "the name of", "-m", tiny_model, "--backend", "numpy", "--max-tokens", "8")
    drafting = ("--drafter", "corpus", "--drafter-option", 'files=["docs.corpus"]')
    assert cera(*flags, *drafting).out == cera(*flags, "--drafter", "none").out != ""


@pytest.mark.usefixtures("built")
def test_corpus_of_another_tokenizer_is_refused(cera: Cera, tmp_path: Path) -> None:
    other = write_tiny_gguf(tmp_path / "other.gguf", add_bos=True)
    outcome = cera("run", "a", "-m", other, "--drafter", "corpus", "--drafter-option", 'files=["docs.corpus"]')
    assert outcome.status == 2
    assert "must be built with the tokenizer" in outcome.err
    assert "Build it anew with '--model'" in outcome.err


def test_without_text_there_is_an_error(cera: Cera, tiny_model: Path) -> None:
    Path("empty").mkdir()
    outcome = cera("corpus", "build", "empty", "-o", "a.corpus", "-m", tiny_model)
    assert outcome.status == 2
    assert outcome.err.startswith("Error: A corpus must have text, and none was found in 'empty'.")


def test_without_a_command_the_help_is_shown(cera: Cera) -> None:
    outcome = cera("corpus")
    assert outcome.status == 0
    assert "build" in outcome.out
    assert "info" in outcome.out
