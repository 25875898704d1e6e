"""What one call asks for: over the session's options, checked against the model."""

from __future__ import annotations

from typing import Any

import pytest

from cera_core.errors import ConfigError, InvalidInputError
from cera_core.generation_options import MAX_SEED, GenerationOptions
from cera_core.request import make_request


def request_of(defaults: GenerationOptions | None = None, *, has_tokenizer: bool = True, **given: Any):
    return make_request(defaults or GenerationOptions(), given, vocab_size=100, has_tokenizer=has_tokenizer)


def test_call_comes_before_the_session_and_the_session_before_the_default() -> None:
    request = request_of(GenerationOptions(max_tokens=5, top_k=3), max_tokens=7)
    assert (request.max_tokens, request.top_k, request.top_p) == (7, 3, 1.0)


def test_seed_is_drawn_where_one_is_needed_and_missing() -> None:
    assert request_of().seed is None
    assert request_of(temperature=1.0, seed=5).seed == 5
    seeds = {request_of(temperature=1.0).seed for _ in range(20)}
    assert len(seeds) == 20
    assert all(seed is not None and 0 <= seed <= MAX_SEED for seed in seeds)


def test_stop_strings_need_a_tokenizer() -> None:
    assert request_of(stop="x").stop == ("x",)
    with pytest.raises(InvalidInputError, match="use 'stop_token_ids'"):
        request_of(stop="x", has_tokenizer=False)


@pytest.mark.parametrize("option", [{"stop_token_ids": [5, 100]}, {"logit_bias": {100: -1.0}}])
def test_ids_outside_the_vocabulary_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="from 0 to 99, the model's vocabulary; one is 100"):
        request_of(**option)


def test_option_that_fits_only_with_the_sessions_is_checked_with_them() -> None:
    with pytest.raises(ConfigError, match="'min_tokens'"):
        request_of(GenerationOptions(max_tokens=3), min_tokens=4)
