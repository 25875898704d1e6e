"""A name that is not known is answered with the one probably meant."""

from cera_core.near_match import did_you_mean


def test_near_name_is_suggested_whatever_its_case_and_dashes() -> None:
    assert did_you_mean("Max-Tokns", ["max_tokens", "seed"]) == " Did you mean 'max_tokens'?"


def test_the_nearest_of_several_is_suggested() -> None:
    assert did_you_mean("numpi", ["number", "numpy"]) == " Did you mean 'numpy'?"


def test_nothing_is_said_when_no_name_is_near() -> None:
    assert did_you_mean("zebra", ["numpy", "native"]) == ""
    assert did_you_mean("zebra", []) == ""
