"""A name that is not known is answered with the one probably meant, else with all there are."""

from cera_core.near_match import suggest


def test_near_name_is_suggested_whatever_its_case_and_dashes() -> None:
    assert suggest("Max-Tokns", ["max_tokens", "seed"]) == "did you mean 'max_tokens'?"


def test_all_names_are_listed_when_none_is_near() -> None:
    assert suggest("zebra", ["numpy", "native"], "backends") == "the backends are native, numpy."


def test_having_no_names_at_all_is_said() -> None:
    assert suggest("zebra", [], "backends") == "there are no backends."
