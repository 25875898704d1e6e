"""Contestants are compared turn by turn, and what is no fair measurement is refused."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence

import pytest

import cera_core
from cera_core import Draft, Drafter, Engine
from cera_core.errors import CeraWarning, PluginError
from cera_core.generation import Generation
from cera_core.instruments.bench import CeraContestant, fallbacks_as_errors, measure
from cera_core.instruments.summary import lines_of
from cera_core.instruments.tasks import Task
from cera_core.speculation.stats import SpecStats
from support.tiny_gguf import write_tiny_gguf

TASK = Task("repeat", "copy", ("the text of the model and the text of the model",))


class FixedContestant:
    """Answers the same tokens, each time in the next of some numbers of seconds."""

    def __init__(
        self, name: str, seconds: Sequence[float], token_ids: Sequence[int] = (1, 2, 3, 4), plain: str = "plain"
    ):
        self.name, self.plain = name, plain
        self._seconds = iter(seconds)
        self._token_ids = list(token_ids)
        self.prepared: list[str] = []

    def prepare(self, task: Task) -> None:
        self.prepared.append(task.name)

    def run(self, task: Task) -> list[Generation]:
        stats = SpecStats(num_emitted=len(self._token_ids), total_seconds=next(self._seconds))
        return [Generation("", self._token_ids, "max_tokens", stats)]


class BrokenDrafter(Drafter):
    """Raises."""

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        raise RuntimeError("no")

    def clone(self) -> BrokenDrafter:
        return self


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)
    return cera_core.load(path, backend="numpy", backend_options={"exact": True}, max_tokens=24, ignore_eos=True)


def test_the_first_turn_does_not_count_and_turns_are_paired() -> None:
    order: list[str] = []
    plain = FixedContestant("plain", [100.0, 1.0, 2.0, 4.0])
    fast = FixedContestant("fast", [100.0, 0.5, 0.5, 4.0])
    results = measure([plain, fast], [TASK], repeats=3, on_run=lambda name, task: order.append(name))
    assert order == ["plain", "fast"] * 4
    assert plain.prepared == ["repeat"]
    lines = lines_of(results)
    assert [line.contestant for line in lines] == ["plain", "fast"]
    assert lines[0].speed_ups == (1.0, 1.0, 1.0)
    assert lines[1].speed_ups == (2.0, 4.0, 1.0)
    assert lines[1].speed_up == 2.0
    assert lines[0].tokens_per_second == 2.0


def test_tasks_of_a_category_are_added_up_before_speeds_are_compared() -> None:
    tasks = [TASK, Task("other", "copy", ("x",))]
    plain = FixedContestant("plain", [9.0, 1.0, 9.0, 3.0])
    fast = FixedContestant("fast", [9.0, 1.0, 9.0, 1.0])
    lines = lines_of(measure([plain, fast], tasks, repeats=1))
    assert [line.num_tasks for line in lines] == [2, 2]
    assert lines[1].speed_ups == (2.0,)


def test_another_answer_than_plain_is_seen() -> None:
    plain, other = FixedContestant("plain", [1.0] * 2), FixedContestant("other", [1.0] * 2, token_ids=[1, 2, 9, 4])
    results = measure([plain, other], [TASK], repeats=1)
    assert [result.equals_plain for result in results] == [True, False]


def test_the_machines_state_is_noted_before_each_run() -> None:
    states = iter(["warm-up", "one", "two"])
    results = measure([FixedContestant("plain", [1.0] * 3)], [TASK], repeats=2, machine_state=lambda: next(states))
    assert lines_of(results)[0].states == ("one", "two")


def test_an_answer_that_took_no_time_has_no_speed() -> None:
    nothing = FixedContestant("plain", [0.0, 0.0], token_ids=[])
    assert lines_of(measure([nothing], [TASK], repeats=1))[0].tokens_per_second == 0.0


def test_drafting_on_an_engine_gives_the_plain_answer(engine: Engine) -> None:
    contestants = [CeraContestant("plain", "plain", engine, None), CeraContestant("auto", "plain", engine, "auto")]
    task = Task("two turns", "copy", (TASK.turns[0], "and the text of the draft"))
    results = measure(contestants, [task], repeats=2)
    assert all(result.equals_plain for result in results)
    assert not any(result.rounds for result in results)
    assert {len(sample.token_ids) for result in results for sample in result.samples} == {48}
    assert results[0].stats.num_plain_steps == 48
    assert results[0].samples[0].token_ids == results[0].samples[1].token_ids


def test_the_rounds_of_the_last_turn_are_kept_where_they_are_asked_for(engine: Engine) -> None:
    (result,) = measure([CeraContestant("plain", "plain", engine, None, explain=True)], [TASK], repeats=2)
    assert [token_id for event in result.rounds for token_id in event.token_ids] == list(result.samples[-1].token_ids)


@pytest.mark.parametrize("k", [2, 5])
def test_a_contestant_has_options_of_its_own(engine: Engine, k: int) -> None:
    drafter = cera_core.create_drafter("prompt-lookup", ngram_min=1)
    fixed = CeraContestant("fixed", "fixed", engine, drafter, adaptive=False, max_draft_tokens=k)
    fixed.prepare(TASK)
    (generation,) = fixed.run(TASK)
    (counts,) = generation.stats.drafters.values()
    assert generation.rounds is None
    assert counts.drafted_by_position[0] > 0
    assert len(counts.drafted_by_position) == k


def test_the_second_turn_follows_the_first_answer(engine: Engine) -> None:
    contestant = CeraContestant("plain", "plain", engine, None)
    task = Task("two turns", "copy", (TASK.turns[0], "and the text of the draft"))
    contestant.prepare(task)
    first, second = contestant.run(task)
    conversation = [
        {"role": "user", "content": task.turns[0]},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": task.turns[1]},
    ]
    assert second.token_ids == engine.chat(conversation).token_ids


def test_a_faulty_drafter_ends_the_measurement(engine: Engine) -> None:
    contestant = CeraContestant("broken", "broken", engine, BrokenDrafter())
    with pytest.raises(PluginError, match="broken"):
        measure([contestant], [TASK], repeats=1)


def test_warnings_and_log_lines_are_errors_inside() -> None:
    needed = "task: a measurement must be without warnings, and there was this: slow"
    with pytest.raises(PluginError, match=needed), fallbacks_as_errors("task"):
        warnings.warn("slow", CeraWarning, stacklevel=1)
    with pytest.raises(PluginError, match="the next is tried"), fallbacks_as_errors("task"):
        logging.getLogger("cera").warning("the next is tried")
    with fallbacks_as_errors("task"):
        logging.getLogger("cera").info("nothing to worry about")
