"""Each check of the drafter contract accepts a sound drafter and finds the one that breaks it."""

import random

import pytest

from cera_core.drafter import Draft, Drafter
from cera_core.testing import drafter_checks
from cera_core.testing.drafter_checks import DRAFTER_CHECKS, DrafterCheckError


class Echo(Drafter):
    """A sound drafter: repeats the last token."""

    def draft(self, tokens, max_k):
        return Draft([tokens[-1]][:max_k]) if tokens else []

    def clone(self):
        return type(self)()


class TooLong(Echo):
    def draft(self, tokens, max_k):
        return [1] * (max_k + 1)


class IgnoresZero(Echo):
    def draft(self, tokens, max_k):
        return [1] * max(max_k, 1)


class OutOfVocabulary(Echo):
    def draft(self, tokens, max_k):
        return [262_144][:max_k]


class WordsInsteadOfIds(Echo):
    def draft(self, tokens, max_k):
        return ["and"][:max_k]


class TooSure(Echo):
    def draft(self, tokens, max_k):
        return Draft([1][:max_k], confidences=[1.5][:max_k])


class TooFewConfidences(Echo):
    def draft(self, tokens, max_k):
        return Draft([1, 1][:max_k], confidences=[0.5])


class MatchBeforeTheBeginning(Echo):
    def draft(self, tokens, max_k):
        return Draft([1][:max_k], match_length=3)


class Fickle(Echo):
    """Counts its calls."""

    def __init__(self):
        self.num_calls = 0

    def draft(self, tokens, max_k):
        self.num_calls += 1
        return [self.num_calls][:max_k]


class RemembersTheLongest(Echo):
    """Answers for the longest history it was ever shown."""

    def __init__(self):
        self.longest = []

    def draft(self, tokens, max_k):
        self.longest = max(self.longest, list(tokens), key=len)
        return self.longest[-1:][:max_k]


class SeesOnlyLengths(Echo):
    """Takes a history of equal length for the same one."""

    def __init__(self):
        self.seen = []

    def draft(self, tokens, max_k):
        if len(tokens) != len(self.seen):
            self.seen = list(tokens)
        return self.seen[-1:][:max_k]


class SharesWithClones(SeesOnlyLengths):
    def clone(self):
        return self


class SkipsTokens(Echo):
    """Looks only at every second history."""

    def draft(self, tokens, max_k):
        self.num_calls = getattr(self, "num_calls", 0) + 1
        return [self.num_calls > len(tokens)][:max_k]


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


class FailsOnEmpty(Echo):
    def draft(self, tokens, max_k):
        return [tokens[-1]][:max_k]


BREAKERS = [
    (drafter_checks.check_returns_at_most_max_k_ids, TooLong),
    (drafter_checks.check_returns_at_most_max_k_ids, IgnoresZero),
    (drafter_checks.check_ids_are_in_the_vocabulary, OutOfVocabulary),
    (drafter_checks.check_ids_are_in_the_vocabulary, WordsInsteadOfIds),
    (drafter_checks.check_confidences_are_chances, TooSure),
    (drafter_checks.check_confidences_are_chances, TooFewConfidences),
    (drafter_checks.check_confidences_are_chances, MatchBeforeTheBeginning),
    (drafter_checks.check_draft_twice_is_the_same, Fickle),
    (drafter_checks.check_step_by_step_equals_at_once, SkipsTokens),
    (drafter_checks.check_shrunken_history_is_like_fresh, RemembersTheLongest),
    (drafter_checks.check_replaced_history_is_like_fresh, SeesOnlyLengths),
    (drafter_checks.check_reset_forgets, SeesOnlyLengths),
    (drafter_checks.check_clones_share_no_session, SharesWithClones),
    (drafter_checks.check_history_is_not_changed, Meddling),
    (drafter_checks.check_feedback_is_taken, Deaf),
    (drafter_checks.check_feedback_is_taken, Weightless),
]


@pytest.mark.parametrize("check", DRAFTER_CHECKS, ids=lambda check: check.__name__)
def test_sound_drafter_passes(check):
    check(Echo)


@pytest.mark.parametrize(("check", "drafter"), BREAKERS, ids=lambda value: value.__name__)
def test_broken_drafter_is_found(check, drafter):
    with pytest.raises((DrafterCheckError, NotImplementedError)):
        check(drafter)


def test_every_check_has_a_drafter_that_breaks_it():
    assert {check for check, _ in BREAKERS} == set(DRAFTER_CHECKS)


@pytest.mark.parametrize("check", DRAFTER_CHECKS, ids=lambda check: check.__name__)
def test_every_check_shows_short_histories(check):
    with pytest.raises(IndexError):
        check(FailsOnEmpty)


def test_message_says_what_was_required_and_found():
    with pytest.raises(DrafterCheckError, match=r"Required: .* at most 0 ids\. Found: 1 after no tokens\."):
        drafter_checks.check_returns_at_most_max_k_ids(TooLong)


def test_samples_are_the_same_every_time():
    state = random.getstate()
    assert drafter_checks.sample_histories() == drafter_checks.sample_histories()
    assert random.getstate() == state
