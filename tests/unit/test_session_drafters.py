"""The drafters of a session: made when they are first asked for, kept with what was learned, forgotten in turn."""

from __future__ import annotations

from typing import Any

import pytest

from cera_core.drafting.prediction import PredictionDrafter
from cera_core.errors import InvalidInputError
from cera_core.session_drafters import MAX_KEPT, SessionDrafters
from cera_core.testing.drafters import OracleDrafter


def test_none_is_no_drafter_by_either_name() -> None:
    drafters = SessionDrafters(16)
    assert drafters.chosen(None) is None
    assert drafters.chosen("none") is None


def test_drafter_is_cloned_once_and_kept_with_what_was_learned() -> None:
    class Counting(OracleDrafter):
        num_clones = 0

        def clone(self) -> OracleDrafter:
            self.num_clones += 1
            return super().clone()

    drafters, drafter = SessionDrafters(16), Counting([1, 2])
    first = drafters.chosen(drafter)
    assert drafters.chosen(drafter) is first
    assert drafter.num_clones == 1
    assert first is not None
    assert first.drafter.name == "Counting"
    assert drafters.chosen(Counting([1, 2])) is not first


def test_named_drafter_is_made_once_under_its_name() -> None:
    made = []

    def make(name: str) -> OracleDrafter:
        made.append(name)
        return OracleDrafter([1])

    drafters = SessionDrafters(16, make)
    first = drafters.chosen("echo")
    assert drafters.chosen("echo") is first
    assert (made, first.drafter.name if first else None) == (["echo"], "echo")


def test_name_without_an_engine_is_refused() -> None:
    for drafters in (SessionDrafters(16), SessionDrafters(16, lambda name: None)):
        with pytest.raises(InvalidInputError, match="'echo' can be chosen by its name only in a session made by an en"):
            drafters.chosen("echo")


@pytest.mark.parametrize(
    ("choice", "found"),
    [(5, "a int"), (OracleDrafter, "the class OracleDrafter"), (lambda tokens, max_k: [], "a function")],
    ids=["int", "class", "function"],
)
def test_what_is_no_drafter_is_refused(choice: Any, found: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"'drafter' takes a drafter's name, a Drafter or None; it is {found}"):
        SessionDrafters(16).chosen(choice)


def test_memory_is_bounded_the_drafter_not_used_for_longest_goes_first() -> None:
    drafters = SessionDrafters(16)
    choices = [OracleDrafter([place]) for place in range(MAX_KEPT + 1)]
    kept = [drafters.chosen(choice) for choice in choices[:MAX_KEPT]]
    assert drafters.chosen(choices[0]) is kept[0]
    drafters.chosen(choices[MAX_KEPT])
    assert drafters.chosen(choices[0]) is kept[0]
    assert drafters.chosen(choices[1]) is not kept[1]


def test_reset_reaches_every_drafter() -> None:
    class Resetting(OracleDrafter):
        resets: list[str] = []  # noqa: RUF012 - shared by the clones on purpose

        def reset(self) -> None:
            self.resets.append("reset")

        def clone(self) -> Any:
            return Resetting([])

    drafters = SessionDrafters(16)
    drafters.chosen(Resetting([]))
    drafters.chosen(Resetting([]))
    drafters.reset()
    assert len(Resetting.resets) == 2


def test_fresh_drafters_share_nothing_but_how_they_are_made() -> None:
    drafters = SessionDrafters(16, lambda name: OracleDrafter([1]))
    first = drafters.chosen("echo")
    assert drafters.fresh().chosen("echo") is not first


def test_prediction_is_asked_besides_the_chosen_drafter_and_kept_for_one_answer_only() -> None:
    drafters = SessionDrafters(16)
    chosen = drafters.chosen(OracleDrafter([1, 2, 3, 4]))
    combined = drafters.with_prediction(chosen, PredictionDrafter([7, 8], 1))
    assert combined.drafter.draft([1], 5).drafter == "prediction"
    assert combined.drafter.draft([1, 9, 9], 5).drafter == "OracleDrafter"
    alone = drafters.with_prediction(None, PredictionDrafter([7, 8], 1))
    assert alone.drafter.draft([1], 5).token_ids == [7, 8]
    assert not alone.drafter.draft([1, 9, 9], 5).token_ids
