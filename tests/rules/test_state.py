"""Rules 14 to 18: whatever a session went through, it is like a fresh one, and what it keeps is bounded."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from random import Random
from typing import Any

import pytest

import cera_core
from cera_core.drafter import Drafter
from cera_core.drafting.guard import GuardedDrafter
from cera_core.engine import Engine
from cera_core.errors import InvalidInputError
from cera_core.model import InferenceState
from cera_core.session_drafters import MAX_KEPT
from cera_core.specs import DrafterContext
from cera_core.testing.drafter_checks import check_replaced_history_is_like_fresh, check_shrunken_history_is_like_fresh
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter, RandomDrafter
from cera_core.testing.fakes import ScriptedModel, TableModel
from support.corpora import write_corpus
from support.plugin_package import install_plugin
from support.rounds import RoundLog
from support.sessions import PROMPT, assert_consistent, plain, session_of
from support.small_models import drafter_names, options_of
from support.tiny_gguf import write_tiny_gguf

EIGHT: dict[str, Any] = {"adaptive": False, "max_draft_tokens": 8}
TEXT = plain(max_tokens=60).token_ids


FEW_BYTES = 2000
"""What a drafter may hold and not say: it is nothing that grows with the session."""


def drafter(name: str) -> Drafter:
    return cera_core.create_drafter(name, **options_of(name, TEXT))


def cut(tokens: list[int]) -> list[int]:
    return tokens[:-13]


def replaced(tokens: list[int]) -> list[int]:
    return [*PROMPT, *tokens[len(PROMPT) : -20], *tokens[len(PROMPT) : len(PROMPT) + 20]]


def cut_and_grown(tokens: list[int]) -> list[int]:
    return [*tokens[:-25], 3, 9, 3, 9, 3]


@pytest.mark.parametrize("change", [cut, replaced, cut_and_grown])
@pytest.mark.parametrize("name", drafter_names())
def test_rule_14_after_a_history_shrank_was_replaced_or_grew_anew_each_drafter_answers_like_a_fresh_one(
    name: str, change: Callable[[list[int]], list[int]]
) -> None:
    def generated(session: Any, log: RoundLog) -> list[Any]:
        log.rounds.clear()
        session.generate(drafter=used, max_tokens=30, **EIGHT)
        return [(each.position, each.num_drafted, each.num_accepted, each.source) for each in log.rounds]

    used, log, fresh_log = drafter(name), RoundLog(), RoundLog()
    session = session_of(observers=log.observers)
    session.generate(drafter=used, max_tokens=60, **EIGHT)
    history = change(session.token_ids)
    session.replace(history)
    rounds = generated(session, log)
    assert rounds == generated(session_of(history, observers=fresh_log.observers), fresh_log)
    assert sum(num_drafted for _, num_drafted, _, _ in rounds) > 0


@pytest.mark.parametrize("check", [check_shrunken_history_is_like_fresh, check_replaced_history_is_like_fresh])
@pytest.mark.parametrize("name", drafter_names())
def test_rule_14_awkward_histories_that_shrink_or_are_replaced_are_answered_like_fresh_ones(
    name: str, check: Callable[[Any], None]
) -> None:
    made = drafter(name)
    check(made.clone)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)
    return cera_core.load(path, backend="numpy", backend_options={"exact": True}, max_tokens=24, ignore_eos=True)


@pytest.mark.parametrize("name", [*drafter_names(), None])
def test_rule_15_the_next_turn_of_a_chat_reuses_the_cache_up_to_the_first_differing_token(
    engine: Engine, name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[int] = []
    forward = engine.model.forward
    monkeypatch.setattr(engine.model, "forward", lambda ids, state: fed.append(len(ids)) or forward(ids, state))
    session = engine.session(drafter=name, **EIGHT)
    messages = [{"role": "user", "content": "return the value of the text"}]
    answer = engine.chat(messages, session=session)
    messages += [{"role": "assistant", "content": answer.text}, {"role": "user", "content": "and again"}]
    prompt = engine.chat_ids(messages)
    num_shared = sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(session.token_ids, prompt, strict=False))
    )
    assert num_shared > 10
    fed.clear()
    assert session.replace(prompt) == num_shared
    session.prefill()
    assert sum(fed) == len(prompt) - num_shared
    assert session.generate(drafter=name).token_ids == engine.chat(messages, drafter=None).token_ids


@pytest.mark.parametrize("name", drafter_names())
def test_rule_16_the_memory_of_a_drafter_is_what_it_says_and_bounded_for_each_token(name: str) -> None:
    text = [Random(1).randrange(5000) for _ in range(4000)]
    guarded = GuardedDrafter(name, drafter(name), 5000).clone()
    before = guarded.memory_bytes()
    tracemalloc.start()
    guarded.draft(text, 8)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = guarded.memory_bytes() - before
    assert 0.4 * (held - FEW_BYTES) < said <= 2.5 * held
    assert said < 2000 * len(text)
    guarded.reset()
    guarded.draft(text[:10], 8)
    assert guarded.memory_bytes() - before <= said / 10


def test_rule_16_a_session_keeps_a_bounded_number_of_drafters_and_evicts_the_one_not_used_for_longest() -> None:
    made: list[str] = []

    def make(name: str) -> Drafter:
        made.append(name)
        return RandomDrafter(16)

    session = session_of(make_drafter=make)
    names = [f"drafter-{number}" for number in range(MAX_KEPT + 1)]
    for name in [*names, names[-1], names[1], names[0]]:
        session.generate(drafter=name, max_tokens=1)
    assert made == [*names, names[0]]


@pytest.mark.parametrize("name", drafter_names())
def test_rule_16_without_being_asked_nothing_is_remembered_from_session_to_session(name: str) -> None:
    """What one session said is no guess in the next, although the next begins like its end."""
    used = cera_core.create_drafter(name)
    first = session_of(drafter=used)
    first.generate(max_tokens=60, **EIGHT)
    assert used.memory_bytes() == cera_core.create_drafter(name).memory_bytes()
    second = session_of(TEXT[:9], drafter=used)
    assert second.generate(max_tokens=2, **EIGHT).stats.num_drafted == 0


def test_rule_16_what_is_saved_for_another_tokenizer_or_in_another_version_is_an_error(tmp_path: Path) -> None:
    from cera_aho_corasick.phrases import load_phrases, save_phrases

    path = tmp_path / "phrases"
    save_phrases(path, [[1, 2, 3, 4]], "one tokenizer")
    assert load_phrases(path, DrafterContext(tokenizer_fingerprint="one tokenizer")) == [[1, 2, 3, 4]]
    with pytest.raises(InvalidInputError, match="'another tokenizer'"):
        load_phrases(path, DrafterContext(tokenizer_fingerprint="another tokenizer"))
    path.write_text(path.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(InvalidInputError, match="version"):
        load_phrases(path, DrafterContext())


@pytest.mark.parametrize("vocab_size", [65_537, 262_144])
@pytest.mark.parametrize("name", drafter_names())
def test_rule_17_ids_of_large_vocabularies_are_drafted_exactly(name: str, vocab_size: int, tmp_path: Path) -> None:
    script = [vocab_size - 1, 0, vocab_size - 2, 65_535, 65_536 % vocab_size, 1, vocab_size - 3, vocab_size // 2]
    model = ScriptedModel(script, vocab_size=vocab_size, max_seq_len=128)
    prompt = script * 2
    options: dict[str, dict[str, Any]] = {
        "aho-corasick": {"phrases": [script]},
        "corpus": {"files": [write_corpus(tmp_path / "a.corpus", {"script": script * 3}, size=vocab_size)]},
    }
    used = cera_core.create_drafter(name, **options.get(name, {}))
    found = session_of(prompt, model=model).generate(drafter=used, max_tokens=16, **EIGHT)
    assert found.token_ids == script * 2
    assert found.stats.acceptance_rate > 0.7


def test_rule_17_ids_outside_the_vocabulary_are_dropped_and_counted() -> None:
    for outside in (-1, 16, 2**40):
        partly_outside = BrokenDrafter(lambda tokens, max_k: [*TEXT[len(tokens) - 16 :][:2], outside, 3][:max_k])  # noqa: B023
        found = session_of().generate(drafter=partly_outside, max_tokens=9, **EIGHT)
        assert found.token_ids == TEXT[:9]
        assert found.stats.drafters["BrokenDrafter"].num_faults == {"outside_vocabulary": 2}
        assert (found.stats.num_drafted, found.stats.num_accepted) == (6, 6)


@pytest.mark.parametrize("headroom", [0, 1, 3])
def test_rule_18_a_model_that_can_go_back_a_little_is_drafted_for_no_further_and_a_lost_state_is_fed_again(
    headroom: int,
) -> None:
    class Watched(TableModel):
        lost = 0

        def truncate(self, state: InferenceState, length: int) -> None:
            self.lost += state.seq_len - length > headroom
            super().truncate(state, length)

    model = Watched(rewind_headroom=headroom)
    session = session_of(model=model)
    found = session.generate(drafter=OracleDrafter([*PROMPT, *TEXT], 16, 5), max_tokens=40, **EIGHT)
    assert found.token_ids == TEXT[:40]
    assert max(model.forward_sizes[1:]) == 1 + headroom
    assert model.lost == 0
    if not headroom:
        assert found.stats.skip_reasons["the model cannot rewind now"] == 39
    session.truncate(len(PROMPT) + 5)
    session.generate(max_tokens=35)
    assert session.token_ids == [*PROMPT, *TEXT[:40]]
    assert_consistent(session)


NO_REWIND = """
from cera_core.hookspecs import hookimpl
from cera_core.specs import ModelSpec
from cera_core.testing.fakes import TableModel

class Recurrent(TableModel):
    supports_rewind = False

@hookimpl
def cera_register_models(register):
    load = lambda file, options: Recurrent(vocab_size=320, max_seq_len=512, rewind_headroom=0)
    register(ModelSpec(name="recurrent", summary="Cannot go back.", load=load))
"""


def test_rule_18_a_model_that_cannot_go_back_says_so_once_at_load_and_is_decoded_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    install_plugin(tmp_path, "recurrent", NO_REWIND)
    path = write_tiny_gguf(tmp_path / "tiny.gguf")
    with caplog.at_level(logging.WARNING, "cera"):
        engine = cera_core.load(path, backend="recurrent")
        for _ in range(2):
            found = engine.generate([5, 6, 7] * 6, max_tokens=8, adaptive=False, ignore_eos=True)
        cera_core.load(path, backend="recurrent", drafter=None)
    assert caplog.messages == [
        "Nothing is drafted with this model, because the model cannot rewind; the text is the same without."
    ]
    assert found.stats.skip_reasons["the model cannot rewind"] == 7
