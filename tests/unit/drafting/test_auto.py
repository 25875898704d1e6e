"""`auto`: several drafters asked as one, with attribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cera_core.drafter import Draft, IncrementalDrafter
from cera_core.drafting.auto import AutoDrafter, AutoOptions
from cera_core.drafting.guard import GuardedDrafter
from cera_core.testing import DrafterSuite
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter


class Canned(OracleDrafter):
    """Always guesses the same, and notes what happens to it."""

    def __init__(self, draft: Draft) -> None:
        super().__init__([])
        self.canned = draft
        self.notes: list[Any] = []

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        self.notes.append(("draft", len(tokens), max_k))
        return self.canned

    def accept(self, draft: Draft, num_accepted: int) -> None:
        self.notes.append(("accept", draft.token_ids, num_accepted))

    def reset(self) -> None:
        self.notes.append("reset")

    def clone(self) -> Canned:
        return Canned(self.canned)

    def memory_bytes(self) -> int:
        return 100


class LastSeen(IncrementalDrafter):
    """Guesses what followed the last token when it was last seen."""

    def extend(self, new_tokens: Sequence[int]) -> None:
        """Has no index."""

    def propose(self, max_k: int) -> Draft:
        tokens = self.history.tolist()
        places = [place for place in range(len(tokens) - 1) if tokens[place] == tokens[-1]]
        return Draft(tokens[places[-1] + 1 :][:max_k], match_length=1) if places else Draft([])

    def clone(self) -> LastSeen:
        return LastSeen()


def auto_of(*drafts: Draft, prefer: Any = "best") -> tuple[AutoDrafter, list[Canned]]:
    canned = [Canned(draft) for draft in drafts]
    members = [GuardedDrafter(f"drafter {place}", drafter, 100) for place, drafter in enumerate(canned)]
    return AutoDrafter(members, prefer), canned


def test_longest_match_wins_where_nobody_says_more_and_carries_the_name_of_its_drafter() -> None:
    auto, _ = auto_of(Draft([1], match_length=2), Draft([2], match_length=5), Draft([3], match_length=4))
    assert auto.draft([0], 5) == Draft([2], match_length=5, drafter="drafter 1")


def test_earlier_drafter_wins_a_tie() -> None:
    auto, _ = auto_of(Draft([1], match_length=3), Draft([2], match_length=3))
    assert auto.draft([0], 5).drafter == "drafter 0"


def test_draft_without_a_match_length_is_better_than_none() -> None:
    auto, _ = auto_of(Draft([]), Draft([2]), Draft([3]))
    assert auto.draft([0], 5).token_ids == [2]
    auto, _ = auto_of(Draft([2]), Draft([3], match_length=1))
    assert auto.draft([0], 5).token_ids == [3]


def test_empty_draft_never_wins_however_long_its_match() -> None:
    auto, _ = auto_of(Draft([1], match_length=1), Draft([], match_length=50))
    assert auto.draft([0], 5).token_ids == [1]


def test_first_guess_is_taken_and_the_others_are_not_asked() -> None:
    auto, canned = auto_of(Draft([]), Draft([1], match_length=1), Draft([2], match_length=9), prefer="first")
    assert auto.draft([0], 5).drafter == "drafter 1"
    assert [len(drafter.notes) for drafter in canned] == [1, 1, 0]


def test_no_member_with_a_guess_is_no_guess() -> None:
    for auto in (auto_of(Draft([]), Draft([]))[0], auto_of()[0]):
        assert auto.draft([0], 5).token_ids == ()


def test_every_member_is_asked_for_as_much() -> None:
    auto, canned = auto_of(Draft([1]), Draft([2]))
    auto.draft([0, 0, 0], 7)
    assert [drafter.notes for drafter in canned] == [[("draft", 3, 7)]] * 2


def test_only_the_drafter_that_made_the_draft_is_told_what_became_of_it() -> None:
    auto, canned = auto_of(Draft([1], match_length=1), Draft([2, 3], match_length=2))
    draft = auto.draft([0], 5)
    auto.accept(draft, 1)
    assert canned[0].notes == [("draft", 1, 5)]
    assert canned[1].notes == [("draft", 1, 5), ("accept", [2, 3], 1)]


def test_guess_of_a_member_that_combines_others_keeps_the_name_of_its_maker_and_the_feedback_reaches_it() -> None:
    inner, canned = auto_of(Draft([1], match_length=1), Draft([2, 3], match_length=2))
    outer = AutoDrafter([GuardedDrafter("inner", inner, 100), GuardedDrafter("silent", Canned(Draft([])), 100)])
    draft = outer.draft([0], 5)
    assert draft.drafter == "drafter 1"
    outer.accept(draft, 1)
    assert [drafter.notes[1:] for drafter in canned] == [[], [("accept", [2, 3], 1)]]


def test_member_that_fails_does_not_cost_the_others() -> None:
    good = GuardedDrafter("good", Canned(Draft([5])), 100)
    bad = GuardedDrafter("bad", BrokenDrafter(lambda *_: 1 // 0), 100)
    auto = AutoDrafter([bad, good])
    for _ in range(5):
        assert auto.draft([0], 5).drafter == "good"
    assert bad.is_quarantined


def test_reset_and_memory_are_of_all_members() -> None:
    auto, canned = auto_of(Draft([1]), Draft([2]))
    auto.reset()
    assert [drafter.notes for drafter in canned] == [["reset"]] * 2
    assert auto.memory_bytes() == 200


def test_clone_shares_nothing_and_prefers_the_same() -> None:
    auto, canned = auto_of(Draft([1], match_length=1), Draft([2], match_length=2), prefer="first")
    clone = auto.clone()
    assert clone.draft([0], 5).token_ids == [1]
    assert [drafter.notes for drafter in canned] == [[], []]
    clone.members[0].is_quarantined = True
    assert auto.draft([0], 5).token_ids == [1]


def auto_of_two() -> AutoDrafter:
    members = [OracleDrafter([7] * 300), LastSeen()]
    return AutoDrafter([GuardedDrafter(f"{place}", drafter, 262_144) for place, drafter in enumerate(members)])


class TestContract(DrafterSuite):
    @pytest.fixture
    def make_drafter(self) -> Any:
        return auto_of_two


def test_options_name_the_drafters_and_the_preference() -> None:
    assert AutoOptions() == AutoOptions(drafters=(), prefer="best")
    assert AutoOptions.model_validate({"drafters": "a, b"}).drafters == ("a", "b")
    with pytest.raises(ValueError, match="prefer"):
        AutoOptions(prefer="shortest")  # type: ignore[arg-type]


def sure(token_ids: list[int], chance: float) -> Draft:
    return Draft(token_ids, confidences=[chance] * len(token_ids))


def test_guess_expected_to_bring_most_wins_whether_it_says_how_sure_it_is_or_how_long_its_match() -> None:
    auto, _ = auto_of(sure([1], 0.9), sure([2, 2], 0.8))
    assert auto.draft([0], 5).drafter == "drafter 1"
    auto, _ = auto_of(Draft([1], match_length=20), sure([2], 0.8))
    assert auto.draft([0], 5).drafter == "drafter 0"
    auto, _ = auto_of(Draft([1], match_length=1), sure([2], 0.8))
    assert auto.draft([0], 5).drafter == "drafter 1"


def test_drafter_that_has_been_wrong_loses_to_one_that_has_been_right() -> None:
    auto, _ = auto_of(sure([1, 1], 0.9), sure([2, 2], 0.5))
    for _ in range(20):
        auto.accept(auto.draft([0], 5), 0)
    assert auto.draft([0], 5).drafter == "drafter 1"
    for _ in range(20):
        auto.accept(auto.draft([0], 5), 2)
    assert auto.draft([0], 5).drafter == "drafter 1"


def test_guess_that_was_not_taken_is_judged_by_the_tokens_that_were_accepted() -> None:
    auto, _ = auto_of(sure([1, 1, 1], 0.6), sure([1, 2], 0.6))
    for _ in range(9):
        draft = auto.draft([0], 5)
        assert draft.drafter == "drafter 0"
        auto.accept(draft, 3)
    first, second = (auto._acceptance.chances(guess)[0] for _, guess in auto._guesses)
    assert first > 0.8
    assert second == pytest.approx(0.55, abs=0.05)  # one of two was right each time


def test_what_became_of_a_guess_that_went_another_way_where_the_text_is_not_known_is_not_held_against_it() -> None:
    auto, _ = auto_of(sure([1, 2, 3], 0.6), sure([1, 5], 0.6))
    auto.accept(auto.draft([0], 5), 1)
    first, second = (auto._acceptance.chances(guess)[0] for _, guess in auto._guesses)
    assert second > 0.62
    assert first < 0.6


def test_reset_and_clone_forget_what_was_learned() -> None:
    auto, _ = auto_of(sure([1, 1], 0.9), sure([2, 2], 0.8))
    for _ in range(2):
        auto.accept(auto.draft([0], 5), 0)
    assert auto.draft([0], 5).drafter == "drafter 1"
    assert auto.clone().draft([0], 5).drafter == "drafter 0"
    auto.reset()
    assert auto.draft([0], 5).drafter == "drafter 0"
