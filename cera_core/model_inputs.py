"""Checks of what a caller hands to a model, for those who implement one: the same words whatever the backend.

It knows nothing of how a backend computes. What a state can hold or give up is the state's to say.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypeVar

import numpy as np

from cera_core.errors import ContextFullError, InvalidInputError, RewindError
from cera_core.model import InferenceState

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cera_core.model import Model

S = TypeVar("S", bound=InferenceState)


def own_state(state: InferenceState, kind: type[S]) -> S:
    """Returns a state as the kind a backend makes.

    Raises:
        InvalidInputError: Another backend made it.
    """
    if not isinstance(state, kind):
        raise InvalidInputError(f"A state must come from this model's 'new_state', found {type(state).__name__}.")
    return state


def context_length(max_seq_len: int | None, limit: int) -> int:
    """Returns the length of a new state, by default the longest.

    Raises:
        InvalidInputError: It is no integer, below 1 or above `limit`.
    """
    length = limit if max_seq_len is None else _as_integer(max_seq_len, "max_seq_len")
    if not 1 <= length <= limit:
        raise InvalidInputError(f"'max_seq_len' must lie in 1..{limit}, the model's context, found {length}.")
    return length


def length_to_keep(state: InferenceState, length: int, oldest: int = 0) -> int:
    """Returns the length that a state is to be cut to.

    Args:
        state: The state.
        length: What was asked for.
        oldest: The smallest length it can be cut to.

    Raises:
        InvalidInputError: It is no integer.
        RewindError: The state never was that long, or cannot go back that far.
    """
    length = _as_integer(length, "length")
    if not oldest <= length <= state.seq_len:
        raise RewindError(f"A state of {state.seq_len} tokens can be cut to {oldest}..{state.seq_len}, found {length}.")
    return length


def ids_of_forward(token_ids: Sequence[int], model: Model) -> NDArray[np.int64]:
    """Returns the ids of a forward, int64[n].

    Raises:
        InvalidInputError: There are none or more than `max_batch`, or one is no integer or outside the vocabulary.
    """
    limit = model.config.vocab_size
    try:
        ids = np.asarray(token_ids)
    except (TypeError, ValueError) as error:
        raise _no_ids(token_ids, limit) from error
    if ids.ndim == 1 and not 1 <= len(ids) <= model.max_batch:
        raise InvalidInputError(f"A forward takes 1..{model.max_batch} token ids, found {len(ids)}.")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise _no_ids(token_ids, limit)
    ids = ids.astype(np.int64, copy=False)
    # Without its sign a negative number is a large one, so that one call of NumPy does for four. Each step pays for
    # them, with the caches emptied by the weights.
    if ids.view(np.uint64).max() >= limit:
        raise _no_ids(token_ids, limit)
    return ids


def check_room(state: InferenceState, num_tokens: int) -> None:
    """Raises for more tokens than a state has room for.

    Raises:
        ContextFullError: They do not fit.
    """
    if state.seq_len + num_tokens > state.max_seq_len:
        raise ContextFullError(
            f"The context holds {state.max_seq_len} tokens and has {state.seq_len}; {num_tokens} more do not fit. "
            "Shorten the text, or make the state larger."
        )


def _as_integer(value: object, name: str) -> int:
    if not isinstance(value, SupportsIndex):
        raise InvalidInputError(f"{name!r} must be an integer, found {value!r:.80}.")
    return operator.index(value)


def _no_ids(token_ids: Sequence[object], limit: int) -> InvalidInputError:
    """Names the first that is no id, or all where they cannot be looked at one by one."""
    found: object = token_ids
    if np.ndim(np.asarray(token_ids, object)) > 0:
        found = next((one for one in token_ids if not _is_id(one, limit)), token_ids)
    return InvalidInputError(f"Token ids must be integers in 0..{limit - 1}, found {found!r:.80}.")


def _is_id(value: object, limit: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) < limit
