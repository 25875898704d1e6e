"""What one call asks for: the options of a session with those of the call over them, checked against the model."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Any

from cera_core.errors import InvalidInputError
from cera_core.generation_options import MAX_SEED, GenerationOptions

_log = logging.getLogger("cera")


def make_request(
    defaults: GenerationOptions, given: Mapping[str, Any], *, vocab_size: int, has_tokenizer: bool
) -> GenerationOptions:
    """Returns the options of a call, with a seed where one is needed.

    Args:
        defaults: What holds where the call says nothing else.
        given: What the call says.
        vocab_size: Number of token ids of the model.
        has_tokenizer: Whether there is text to look for stop strings in.

    Raises:
        InvalidInputError: An option is unknown, or not usable with this model.
    """
    request = defaults.updated(given)
    if request.temperature > 0 and request.seed is None:
        request = request.model_copy(update={"seed": secrets.randbelow(MAX_SEED)})
    if request.stop and not has_tokenizer:
        raise InvalidInputError("'stop' needs a tokenizer, and this session has none; use 'stop_token_ids'.")
    _check_ids("stop_token_ids", request.stop_token_ids, vocab_size)
    _check_ids("logit_bias", request.logit_bias, vocab_size)
    return request


def say_what_is_idle(request: GenerationOptions, given: Collection[str], *, drafts: bool) -> None:
    """Says once which of the options given in a call do nothing; those of the settings are for the command line to say.

    Args:
        request: The options of the call.
        given: The names of those that the call itself gave.
        drafts: Whether there is a drafter.
    """
    for name in request.without_effect():
        if name in given:
            _say_once(f"{name!r} has no effect at temperature 0, which is greedy.")
    if "max_draft_tokens" in given and request.max_draft_tokens and not drafts:
        _say_once("'max_draft_tokens' has no effect without a drafter.")


def _check_ids(option: str, token_ids: Iterable[int], vocab_size: int) -> None:
    if (largest := max(token_ids, default=0)) >= vocab_size:
        raise InvalidInputError(
            f"{option!r} takes token ids from 0 to {vocab_size - 1}, the model's vocabulary; one is {largest}."
        )


@cache
def _say_once(message: str) -> None:
    _log.warning(message)
