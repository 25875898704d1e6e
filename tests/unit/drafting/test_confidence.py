"""How sure a copied token is, and how many are worth drafting."""

import pytest

from cera_core.drafting.confidence import copy_confidence, num_worth_drafting


def test_confidence_grows_with_match_and_agreement():
    assert copy_confidence(1, 0, 3) == 0
    assert (
        copy_confidence(1, 1 / 2, 2) < copy_confidence(1, 1, 2) < copy_confidence(4, 1, 2) < copy_confidence(16, 1, 2)
    )


def test_confidence_grows_with_the_occurrences_that_agree():
    assert copy_confidence(2, 1, 1) < copy_confidence(2, 1, 2) < copy_confidence(2, 1, 20) < 1


def test_confidence_is_that_of_a_chain_of_priors_each_of_a_shorter_context():
    chance = 0.0
    for match_length in range(1, 9):
        chance = (2 + 4 * chance) / (3 + 4)
        assert copy_confidence(match_length, 2 / 3, 3) == pytest.approx(chance)


def test_confidence_is_a_chance_for_any_match():
    lengths = (1, 2, 1_000_000)
    assert all(0 <= copy_confidence(length, agreeing / 9, 9) <= 1 for length in lengths for agreeing in (0, 4, 9))


def test_tokens_are_worth_drafting_while_they_are_likely_together():
    assert num_worth_drafting([0.5] * 9) == 4
    assert num_worth_drafting([0.04, 1.0]) == 0
    assert num_worth_drafting([]) == 0
