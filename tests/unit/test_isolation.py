"""A plugin that misbehaves, installed like any other: the text stays, the fault is counted, said once, and ended."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cera_core
from cera_core import Engine
from cera_core.generation import Generation
from support.plugin_package import install_plugin
from support.tiny_gguf import write_tiny_gguf

PLUGIN = '''
import time
import numpy
from cera_core import Draft, Drafter, DrafterSpec, IncrementalDrafter, hookimpl

def raises(tokens, max_k):
    raise RuntimeError("the drafter's own")

def overwrites_list(tokens, max_k):
    tokens[0] = 7

def overwrites_array(tokens, max_k):
    numpy.asarray(tokens)[0] = 7

def unlocks_array(tokens, max_k):
    numpy.asarray(tokens).setflags(write=True)

ANSWERS = {
    "raises": raises,
    "says-nothing": lambda tokens, max_k: None,
    "says-words": lambda tokens, max_k: ["and", "so"],
    "says-fractions": lambda tokens, max_k: [0.5],
    "says-negative": lambda tokens, max_k: [-1],
    "says-too-large": lambda tokens, max_k: [10**9],
    "says-too-much": lambda tokens, max_k: [7] * 10_000,
    "doubts-wrongly": lambda tokens, max_k: Draft([7][:max_k], confidences=[7.0]),
    "overwrites-list": overwrites_list,
    "overwrites-array": overwrites_array,
    "unlocks-array": unlocks_array,
}

class Misbehaving(Drafter):
    def __init__(self, answer):
        self.answer = answer
    def draft(self, tokens, max_k):
        return self.answer(tokens, max_k)
    def clone(self):
        return Misbehaving(self.answer)

class Slow(Drafter):
    num_calls = 0
    def draft(self, tokens, max_k):
        Slow.num_calls += 1
        time.sleep(0.02)
        return [7][:max_k]
    def clone(self):
        return Slow()

class Scribbling(IncrementalDrafter):
    """Writes over what it keeps of the history."""
    def extend(self, new_tokens):
        pass
    def propose(self, max_k):
        draft = list(self.history[-4:])
        self.history[:] = type(self.history)("i", [0] * len(self.history))
        return draft[:max_k]
    def clone(self):
        return Scribbling()

class Keeping(Drafter):
    """Keeps every view it was lent, with a copy of what it then said."""
    kept = []
    def draft(self, tokens, max_k):
        Keeping.kept.append((tokens, list(tokens)))
        return [int(tokens[-1]), 7][:max_k]
    def clone(self):
        return Keeping()

@hookimpl
def cera_register_drafters(register):
    def add(name, create):
        register(DrafterSpec(name=name, summary="", create=lambda options, context: create()))
    for name, answer in ANSWERS.items():
        add(name, lambda answer=answer: Misbehaving(answer))
    add("slow", Slow)
    add("scribbling", Scribbling)
    add("keeping", Keeping)

@hookimpl
def cera_round_finished(round):
    raise OSError("the observer's own")
'''
OPTIONS = {"max_tokens": 24, "ignore_eos": True, "temperature": 0.8, "seed": 5}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.syspath_prepend(tmp_path)
    install_plugin(tmp_path, "mischief", PLUGIN, distribution="mischief-maker", version="6.6")
    model = write_tiny_gguf(tmp_path / "tiny.gguf", seed=2)
    yield cera_core.load(model, backend="numpy", backend_options={"exact": True})
    del sys.modules["plugin_mischief"]


def answer(engine: Engine, drafter: str | None, **options: object) -> Generation:
    return engine.generate("on and on and on and on", drafter=drafter, **OPTIONS | options)


@pytest.mark.parametrize(
    ("drafter", "fault"),
    [
        ("raises", "RuntimeError"),
        ("says-nothing", "TypeError"),
        ("says-words", "TypeError"),
        ("says-fractions", "TypeError"),
        ("says-negative", "outside_vocabulary"),
        ("says-too-large", "outside_vocabulary"),
        ("says-too-much", "too_long"),
        ("doubts-wrongly", "confidences"),
        ("overwrites-list", "TypeError"),
        ("overwrites-array", "ValueError"),
        ("unlocks-array", "ValueError"),
    ],
)
def test_fault_is_counted_and_said_once_and_ends_with_quarantine(
    engine: Engine, drafter: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    plain = answer(engine, None)
    with caplog.at_level(logging.WARNING, "cera"):
        caplog.clear()
        drafted = answer(engine, drafter, adaptive=False)
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.drafters[drafter].num_faults == {fault: 3}
    assert drafted.stats.skip_reasons["the drafter is quarantined"] > 0
    messages = [message for message in caplog.messages if message.startswith("The drafter")]
    first, last = messages
    assert first.startswith(f"The drafter '{drafter}' of mischief-maker 6.6 ")
    assert last == (
        f"The drafter '{drafter}' of mischief-maker 6.6 broke its contract 3 times in a row and is not asked again in "
        "this session."
    )


def test_drafter_slower_than_plain_decoding_is_said_once_and_ended(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cera_core.speculation.budget._ASKING_SHARE", 1000.0)  # else hundreds of rounds lie between
    plain = answer(engine, None)
    with caplog.at_level(logging.WARNING, "cera"):
        caplog.clear()
        drafted = answer(engine, "slow")
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.drafters["slow"].num_faults == {"slow": 3}
    (message,) = (message for message in caplog.messages if message.startswith("The drafter"))
    assert re.match(
        r"The drafter 'slow' of mischief-maker 6\.6 was slower than plain decoding \(\d+ ms a guess\) 3 times in a row "
        "and is not asked again",
        message,
    )


def test_slow_drafter_costs_a_few_guesses_at_most(engine: Engine) -> None:
    drafted = answer(engine, "slow")
    assert sys.modules["plugin_mischief"].Slow.num_calls <= 2
    assert drafted.stats.skip_reasons["asking the drafter costs more than it brings"] > 15


def test_slow_drafter_is_what_was_asked_for_where_the_budget_is_off(engine: Engine) -> None:
    drafted = answer(engine, "slow", adaptive=False, max_tokens=8)
    assert not drafted.stats.drafters["slow"].num_faults
    assert drafted.token_ids == answer(engine, None, max_tokens=8).token_ids


def test_slow_member_does_not_cost_the_others(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cera_core.speculation.budget._ASKING_SHARE", 1000.0)
    config = engine.config.updated({"drafter": "auto", "drafters": {"auto": {"drafters": ["slow", "keeping"]}}})
    both = Engine(engine.model, engine.tokenizer, config, engine.plugins)
    stats = both.generate("on and on and on and on", **OPTIONS).stats
    assert stats.drafters["slow"].num_faults == {"slow": 3}
    assert not stats.drafters["keeping"].num_faults
    assert "the drafter is quarantined" not in stats.skip_reasons


def test_drafter_that_writes_over_what_it_keeps_harms_only_its_guesses(engine: Engine) -> None:
    drafted = answer(engine, "scribbling", adaptive=False)
    assert drafted.token_ids == answer(engine, None).token_ids
    assert drafted.stats.num_drafted > 0


def test_view_that_was_lent_never_changes(engine: Engine) -> None:
    session = engine.session(drafter="keeping", **OPTIONS)
    session.append("on and on and on and on")
    session.generate(adaptive=False)
    session.truncate(session.position - 10)
    session.append("and something else")
    session.generate(adaptive=False)
    kept = sys.modules["plugin_mischief"].Keeping.kept
    assert len(kept) > 10
    assert all(list(view) == copy for view, copy in kept)


def test_observer_that_raises_is_said_once_and_not_called_again(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "cera"):
        texts = [answer(engine, None).token_ids for _ in range(2)]
    assert texts[0] == texts[1]
    assert len(texts[0]) == OPTIONS["max_tokens"]
    assert caplog.messages == ["The observer 'mischief' of mischief-maker 6.6 failed and is not called again."]
