"""Drafting from a prediction of the answer, also behind local differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

import pytest

from cera_core import InvalidInputError, Session
from cera_core.drafting.prediction import PredictionDrafter
from cera_core.testing import DrafterSuite
from cera_core.testing.fakes import ScriptedModel, TableModel

PROMPT = [9, 9, 9]


def drafted(prediction: list[int], answer: list[int], max_k: int = 3) -> list[int]:
    """Returns what is drafted after each token of the answer was fed."""
    drafter = PredictionDrafter(prediction, len(PROMPT))
    for end in range(len(answer) + 1):
        draft = drafter.draft(PROMPT + answer[:end], max_k)
    return list(draft.token_ids)


def test_an_answer_that_has_not_begun_is_drafted_from_the_beginning() -> None:
    assert drafted([1, 2, 3, 4], []) == [1, 2, 3]


def test_the_prediction_is_followed_while_it_agrees() -> None:
    assert drafted([1, 2, 3, 4, 5, 6], [1, 2]) == [3, 4, 5]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ([1, 2, 8, 4], [5, 6, 7]),  # a token replaced
        ([1, 2, 4], [5, 6, 7]),  # a token left out
        ([1, 2, 8, 8, 3], [4, 5, 6]),  # tokens put in
    ],
)
def test_drafting_goes_on_behind_a_local_difference(answer: list[int], expected: list[int]) -> None:
    assert drafted([1, 2, 3, 4, 5, 6, 7], answer) == expected


LINES = [[100 + line, 1, 2, 3, 200 + line, 4, 5, 6, 7] for line in range(12)]
"""Lines that begin, and go on in the middle, each with a token of its own."""


def accepted_share(prediction: list[int], answer: list[int]) -> float:
    """Returns the share of an answer that drafts of a prediction get right, if each is verified."""
    drafter, num_accepted, position = PredictionDrafter(prediction, 0), 0, 0
    while position < len(answer):
        position += 1
        for token_id in drafter.draft(answer[:position], 8).token_ids:
            if position == len(answer) or answer[position] != token_id:
                break
            position += 1
            num_accepted += 1
    return num_accepted / len(answer)


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: [[*line[:3], 999, *line[4:]] if at % 3 == 0 else line for at, line in enumerate(lines)],
        lambda lines: [*lines[:4], [900, 901, 902, 903], *lines[4:]],
        lambda lines: [*lines[:4], *lines[7:]],
        lambda lines: [*lines[:2], *lines[5:9], *lines[2:5], *lines[9:]],
    ],
    ids=["words edited", "a line inserted", "lines deleted", "lines moved"],
)
def test_most_of_an_edited_text_is_drafted_right(edit: Callable[[list[list[int]]], list[list[int]]]) -> None:
    share = accepted_share([*chain.from_iterable(LINES)], [*chain.from_iterable(edit(LINES))])
    assert share > 0.7


def test_nothing_is_drafted_where_the_answer_has_left_the_prediction() -> None:
    assert drafted([1, 2, 3], [1, 8]) == []


def test_nothing_is_drafted_behind_the_end_of_the_prediction() -> None:
    assert drafted([1, 2], [1, 2]) == []


def test_of_several_places_the_longest_match_wins_and_then_the_nearest() -> None:
    prediction = [5, 1, 10, 6, 1, 11, 7, 1, 12]
    assert drafted(prediction, [6, 1], 1) == [11]
    assert drafted(prediction, [5, 1, 10, 8, 1], 1) == [11]


def test_the_prompt_is_not_taken_for_the_answer() -> None:
    drafter = PredictionDrafter([1, 2, 3, 4], 2)
    assert list(drafter.draft([1, 2], 2).token_ids) == [1, 2]


def test_a_history_that_shrank_is_followed_anew() -> None:
    drafter = PredictionDrafter([1, 2, 3, 4, 5], len(PROMPT))
    drafter.draft([*PROMPT, 1, 2, 3], 2)
    assert list(drafter.draft([*PROMPT, 1], 2).token_ids) == [2, 3]


def test_a_prediction_is_accepted_and_does_not_change_the_text() -> None:
    model = TableModel(vocab_size=32, order=3)
    session = Session(model)
    session.append(PROMPT)
    plain = session.generate(max_tokens=60)
    prediction = list(plain.token_ids)
    prediction[20] = (prediction[20] + 1) % 32
    del prediction[40]

    session.truncate(len(PROMPT))
    drafted = session.generate(max_tokens=60, prediction=prediction, adaptive=False, max_draft_tokens=8)

    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.drafters["prediction"].num_accepted > 40
    assert drafted.stats.num_rounds < 20


def test_a_prediction_works_beside_a_drafter_and_is_for_one_call() -> None:
    script = [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13]
    session = Session(ScriptedModel(script))
    session.append([1])
    first = session.generate(max_tokens=8, prediction=script[1:], adaptive=False)
    second = session.generate(max_tokens=8)

    assert "prediction" in first.stats.drafters
    assert not second.stats.drafters


def test_a_prediction_outside_the_vocabulary_is_refused() -> None:
    session = Session(TableModel(vocab_size=8))
    session.append([1])
    with pytest.raises(InvalidInputError, match="from 0 to 7"):
        session.generate(prediction=[8])
    with pytest.raises(InvalidInputError, match="tokenizer"):
        session.generate(prediction="text")


class TestContract(DrafterSuite):
    @pytest.fixture
    def make_drafter(self):
        return lambda: PredictionDrafter([7] * 30 + [1, 2, 3] * 5, 1)
