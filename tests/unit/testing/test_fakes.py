"""The models of tests do what their contract says, so that a failing test points at the code and not at them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from cera_core.errors import ContextFullError, InvalidInputError, RewindError
from cera_core.model import InferenceState
from cera_core.testing.drafters import AdversarialDrafter, BrokenDrafter, OracleDrafter, RandomDrafter, SlowDrafter
from cera_core.testing.fakes import CyclicModel, RecurrentModel, ScriptedModel, TableModel


def test_rows_depend_on_the_last_tokens_and_the_seed_only() -> None:
    model = TableModel(order=2, seed=4)
    assert (model.row([1, 2, 3]) == model.row([9, 2, 3])).all()
    assert (model.row([1, 2, 3]) == TableModel(order=2, seed=4).row([2, 3])).all()
    assert (model.row([1, 2, 3]) != model.row([1, 9, 3])).any()
    assert (model.row([1, 2, 3]) != TableModel(order=2, seed=5).row([1, 2, 3])).any()


def test_few_levels_make_ties() -> None:
    rows = np.array([TableModel(num_levels=2).row([first, second]) for first in range(16) for second in range(16)])
    num_largest = (rows == rows.max(axis=1, keepdims=True)).sum(axis=1)
    assert (num_largest > 1).mean() > 0.9


def test_forward_is_the_same_however_the_tokens_are_cut() -> None:
    model = TableModel()
    state = model.new_state()
    rows = model.forward_all([1, 2, 3, 4], state)
    assert (rows.shape, rows.dtype, state.seq_len) == ((4, 16), np.float32, 4)
    other = model.new_state()
    assert (model.forward([1], other) == rows[0]).all()
    assert (model.forward([2, 3], other) == rows[2]).all()
    assert (model.forward_all([4], other) == rows[3:]).all()
    assert other.token_ids == state.token_ids


@pytest.mark.parametrize(
    ("token_ids", "error"),
    [([], InvalidInputError), ([16], InvalidInputError), ([-1], InvalidInputError), ([1] * 5, InvalidInputError),
     ([1] * 4, ContextFullError)],
)  # fmt: skip
def test_forward_that_is_refused_leaves_the_state_as_it_was(token_ids: list[int], error: type[Exception]) -> None:
    model = TableModel(max_batch=4, max_seq_len=5)
    state = model.new_state()
    model.forward([1, 2], state)
    with pytest.raises(error):
        model.forward_all(token_ids, state)
    assert (state.token_ids, state.seq_len) == ([1, 2], 2)
    assert model.forward_sizes == [2]


def test_state_of_another_model_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'new_state', found InferenceState"):
        TableModel().forward([1], InferenceState(5))


@pytest.mark.parametrize(("headroom", "lengths"), [(None, range(5)), (2, range(2, 5)), (0, [4])])
def test_truncate_goes_as_far_back_as_the_headroom(headroom: int | None, lengths: Any) -> None:
    model = TableModel(rewind_headroom=headroom)
    for length in range(-1, 6):
        state = model.new_state()
        model.forward([1, 2, 3, 4], state)
        if length in lengths:
            model.truncate(state, length)
            assert (state.token_ids, state.seq_len) == ([1, 2, 3, 4][:length], length)
        else:
            with pytest.raises(RewindError):
                model.truncate(state, length)
            assert state.seq_len == 4


def test_copied_state_is_independent() -> None:
    model = TableModel()
    state = model.new_state(7)
    model.forward([1, 2], state)
    copy = model.copy_state(state)
    model.forward([3], copy)
    assert (state.token_ids, copy.token_ids, copy.seq_len, copy.max_seq_len) == ([1, 2], [1, 2, 3], 3, 7)


def test_scripted_model_says_its_script_by_position() -> None:
    model = ScriptedModel([5, 6, 7])
    assert [int(model.row([0] * length).argmax()) for length in range(5)] == [5, 6, 7, 5, 6]


def test_cyclic_model_counts_in_a_circle() -> None:
    model, state = CyclicModel(period=3), CyclicModel(period=3).new_state()
    assert [int(row.argmax()) for row in model.forward_all([0, 1, 2, 0], state)] == [1, 2, 0, 1]


def test_recurrent_model_remembers_all_and_goes_back_a_little() -> None:
    model = RecurrentModel(headroom=2)
    state, other = model.new_state(), model.new_state()
    rows = model.forward_all([1, 2, 3, 4], state)
    model.forward([9, 2, 3, 4], other)
    assert (model.forward([5], other) != model.forward([5], state)).any()  # the first token still counts
    assert model.rewind_headroom(state) == 2
    model.truncate(state, 3)
    assert (model.forward([4], state) == rows[3]).all()
    with pytest.raises(RewindError):
        model.truncate(state, 1)
    assert state.seq_len == 4


def test_adversary_is_wrong_everywhere_and_certain() -> None:
    draft = AdversarialDrafter([1, 2, 3, 15], vocab_size=16).clone().draft([1, 2], 5)
    assert (list(draft.token_ids), draft.confidences, draft.match_length) == ([4, 0], [1.0, 1.0], 2)


def test_slow_drafter_waits_and_counts_for_its_clones_too() -> None:
    drafter = SlowDrafter(OracleDrafter([1, 2, 3]), seconds=0.01)
    start = time.perf_counter()
    assert list(drafter.clone().draft([1], 5).token_ids) == [2, 3]
    assert time.perf_counter() - start >= 0.01
    assert drafter.num_calls == [1]


def test_oracle_is_right_by_position_and_wrong_where_it_should_be() -> None:
    assert list(OracleDrafter([1, 2, 3, 4]).draft([9, 9], 5).token_ids) == [3, 4]
    wrong = OracleDrafter([1, 2, 3, 4, 15], vocab_size=16, wrong_every=2)
    assert list(wrong.draft([], 9).token_ids) == [2, 2, 4, 4, 0]
    assert list(wrong.clone().draft([], 9).token_ids) == [2, 2, 4, 4, 0]


def test_random_drafter_guesses_the_same_for_the_same_history() -> None:
    drafter = RandomDrafter(50, seed=3)
    drafts = [list(drafter.draft([0] * length, 8).token_ids) for length in range(30)]
    assert drafts == [list(drafter.clone().draft([0] * length, 8).token_ids) for length in range(30)]
    assert {len(draft) for draft in drafts} == set(range(9))
    assert drafts != [list(RandomDrafter(50, seed=4).draft([0] * length, 8).token_ids) for length in range(30)]


def test_broken_drafter_does_as_it_is_told() -> None:
    drafter = BrokenDrafter(lambda tokens, max_k: (len(tokens), max_k))
    assert drafter.draft([1, 2], 7) == drafter.clone().draft([1, 2], 7) == (2, 7)
