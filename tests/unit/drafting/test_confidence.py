"""How sure a copied token is."""

from cera_core.drafting.confidence import copy_confidence


def test_confidence_grows_with_match_and_agreement():
    assert copy_confidence(1, 0.0) == 0
    assert copy_confidence(1, 0.5) < copy_confidence(1, 1.0) < copy_confidence(4, 1.0) < copy_confidence(16, 1.0)


def test_confidence_is_a_chance_for_any_match():
    assert all(0 <= copy_confidence(length, share) <= 1 for length in (1, 2, 1_000_000) for share in (0.0, 0.5, 1.0))
