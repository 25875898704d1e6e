"""A replay accepts what the record agrees with, and counts costs as its table says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core import Draft, Drafter, create_drafter
from cera_core.errors import InvalidInputError
from cera_core.generation_options import GenerationOptions
from cera_core.instruments.replay import CostTable, Replay
from cera_core.instruments.transcripts import Transcript

FLAT = CostTable({1: 1.0, 16: 1.0}, 1000.0)  # a step so long that the drafter's own time is nothing
STEEP = CostTable({1: 1.0, 2: 2.0}, 1000.0)
WHOLE = GenerationOptions(adaptive=False, max_draft_tokens=4)


class ScriptedDrafter(Drafter):
    """Guesses the tokens after the history in a text it knows, or wrong ones."""

    def __init__(self, text: Sequence[int], offset: int = 0) -> None:
        self._text, self._offset = text, offset

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        return Draft([token + self._offset for token in self._text[len(tokens) : len(tokens) + max_k]])

    def clone(self) -> ScriptedDrafter:
        return ScriptedDrafter(self._text, self._offset)


def replayed(
    drafter: Drafter, *transcripts: Transcript, costs: CostTable = FLAT, options: GenerationOptions = WHOLE
) -> Replay:
    replay = Replay("scripted", drafter, costs, options)
    for transcript in transcripts:
        replay.add(transcript)
    return replay


def test_a_drafter_that_is_right_takes_five_tokens_a_round() -> None:
    text = list(range(100, 123))
    total = replayed(ScriptedDrafter(text), Transcript("a", tuple(text[:3]), tuple(text[3:]))).total
    assert (total.stats.num_emitted, total.stats.num_rounds, total.stats.num_accepted) == (20, 4, 16)
    assert total.num_steps == 4.0
    assert total.speed_up == pytest.approx(5.0, rel=1e-3)


def test_a_drafter_that_is_wrong_costs_what_its_rows_cost() -> None:
    text = list(range(100, 110))
    total = replayed(ScriptedDrafter(text, offset=1), Transcript("a", (), tuple(text)), costs=STEEP).total
    assert total.stats.num_accepted == 0
    assert total.stats.num_drafted == 4 * 6 + 3 + 2 + 1  # no draft is longer than what is left of the text
    assert total.num_steps == 10 + total.stats.num_drafted


def test_the_budget_stops_asking_a_drafter_that_does_not_pay() -> None:
    text = list(range(100, 400))
    adaptive = GenerationOptions()
    total = replayed(
        ScriptedDrafter(text, offset=1), Transcript("a", (), tuple(text)), costs=STEEP, options=adaptive
    ).total
    assert total.speed_up > 0.97


def test_categories_are_apart_and_together() -> None:
    text = tuple(range(100, 110))
    replay = replayed(
        ScriptedDrafter(text), Transcript("a", (), text), Transcript("b", (), text), Transcript("a", (), text)
    )
    assert [(result.category, result.num_transcripts) for result in replay.results] == [("a", 2), ("b", 1)]
    assert replay.total.num_transcripts == 3
    assert replay.total.stats.num_emitted == 30


def test_every_transcript_meets_a_drafter_without_memory() -> None:
    text = (1, 2, 3, 4, 5, 6, 7, 8)
    replay = replayed(create_drafter("suffix-automaton"), Transcript("a", (), text), Transcript("a", (), text))
    assert replay.total.stats.num_drafted == 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(0, 20), st.booleans())
def test_every_token_is_committed_once(text: list[int], num_prompt: int, adaptive: bool) -> None:
    transcript = Transcript("a", tuple(text[:num_prompt]), tuple(text[num_prompt:]) or (0,))
    options = GenerationOptions(adaptive=adaptive, max_draft_tokens=5)
    stats = replayed(create_drafter("prompt-lookup"), transcript, costs=STEEP, options=options).total.stats
    assert stats.num_plain_steps + stats.num_rounds + stats.num_accepted == len(transcript.output)


def test_costs_lie_on_lines_between_the_points() -> None:
    costs = CostTable({1: 2.0, 4: 4.0, 8: 8.0}, 1.0)
    assert [costs(num_rows) for num_rows in (1, 2, 4, 6, 8, 12)] == pytest.approx([1, 4 / 3, 2, 3, 4, 6])
    assert CostTable({1: 5.0}, 1.0)(16) == 1.0


@pytest.mark.parametrize("points", [{}, {2: 1.0}, {0: 1.0, 1: 1.0}, {1: 0.0}, {1: 1.0, 2: -1.0}])
def test_a_table_without_sense_is_refused(points: dict[int, float]) -> None:
    with pytest.raises(InvalidInputError, match="cost table"):
        CostTable(points, 1.0)
