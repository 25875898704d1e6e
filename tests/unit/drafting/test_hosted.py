"""A drafter inside another engine gets whole histories, and the engine gets ids that it can use."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cera_core import Draft, Drafter
from cera_core.drafting.hosted import HostedDrafter
from cera_core.errors import InvalidInputError


class CountingOn(Drafter):
    """Guesses the next numbers, and notes what became of its guesses."""

    def __init__(self, notes: list[tuple[list[int], int]]) -> None:
        self.notes = notes

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        return Draft([tokens[-1] + step for step in range(1, max_k + 1)])

    def accept(self, draft: Draft, num_accepted: int) -> None:
        self.notes.append((list(draft.token_ids), num_accepted))

    def clone(self) -> CountingOn:
        return CountingOn(self.notes)


class Failing(Drafter):
    """Raises."""

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        raise RuntimeError("no")

    def clone(self) -> Failing:
        return self


@pytest.fixture
def notes() -> list[tuple[list[int], int]]:
    return []


@pytest.fixture
def hosted(notes: list[tuple[list[int], int]]) -> HostedDrafter:
    return HostedDrafter(CountingOn(notes), vocab_size=100, max_draft_tokens=3)


def test_what_was_accepted_is_read_off_the_next_history(
    hosted: HostedDrafter, notes: list[tuple[list[int], int]]
) -> None:
    assert hosted.draft([1]) == [2, 3, 4]
    assert hosted.draft([1, 2, 3, 9]) == [10, 11, 12]
    hosted.draft([1, 2, 3, 9, 10, 11, 12, 50])
    hosted.draft([1, 2, 3, 9, 10, 11, 12, 50, 0])
    assert notes == [([2, 3, 4], 2), ([10, 11, 12], 3), ([51, 52, 53], 0)]


def test_another_history_tells_nothing_of_the_last_guess(
    hosted: HostedDrafter, notes: list[tuple[list[int], int]]
) -> None:
    hosted.draft([1, 2, 3])
    assert hosted.draft([7]) == [8, 9, 10]
    assert hosted.draft([9, 9, 9, 9]) == [10, 11, 12], "longer, but not by what was guessed for"
    assert notes == []


def test_a_drafter_in_quarantine_has_another_chance_with_another_history() -> None:
    hosted = HostedDrafter(Failing(), vocab_size=100)
    history = [1, 2]
    for token_id in range(3, 7):
        hosted.draft(history)
        history.append(token_id)
    assert hosted.guard.is_quarantined
    assert hosted.guard.num_faults["RuntimeError"] == 3
    hosted.draft([5])
    assert not hosted.guard.is_quarantined
    assert hosted.guard.num_faults["RuntimeError"] == 4


def test_no_more_is_guessed_than_the_host_has_room_for(hosted: HostedDrafter) -> None:
    assert hosted.draft([1], max_k=2) == [2, 3]
    assert hosted.draft([1], max_k=0) == []


def test_ids_outside_the_vocabulary_stay_here(hosted: HostedDrafter) -> None:
    assert hosted.draft([98]) == [99]
    assert hosted.guard.num_faults == {"outside_vocabulary": 1}


def test_nothing_to_guess_is_refused(notes: list[tuple[list[int], int]]) -> None:
    with pytest.raises(InvalidInputError, match="at least 1, found 0"):
        HostedDrafter(CountingOn(notes), vocab_size=100, max_draft_tokens=0)
