"""What a caller hands to a model is refused in the same words whatever the backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cera_core.errors import CeraError, ContextFullError, InvalidInputError, RewindError
from cera_core.model import InferenceState
from cera_core.model_inputs import check_room, context_length, ids_of_forward, length_to_keep, own_state
from cera_core.testing.fakes import TableModel

MODEL = TableModel(vocab_size=8, max_batch=4)


def state_of(seq_len: int) -> InferenceState:
    state = InferenceState(10)
    state.seq_len = seq_len
    return state


@pytest.mark.parametrize("token_ids", [[0, 7], (0, 7), np.array([0, 7], np.uint8), range(0, 8, 7)], ids=str)
def test_ids_of_any_sequence_become_an_array(token_ids: Any) -> None:
    ids = ids_of_forward(token_ids, MODEL)
    assert (ids.tolist(), ids.dtype) == ([0, 7], np.int64)


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: ids_of_forward([], MODEL), InvalidInputError, "A forward takes 1..4 token ids, found 0"),
        (lambda: ids_of_forward([1] * 5, MODEL), InvalidInputError, "1..4 token ids, found 5"),
        (lambda: ids_of_forward([[1], [2]], MODEL), InvalidInputError, r"integers in 0..7, found \[1\]"),  # type: ignore[list-item]
        (lambda: ids_of_forward([1, [2]], MODEL), InvalidInputError, r"integers in 0..7, found \[2\]"),  # type: ignore[list-item]
        (lambda: ids_of_forward([1.0], MODEL), InvalidInputError, "integers in 0..7, found 1.0"),  # type: ignore[list-item]
        (lambda: ids_of_forward([True], MODEL), InvalidInputError, "integers in 0..7, found True"),
        (lambda: ids_of_forward("ab", MODEL), InvalidInputError, "integers in 0..7, found 'ab'"),  # type: ignore[arg-type]
        (lambda: ids_of_forward([3, -1], MODEL), InvalidInputError, "integers in 0..7, found -1"),
        (lambda: ids_of_forward([3, 8], MODEL), InvalidInputError, "integers in 0..7, found 8"),
        (lambda: ids_of_forward([2**70], MODEL), InvalidInputError, "integers in 0..7, found 1180591620717411303424"),
        (lambda: own_state(InferenceState(3), type(MODEL.new_state())), InvalidInputError, "found InferenceState"),
        (lambda: context_length(0, 5), InvalidInputError, r"'max_seq_len' must lie in 1..5, .* found 0"),
        (lambda: context_length(6, 5), InvalidInputError, r"'max_seq_len' must lie in 1..5, .* found 6"),
        (lambda: context_length("3", 5), InvalidInputError, "'max_seq_len' must be an integer, found '3'"),  # type: ignore[arg-type]
        (lambda: length_to_keep(state_of(5), 6), RewindError, r"state of 5 tokens can be cut to 0..5, found 6"),
        (lambda: length_to_keep(state_of(5), 1, 2), RewindError, r"state of 5 tokens can be cut to 2..5, found 1"),
        (lambda: length_to_keep(state_of(5), 1.5), InvalidInputError, "'length' must be an integer"),  # type: ignore[arg-type]
        (lambda: check_room(state_of(8), 3), ContextFullError, "holds 10 tokens and has 8; 3 more do not fit"),
    ],
)
def test_what_cannot_be_used_is_named(check: Callable[[], object], error: type[CeraError], message: str) -> None:
    with pytest.raises(error, match=message):
        check()


def test_what_can_be_used_is_given_back() -> None:
    state = MODEL.new_state()
    assert own_state(state, type(state)) is state
    assert [context_length(given, 5) for given in (None, 1, np.int64(5))] == [5, 1, 5]
    assert [length_to_keep(state_of(5), length, 2) for length in (2, 5)] == [2, 5]
    check_room(state_of(8), 2)
