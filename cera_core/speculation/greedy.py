"""Greedy generation with drafts of a fixed length: the loop without session, text or adaptive budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from cera_core.drafting.acceptance import Acceptance
from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import InvalidInputError
from cera_core.generation_options import LARGEST_MAX_DRAFT_TOKENS, GenerationOptions
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.context import Context
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import DecodeLoop, count_faults
from cera_core.speculation.finish import FinishRules
from cera_core.speculation.sampling import Sampler
from cera_core.speculation.stats import SpecStats

if TYPE_CHECKING:
    from cera_core.drafter import Drafter
    from cera_core.model import InferenceState, Model


def greedy_generate_spec(
    model: Model,
    state: InferenceState,
    prompt_ids: Sequence[int],
    max_new_tokens: int,
    stop_ids: Collection[int],
    drafter: Drafter | None,
    k: int,
) -> tuple[list[int], SpecStats]:
    """Generates greedily with drafts of a fixed length.

    Args:
        model: Gives all-row logits.
        state: Fresh: empty and not compressed. Afterwards it holds the prompt and the tokens returned.
        prompt_ids: The prompt, at least one token.
        max_new_tokens: The most tokens to generate, 0 or more.
        stop_ids: Tokens that end the text; they are not returned. May be empty.
        drafter: Guesses; a clone of it is used. None decodes plainly.
        k: Draft tokens a round at most; 0 decodes plainly.

    Returns:
        The generated ids and what was counted.

    Raises:
        InvalidInputError: A precondition does not hold.
    """
    _check_greedy_arguments(model, state, prompt_ids, max_new_tokens, k)
    context = Context(model, state)
    context.append(prompt_ids)
    stats = SpecStats(num_prompt_tokens=len(prompt_ids))
    start = perf_counter()
    context.catch_up()
    stats.prefill_seconds = perf_counter() - start
    guarded = None
    if drafter is not None:
        guarded = GuardedDrafter(type(drafter).__name__, drafter, model.config.vocab_size).clone()
    options = GenerationOptions(
        max_tokens=max_new_tokens, max_draft_tokens=min(k, LARGEST_MAX_DRAFT_TOKENS), adaptive=False
    )
    sampler = Sampler(options, len(prompt_ids))
    sampler.push_all(prompt_ids)
    loop = DecodeLoop(
        context,
        sampler=sampler,
        rules=FinishRules(stop_ids, max_new_tokens),
        drafter=guarded,
        budget=DraftBudget(options, RoundCosts(), Acceptance()),
        stats=stats,
    )
    token_ids = [emission.token_id for emission in loop.run()]
    if guarded:
        count_faults(stats, guarded)
    return token_ids, stats


def _check_greedy_arguments(
    model: Model, state: InferenceState, prompt_ids: Sequence[int], max_new_tokens: int, k: int
) -> None:
    if not model.supports_all_logits:
        raise InvalidInputError(
            f"'greedy_generate_spec' needs a model with logits for all rows; {type(model).__name__} gives the last "
            "only. Use a Session, which then decodes plainly."
        )
    if state.seq_len or state.is_compressed:
        found = "is compressed" if state.is_compressed else f"holds {state.seq_len} tokens"
        raise InvalidInputError(
            f"'greedy_generate_spec' needs a fresh state; this one {found}. Make one with 'model.new_state()'."
        )
    if not len(prompt_ids):
        raise InvalidInputError("'greedy_generate_spec' needs a prompt of at least one token; it is empty.")
    if max_new_tokens < 0 or k < 0:
        raise InvalidInputError(f"'max_new_tokens' and 'k' must be 0 or more; they are {max_new_tokens} and {k}.")
