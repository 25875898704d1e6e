"""A memory of earlier answers in engines: off unless named, kept on request, without effect on the text."""

from __future__ import annotations

from pathlib import Path

import pytest

import cera_core
from cera_core.drafting.memory import memory_path
from cera_core.engine import Engine
from cera_core.errors import ConfigError, InvalidInputError
from support.tiny_gguf import write_tiny_gguf

PROMPT = list(range(3, 30))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))


def engine_of(tiny: Path, memory: str | None = "notes", **options: object) -> Engine:
    return cera_core.load(
        tiny,
        backend="numpy",
        backend_options={"exact": True},
        memory=memory,
        max_tokens=24,
        ignore_eos=True,
        adaptive=False,
        **options,
    )


def test_an_answer_is_drafted_from_in_the_next_session_and_the_text_stays_the_same(tiny: Path) -> None:
    plain = engine_of(tiny, memory=None).generate(PROMPT, drafter=None)
    engine = engine_of(tiny)
    first, second = engine.generate(PROMPT), engine.generate(PROMPT)
    assert first.token_ids == second.token_ids == plain.token_ids
    assert "memory" not in first.stats.drafters or first.stats.drafters["memory"].num_accepted == 0
    assert second.stats.drafters["memory"].num_accepted >= 12
    tokens = list(engine.stream(PROMPT))
    assert {token.drafter for token in tokens if token.from_draft} >= {"memory"}


def test_what_was_saved_is_drafted_from_in_another_process(tiny: Path) -> None:
    engine = engine_of(tiny)
    engine.generate(PROMPT)
    assert not memory_path("notes").exists()
    engine.save_memory()
    assert engine_of(tiny).generate(PROMPT).stats.drafters["memory"].num_accepted >= 12
    other = engine_of(tiny, memory="others").generate(PROMPT)
    assert "memory" not in other.stats.drafters or other.stats.drafters["memory"].num_accepted == 0


def test_nothing_is_remembered_unless_a_memory_is_named(tiny: Path) -> None:
    engine = engine_of(tiny, memory=None)
    assert engine.memory is None
    engine.generate(PROMPT)
    engine.save_memory()
    assert not memory_path("notes").parent.exists()
    assert "memory" not in engine.generate(PROMPT).stats.drafters


def test_without_a_drafter_nothing_is_drafted_from_memory_but_the_answer_is_remembered(tiny: Path) -> None:
    engine = engine_of(tiny)
    engine.generate(PROMPT)
    assert engine.generate(PROMPT, drafter=None).stats.num_drafted == 0
    assert engine.memory is not None
    assert engine.memory.num_answers == 2


def test_memory_of_another_tokenizer_is_refused_when_the_engine_is_made(tiny: Path) -> None:
    memory_path("notes").parent.mkdir(parents=True)
    memory_path("notes").write_text('{"format": 1, "tokenizer": "another", "num_answers": 0}\n')
    with pytest.raises(InvalidInputError, match="found 'another'"):
        engine_of(tiny)


@pytest.mark.parametrize("name", ["", "../notes", "a/b", ".hidden", "x" * 65])
def test_name_that_is_no_file_name_is_refused(tiny: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="memory"):
        engine_of(tiny, memory=name)
