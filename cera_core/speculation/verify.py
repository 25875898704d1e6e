"""Verifying a draft: one forward, the longest run the model agrees with, and a rewind of the rest.

It knows nothing of stop tokens, budgets or drafters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cera_core.errors import RewindError
from cera_core.speculation.model_guard import call_model, checked_forward
from cera_core.speculation.sampling import argmax

if TYPE_CHECKING:
    from cera_core.model import InferenceState, Logits, Model

    Choose: TypeAlias = Callable[[Logits, Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What the model made of a draft.

    Attributes:
        accepted: The draft tokens the model agreed with.
        follow_logits: float32[vocab_size], the row after the last accepted token: the bonus or the correction.
        rows: float32[len(accepted) + 1, vocab_size]; row j judged the draft's token j, the last is `follow_logits`.
    """

    accepted: list[int]
    follow_logits: Logits
    rows: Logits


def verify_draft(
    model: Model,
    state: InferenceState,
    guaranteed: int,
    draft: Sequence[int],
    choose: Choose = argmax,
) -> VerifyResult:
    """Appends a committed token and as many tokens of a draft as the model agrees with.

    Args:
        model: Gives all-row logits and can rewind.
        state: Holds everything before `guaranteed`.
        guaranteed: The last committed token, not yet in the state.
        draft: The guessed tokens after it.
        choose: Called with a row and the draft tokens accepted before it, returns the token the model would emit there.

    Returns:
        The accepted tokens; the state then holds `guaranteed` and them.

    Raises:
        ModelError: The model failed, or did not give one row for each token; the state is as it was, unless it has
            appended all of them and cannot go back that far.
    """
    old_len = state.seq_len
    try:
        rows = checked_forward(
            model.forward_all, [guaranteed, *draft], state, (1 + len(draft), model.config.vocab_size)
        )
        accepted: list[int] = []
        for row, token_id in zip(rows, draft, strict=False):  # the last row judges nothing: it is the bonus
            if choose(row, accepted) != token_id:
                break
            accepted.append(token_id)
    except BaseException:  # a forward that was interrupted may have appended already
        with suppress(RewindError):  # a draft as long as can be taken back leaves no room for `guaranteed` as well
            call_model(model.truncate, state, old_len)
        raise
    num_kept = 1 + len(accepted)
    call_model(model.truncate, state, old_len + num_kept)
    return VerifyResult(accepted, rows[num_kept - 1], rows[:num_kept])
