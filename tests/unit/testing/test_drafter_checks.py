"""Each check of the drafter contract accepts a sound drafter, and finds the one that nobody else finds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from cera_core.drafter import Draft, Drafter
from cera_core.testing import drafter_checks
from cera_core.testing.checking import CheckError, run_checks
from cera_core.testing.drafter_checks import DRAFTER_CHECKS


class Echo(Drafter):
    """A sound drafter: says the first and the last token again."""

    def draft(self, tokens, max_k):
        return Draft([tokens[0], tokens[-1]][:max_k]) if tokens else []

    def clone(self):
        return type(self)()


class Generating(Echo):
    def draft(self, tokens, max_k):
        return (token_id for token_id in [1][:max_k])


class TooLong(Echo):
    def draft(self, tokens, max_k):
        return [1] * (max_k + 1) if len(tokens) > 1 else []


class OutOfVocabulary(Echo):
    def draft(self, tokens, max_k):
        return [262_144][:max_k]


class TooSure(Echo):
    def draft(self, tokens, max_k):
        return Draft([1][:max_k], confidences=[1.5][:max_k])


class MatchBeforeTheBeginning(Echo):
    def draft(self, tokens, max_k):
        return Draft([1][:max_k], match_length=len(tokens) + 1)


class NeedsTwoTokens(Echo):
    def draft(self, tokens, max_k):
        return [tokens[-2]][:max_k]


class Remembering(Echo):
    """Holds the history it was last shown; whoever is derived from it does something wrong with it."""

    def __init__(self):
        self.last: list[int] = []

    def draft(self, tokens, max_k):
        tokens = list(tokens)
        answer = self.answer(tokens)
        self.last = tokens
        return answer[:max_k]

    def answer(self, tokens: list[int]) -> Sequence[int]:
        return [tokens[0], tokens[-1]] if tokens else []

    def reset(self):
        self.last = []


class SaysNothingTwice(Remembering):
    def answer(self, tokens):
        return [] if tokens == self.last else super().answer(tokens)


class ListsOnly(Echo):
    def draft(self, tokens, max_k):
        return super().draft(tokens, max_k) if isinstance(tokens, list) else []


class LosesTheNewest(Remembering):
    """Goes wrong where one token was added."""

    def answer(self, tokens):
        return super().answer(tokens[:-1] if self.last and tokens[:-1] == self.last else tokens)


class OverlooksShrinking(Remembering):
    def answer(self, tokens):
        was_cut = len(tokens) < len(self.last) and self.last[: len(tokens)] == tokens
        return super().answer(self.last if was_cut else tokens)


class LooksAtLengthAndEnd(Remembering):
    """Takes a history of the same length and with the same last token for the one it knows."""

    def answer(self, tokens):
        is_same = len(tokens) == len(self.last) and tokens[-1:] == self.last[-1:]
        return super().answer(self.last if is_same else tokens)


class BrokenByReset(Echo):
    was_reset = False

    def draft(self, tokens, max_k):
        return [] if self.was_reset else super().draft(tokens, max_k)

    def reset(self):
        self.was_reset = True


class GivesItsIndexAway(Echo):
    was_cloned = False

    def draft(self, tokens, max_k):
        return [] if self.was_cloned else super().draft(tokens, max_k)

    def clone(self):
        self.was_cloned = True
        return super().clone()


class Meddling(Echo):
    def draft(self, tokens, max_k):
        if isinstance(tokens, list):
            tokens.append(1)
        return []


class Deaf(Echo):
    def accept(self, draft, num_accepted):
        raise NotImplementedError


class Weightless(Echo):
    def memory_bytes(self):
        return -1


class Unsure(Echo):
    suggested_k = 2.5  # type: ignore[assignment]


BREAKERS = {
    drafter_checks.check_draft_is_a_draft_or_ids: Generating,
    drafter_checks.check_returns_at_most_max_k_ids: TooLong,
    drafter_checks.check_ids_are_in_the_vocabulary: OutOfVocabulary,
    drafter_checks.check_confidences_are_chances: TooSure,
    drafter_checks.check_match_is_within_the_history: MatchBeforeTheBeginning,
    drafter_checks.check_short_histories_are_answered: NeedsTwoTokens,
    drafter_checks.check_draft_twice_is_the_same: SaysNothingTwice,
    drafter_checks.check_views_are_read_like_lists: ListsOnly,
    drafter_checks.check_step_by_step_equals_at_once: LosesTheNewest,
    drafter_checks.check_shrunken_history_is_like_fresh: OverlooksShrinking,
    drafter_checks.check_replaced_history_is_like_fresh: LooksAtLengthAndEnd,
    drafter_checks.check_reset_forgets: BrokenByReset,
    drafter_checks.check_clones_share_no_session: GivesItsIndexAway,
    drafter_checks.check_history_is_not_changed: Meddling,
    drafter_checks.check_feedback_is_taken: Deaf,
    drafter_checks.check_memory_is_a_number_of_bytes: Weightless,
    drafter_checks.check_suggested_k_is_a_length: Unsure,
}
"""For each check a drafter that no other finds fault with."""


class Words(Echo):
    def draft(self, tokens, max_k):
        return ["and"][:max_k]


class TooFewConfidences(Echo):
    def draft(self, tokens, max_k):
        return Draft([1, 1][:max_k], confidences=[0.5])


class IgnoresZero(Echo):
    def draft(self, tokens, max_k):
        return [1] * max(max_k, 1)


class Random(Echo):
    def __init__(self):
        self.generator = random.Random(id(self))

    def draft(self, tokens, max_k):
        return [self.generator.randrange(10) for _ in range(max_k)]


class SharesItsTokens(Echo):
    """Has one list of tokens for all of its clones, and looks at lengths only."""

    def __init__(self, seen=None):
        self.seen = [] if seen is None else seen

    def draft(self, tokens, max_k):
        if len(tokens) != len(self.seen):
            self.seen[:] = tokens
        return self.seen[-1:][:max_k]

    def clone(self):
        return SharesItsTokens(self.seen)


class Nothing(Echo):
    def draft(self, tokens, max_k):
        return None


def failed(drafter: type[Drafter]) -> list[str]:
    return [result.check for result in run_checks(DRAFTER_CHECKS, drafter) if result.outcome == "failed"]


def test_sound_drafters_pass() -> None:
    assert failed(Echo) == failed(Remembering) == []


@pytest.mark.parametrize(("check", "drafter"), BREAKERS.items(), ids=lambda value: value.__name__)
def test_only_one_check_finds_it(check, drafter) -> None:
    assert failed(drafter) == [check.__name__]


def test_every_check_has_a_drafter_that_breaks_it() -> None:
    assert list(BREAKERS) == list(DRAFTER_CHECKS)


@pytest.mark.parametrize(
    ("drafter", "check"),
    [
        (Words, "check_ids_are_in_the_vocabulary"),
        (TooFewConfidences, "check_confidences_are_chances"),
        (IgnoresZero, "check_returns_at_most_max_k_ids"),
        (Random, "check_draft_twice_is_the_same"),
        (SharesItsTokens, "check_clones_share_no_session"),
        (Nothing, "check_draft_is_a_draft_or_ids"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_other_mistakes_are_found_too(drafter, check) -> None:
    assert check in failed(drafter)


def test_message_says_what_was_required_and_found_and_where_to_read_on() -> None:
    with pytest.raises(CheckError) as caught:
        drafter_checks.check_returns_at_most_max_k_ids(TooLong)
    assert str(caught.value) == (
        "Required: at most 0 ids of draft(tokens, max_k=0). Found: 1 after two equal tokens. "
        "Read on: docs/reference/checks.md#check_returns_at_most_max_k_ids"
    )


def test_samples_are_the_same_every_time() -> None:
    state = random.getstate()
    assert drafter_checks.sample_histories() == drafter_checks.sample_histories()
    assert random.getstate() == state
