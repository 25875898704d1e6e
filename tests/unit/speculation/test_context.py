"""Committed tokens and the cache behind them: the cache follows lazily, and survives whatever fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cera_core.errors import ContextFullError, InvalidInputError, ModelError
from cera_core.model import InferenceState
from cera_core.speculation.context import Context
from cera_core.testing.fakes import TableModel


def context_of(tokens: list[int], **model_options: Any) -> Context:
    model = TableModel(**model_options)
    context = Context(model, model.new_state())
    context.append(tokens)
    return context


def assert_caught_up(context: Context, tokens: list[int]) -> None:
    assert list(context.history.view()) == tokens
    assert context.state.token_ids == tokens
    assert (context.next_row == context.model.row(tokens)).all()


def test_append_costs_no_forward_until_the_cache_is_needed() -> None:
    context = context_of([1, 2, 3])
    assert (context.model.forward_sizes, context.next_row) == ([], None)
    assert context.catch_up()
    assert_caught_up(context, [1, 2, 3])
    assert context.catch_up()
    assert context.model.forward_sizes == [3]


def test_only_what_is_new_is_fed() -> None:
    context = context_of([1, 2, 3])
    context.catch_up()
    context.append([4, 5])
    assert context.next_row is None
    context.catch_up()
    assert_caught_up(context, [1, 2, 3, 4, 5])
    assert context.model.forward_sizes == [3, 2]


@pytest.mark.parametrize(("max_batch", "sizes"), [(1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (512, [7])])
def test_prompt_is_fed_in_batches_the_model_can_take(max_batch: int, sizes: list[int]) -> None:
    context = context_of([1, 2, 3, 4, 5, 6, 7], max_batch=max_batch)
    context.catch_up()
    assert context.model.forward_sizes == sizes
    assert_caught_up(context, [1, 2, 3, 4, 5, 6, 7])


def test_long_prompt_is_cut_so_that_a_cancel_is_noticed() -> None:
    context = context_of([1] * 1000, max_seq_len=1000, max_batch=1000)
    context.catch_up()
    assert max(context.model.forward_sizes) <= 256


def test_cancelled_catch_up_goes_on_where_it_ended() -> None:
    context = context_of([1, 2, 3, 4, 5], max_batch=2)
    answers = iter([False, True])
    assert not context.catch_up(lambda: next(answers))
    assert (context.state.seq_len, context.next_row) == (2, None)
    assert context.catch_up()
    assert_caught_up(context, [1, 2, 3, 4, 5])
    assert context.model.forward_sizes == [2, 2, 1]


def test_truncate_keeps_the_cache_and_feeds_the_last_token_again_for_its_row() -> None:
    context = context_of([1, 2, 3, 4])
    context.catch_up()
    context.truncate(2)
    context.catch_up()
    assert_caught_up(context, [1, 2])
    assert context.model.forward_sizes == [4, 1]


def test_truncate_to_the_same_length_changes_nothing() -> None:
    context = context_of([1, 2])
    context.catch_up()
    row = context.next_row
    context.truncate(2)
    assert context.next_row is row


@pytest.mark.parametrize("length", [-1, 3, 100])
def test_truncate_to_a_length_that_is_none_is_refused(length: int) -> None:
    context = context_of([1, 2])
    with pytest.raises(InvalidInputError, match=rf"length from 0 to the 2 tokens there are; it is {length}\."):
        context.truncate(length)


def test_model_that_cannot_go_back_that_far_is_fed_again() -> None:
    context = context_of([1, 2, 3, 4, 5], rewind_headroom=2)
    context.catch_up()
    context.truncate(1)
    context.append([7])
    context.catch_up()
    assert_caught_up(context, [1, 7])


@pytest.mark.parametrize("error", [ModelError("no"), RuntimeError("bug")])
def test_rewind_that_fails_in_any_way_costs_time_only(error: Exception) -> None:
    class Failing(TableModel):
        def truncate(self, state: InferenceState, length: int) -> None:
            raise error

    model = Failing()
    context = Context(model, model.new_state())
    context.append([1, 2, 3])
    context.catch_up()
    context.truncate(2)
    context.catch_up()
    assert_caught_up(context, [1, 2])


def test_replace_keeps_the_cache_up_to_the_first_difference() -> None:
    context = context_of([1, 2, 3, 4])
    context.catch_up()
    assert context.replace([1, 2, 9, 4, 5]) == 2
    context.catch_up()
    assert_caught_up(context, [1, 2, 9, 4, 5])
    assert context.model.forward_sizes == [4, 3]


@pytest.mark.parametrize(
    ("replacement", "num_kept"), [([1, 2, 3], 3), ([1, 2], 2), ([1, 2, 3, 4], 3), ([5], 0), ([], 0), ([1, 2, 4], 2)]
)
def test_replace_by_anything_is_like_a_fresh_context(replacement: list[int], num_kept: int) -> None:
    context = context_of([1, 2, 3])
    context.catch_up()
    assert context.replace(replacement) == num_kept
    assert list(context.history.view()) == replacement
    if replacement:
        context.catch_up()
        assert_caught_up(context, replacement)


@pytest.mark.parametrize("bad", [-1, 16, 1.0, "3", None, np.float32(1)])
def test_id_that_is_none_is_refused_with_its_position_and_nothing_changes(bad: Any) -> None:
    context = context_of([1, 2])
    for change in (context.append, context.replace):
        with pytest.raises(InvalidInputError, match="integer from 0 to 15; the one at position 1 is "):
            change([3, bad])
    assert list(context.history.view()) == [1, 2]


def test_ids_may_be_numpy_integers() -> None:
    context = context_of([1])
    context.append(np.array([2, 3]))  # type: ignore[arg-type]
    assert context.replace(np.array([1, 2, 4], np.int32)) == 2  # type: ignore[arg-type]
    context.catch_up()
    assert_caught_up(context, [1, 2, 4])


def test_prompt_may_fill_the_context_and_no_more() -> None:
    context = context_of([1, 2], max_seq_len=4)
    context.append([3, 4])
    assert context.num_left == 0
    with pytest.raises(ContextFullError, match="holds 4 tokens, and 5 are needed"):
        context.append([5])
    with pytest.raises(ContextFullError, match="holds 4 tokens, and 5 are needed"):
        context.replace([5, 6, 7, 8, 9])
    context.catch_up()
    assert_caught_up(context, [1, 2, 3, 4])


def test_fork_is_independent_and_computes_nothing_again() -> None:
    context = context_of([1, 2, 3])
    context.catch_up()
    fork = context.fork()
    assert_caught_up(fork, [1, 2, 3])
    assert fork.model.forward_sizes == [3]
    fork.append([4])
    fork.catch_up()
    context.truncate(1)
    context.append([9])
    context.catch_up()
    assert_caught_up(fork, [1, 2, 3, 4])
    assert_caught_up(context, [1, 9])


def test_row_of_a_fork_is_its_own() -> None:
    context = context_of([1])
    context.catch_up()
    context.next_row = context.next_row.copy()
    fork = context.fork()
    context.next_row[:] = 0
    assert_caught_up(fork, [1])


class Moody(TableModel):
    """Fails in a way the test chooses, once."""

    def __init__(self, mood: Any = None) -> None:
        super().__init__(max_batch=2)
        self.mood = mood

    def forward(self, token_ids: Any, state: InferenceState) -> Any:
        mood, self.mood = self.mood, None
        return mood(super().forward, token_ids, state) if mood else super().forward(token_ids, state)


def raises_before(forward: Any, token_ids: Any, state: Any) -> Any:
    raise MemoryError


def raises_after(forward: Any, token_ids: Any, state: Any) -> Any:
    forward(token_ids, state)
    raise KeyboardInterrupt


def gives_two_rows(forward: Any, token_ids: Any, state: Any) -> Any:
    return np.stack([forward(token_ids, state)] * 2)


def appends_nothing(forward: Any, token_ids: Any, state: Any) -> Any:
    row = forward(token_ids, state)
    state.token_ids = state.token_ids[: -len(token_ids)]
    state.seq_len = len(state.token_ids)
    return row


@pytest.mark.parametrize(
    ("mood", "error", "words"),
    [
        (raises_before, ModelError, "'forward' of Moody failed with MemoryError. The backend is at fault"),
        (raises_after, KeyboardInterrupt, None),
        (gives_two_rows, ModelError, r"Moody must return logits of shape \(16,\); it returned \(2, 16\)"),
        (appends_nothing, ModelError, "'forward' of Moody must append all of its tokens"),
    ],
)
def test_forward_that_fails_is_an_error_and_is_made_good_later(mood: Any, error: Any, words: str) -> None:
    model = Moody()
    context = Context(model, model.new_state())
    context.append([1, 2, 3, 4, 5])
    model.mood = mood
    with pytest.raises(error, match=words):
        context.catch_up()
    context.append([6])
    context.catch_up()
    assert_caught_up(context, [1, 2, 3, 4, 5, 6])


@pytest.mark.parametrize(("max_seq_len", "remedy"), [(4, "larger 'context_length'"), (256, "the model takes no more")])
def test_a_larger_context_is_advised_only_where_the_model_has_one(max_seq_len: int, remedy: str) -> None:
    model = TableModel(max_seq_len=256)
    context = Context(model, model.new_state(max_seq_len))
    with pytest.raises(ContextFullError, match=remedy):
        context.append([1] * (max_seq_len + 1))
