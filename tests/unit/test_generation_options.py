"""The options of a generation: defaults, bounds, and the forms a value may be written in."""

import math
from typing import Any

import pytest

from cera_core.errors import ConfigError
from cera_core.generation_options import GenerationOptions


def test_default_is_greedy_with_everything_else_off() -> None:
    assert GenerationOptions().model_dump() == {
        "max_tokens": 256,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": None,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "logit_bias": {},
        "stop": (),
        "stop_token_ids": (),
        "min_tokens": 0,
        "ignore_eos": False,
        "logprobs": None,
        "max_draft_tokens": None,
        "adaptive": True,
    }


def test_every_option_is_described_in_a_sentence() -> None:
    for name, field in GenerationOptions.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", True),
        ("max_tokens", 1.5),
        ("max_tokens", "many"),
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", True),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", math.inf),
        ("presence_penalty", 2.1),
        ("frequency_penalty", -2.1),
        ("logit_bias", {5: math.nan}),
        ("logit_bias", {5: math.inf}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {"the": 1.0}),
        ("logit_bias", "5"),
        ("stop", ""),
        ("stop", ["a", ""]),
        ("stop", [5]),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", "1,x"),
        ("min_tokens", -1),
        ("min_tokens", 257),
        ("ignore_eos", "perhaps"),
        ("logprobs", -1),
        ("logprobs", 101),
        ("max_draft_tokens", -1),
        ("max_draft_tokens", 1025),
        ("adaptive", 2),
    ],
)
def test_value_out_of_bounds_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        GenerationOptions().updated({name: value})


@pytest.mark.parametrize(
    ("name", "value", "meaning"),
    [
        ("max_tokens", 0, 0),
        ("max_tokens", "12", 12),
        ("temperature", 1, 1.0),
        ("seed", "none", None),
        ("seed", 2**63 - 1, 2**63 - 1),
        ("logprobs", "None", None),
        ("logprobs", 0, 0),
        ("max_draft_tokens", 0, 0),
        ("logit_bias", {5: -math.inf}, {5: -math.inf}),
        ("logit_bias", {"5": 2}, {5: 2.0}),
        ("logit_bias", "5=-inf, 7=1.5", {5: -math.inf, 7: 1.5}),
        ("logit_bias", None, {}),
        ("stop", "END", ("END",)),
        ("stop", "a,b", ("a,b",)),
        ("stop", ["a", "b"], ("a", "b")),
        ("stop", None, ()),
        ("stop_token_ids", "1, 2", (1, 2)),
        ("stop_token_ids", [1], (1,)),
        ("stop_token_ids", None, ()),
        ("min_tokens", 256, 256),
        ("adaptive", "false", False),
    ],
)
def test_value_is_taken_in_the_forms_a_caller_a_file_or_a_flag_writes(name: str, value: Any, meaning: Any) -> None:
    result = getattr(GenerationOptions().updated({name: value}), name)
    assert result == meaning
    assert type(result) is type(meaning)


@pytest.mark.parametrize("value", ["1:nan", "5", "", "1=2,", "=1", "1="])
def test_biases_of_another_form_are_told_the_form(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^'logit_bias' of a generation must have the form ID=BIAS,ID=BIAS, but is"):
        GenerationOptions().updated({"logit_bias": value})


def test_update_keeps_the_other_values() -> None:
    options = GenerationOptions(seed=3, stop=("a",)).updated({"seed": 4})
    assert (options.seed, options.stop) == (4, ("a",))


def test_update_without_changes_is_the_same_object() -> None:
    options = GenerationOptions(seed=3)
    assert options.updated({}) is options


def test_unknown_option_is_answered_with_a_near_one() -> None:
    with pytest.raises(ConfigError, match=r"'max_new_tokens' is not an option of a generation. Did you mean"):
        GenerationOptions().updated({"max_new_tokens": 3})


def test_more_min_tokens_than_max_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'min_tokens' \(5\) must be at most 'max_tokens' \(4\)"):
        GenerationOptions().updated({"min_tokens": 5, "max_tokens": 4})


@pytest.mark.parametrize(
    ("changes", "without_effect"),
    [
        ({}, []),
        ({"top_k": 5, "top_p": 0.5, "min_p": 0.1, "seed": 1}, ["top_k", "top_p", "min_p", "seed"]),
        ({"top_k": 5, "top_p": 0.5, "min_p": 0.1, "seed": 1, "temperature": 0.1}, []),
        ({"top_k": 0, "top_p": 1, "min_p": 0, "seed": "none"}, []),
    ],
)
def test_options_without_effect_at_temperature_0_are_named(changes: dict[str, Any], without_effect: list[str]) -> None:
    assert GenerationOptions().updated(changes).without_effect() == without_effect
