"""One forward judges a draft: the longest run the model agrees with is kept, the rest is rewound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core.errors import ModelError, RewindError
from cera_core.model import InferenceState
from cera_core.speculation.sampling import argmax
from cera_core.speculation.verify import verify_draft
from cera_core.testing.fakes import TableModel, TokenState


def greedy_text(model: TableModel, prompt: list[int], num_tokens: int) -> list[int]:
    text = list(prompt)
    for _ in range(num_tokens):
        text.append(argmax(model.row(text)))
    return text[len(prompt) :]


def state_with(model: TableModel, tokens: list[int]) -> TokenState:
    state = model.new_state()
    model.forward(tokens, state)
    return state


def test_right_draft_is_accepted_whole_and_followed_by_the_bonus_row() -> None:
    model = TableModel()
    state = state_with(model, [1, 2])
    draft = greedy_text(model, [1, 2, 3], 4)
    result = verify_draft(model, state, 3, draft)
    assert result.accepted == draft
    assert state.token_ids == [1, 2, 3, *draft]
    assert (result.follow_logits == model.row(state.token_ids)).all()
    assert result.rows.shape == (5, 16)


def test_first_draft_token_is_judged_by_the_row_after_the_committed_token() -> None:
    model = TableModel()
    state = state_with(model, [1, 2])
    right = argmax(model.row([1, 2, 3]))
    result = verify_draft(model, state, 3, [(right + 1) % 16, right])
    assert result.accepted == []
    assert state.token_ids == [1, 2, 3]
    assert (result.follow_logits == model.row([1, 2, 3])).all()
    assert argmax(result.follow_logits) == right  # the correction


def test_run_ends_at_the_first_token_the_model_disagrees_with() -> None:
    model = TableModel()
    state = state_with(model, [1, 2])
    draft = greedy_text(model, [1, 2, 3], 5)
    draft[2] = (draft[2] + 1) % 16
    result = verify_draft(model, state, 3, draft)
    assert result.accepted == draft[:2]
    assert state.token_ids == [1, 2, 3, *draft[:2]]
    assert (result.follow_logits == model.row(state.token_ids)).all()


def test_empty_draft_only_appends() -> None:
    model = TableModel()
    state = state_with(model, [1])
    result = verify_draft(model, state, 2, [])
    assert (result.accepted, state.token_ids) == ([], [1, 2])
    assert (result.follow_logits == model.row([1, 2])).all()


def test_it_takes_one_forward() -> None:
    model = TableModel()
    state = state_with(model, [1])
    model.forward_sizes.clear()
    verify_draft(model, state, 2, [3, 4, 5])
    assert model.forward_sizes == [4]


def test_each_row_is_judged_with_the_tokens_accepted_before_it_and_none_after() -> None:
    model = TableModel()
    state = state_with(model, [1])
    draft = [5, 6, 7, 8]
    seen = []

    def choose(row: np.ndarray, accepted: Any) -> int:
        assert (row == model.row([1, 2, *accepted])).all()
        seen.append(list(accepted))
        return draft[len(accepted)] if len(accepted) < 2 else 0

    assert verify_draft(model, state, 2, draft, choose).accepted == [5, 6]
    assert seen == [[], [5], [5, 6]]


def test_tie_in_a_row_is_decided_for_the_lowest_id() -> None:
    model = TableModel(num_levels=1)  # every logit is 0
    assert verify_draft(model, state_with(model, [1]), 2, [1]).accepted == []
    assert verify_draft(model, state_with(model, [1]), 2, [0, 0]).accepted == [0, 0]


class Misshapen(TableModel):
    """Returns rows of another shape than it should."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.change = change

    def forward_all(self, token_ids: Any, state: InferenceState) -> Any:
        return self.change(super().forward_all(token_ids, state))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows[1:], r"\(2, 16\)"),
        (lambda rows: np.concatenate([rows, rows]), r"\(6, 16\)"),
        (lambda rows: rows[:, :-1], r"\(3, 15\)"),
        (lambda rows: rows[-1], r"\(16,\)"),
        (lambda rows: rows.tolist(), "list"),
        (lambda rows: None, "NoneType"),
    ],
    ids=["too few", "too many", "too narrow", "last only", "a list", "None"],
)
def test_rows_of_another_shape_are_an_error_and_leave_the_state_as_it_was(change: Any, found: str) -> None:
    model = Misshapen(lambda rows: rows)
    state = state_with(model, [1])
    model.change = change
    with pytest.raises(ModelError, match=rf"Misshapen must return logits of shape \(3, 16\); it returned {found}"):
        verify_draft(model, state, 2, [3, 4])
    assert state.token_ids == [1]


def test_choice_that_fails_leaves_the_state_as_it_was() -> None:
    model = TableModel()
    state = state_with(model, [1])
    with pytest.raises(ZeroDivisionError):
        verify_draft(model, state, 2, [3], lambda *_: 1 // 0)
    assert state.token_ids == [1]


def test_forward_that_is_interrupted_after_appending_leaves_the_state_as_it_was() -> None:
    class Interrupted(TableModel):
        def forward_all(self, token_ids: Any, state: InferenceState) -> Any:
            super().forward_all(token_ids, state)
            raise KeyboardInterrupt

    model = Interrupted()
    state = model.new_state()
    with pytest.raises(KeyboardInterrupt):
        verify_draft(model, state, 2, [3])
    assert state.token_ids == []


def test_every_rewind_goes_through_the_model() -> None:
    class Watched(TableModel):
        def __init__(self) -> None:
            super().__init__()
            self.lengths: list[int] = []

        def truncate(self, state: InferenceState, length: int) -> None:
            self.lengths.append(length)
            super().truncate(state, length)

    model = Watched()
    state = state_with(model, [1, 2])
    wrong = (argmax(model.row([1, 2, 3])) + 1) % 16
    verify_draft(model, state, 3, [wrong, wrong])
    assert model.lengths == [3]


def test_rewind_that_the_model_refuses_is_an_error() -> None:
    model = TableModel(rewind_headroom=1)
    state = state_with(model, [1, 2])
    wrong = (argmax(model.row([1, 2, 3])) + 1) % 16
    with pytest.raises(RewindError):
        verify_draft(model, state, 3, [wrong, wrong, wrong])


@given(
    seed=st.integers(0, 50),
    num_levels=st.sampled_from([2, 1000]),
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=5),
    draft=st.lists(st.integers(0, 3), max_size=8),
)
def test_accepted_run_is_what_plain_decoding_would_say(
    seed: int, num_levels: int, prompt: list[int], draft: list[int]
) -> None:
    model = TableModel(4, seed=seed, num_levels=num_levels)
    state = model.new_state()
    if prompt[:-1]:
        model.forward(prompt[:-1], state)
    result = verify_draft(model, state, prompt[-1], draft)
    plain = greedy_text(model, prompt, len(draft) + 1)
    num_agreed = next((place for place, token_id in enumerate(draft) if token_id != plain[place]), len(draft))
    assert result.accepted == plain[:num_agreed]
    assert argmax(result.follow_logits) == plain[num_agreed]
    assert state.token_ids == prompt + result.accepted


def test_failure_in_a_draft_as_long_as_the_headroom_is_not_hidden_by_the_rewind() -> None:
    model = TableModel(rewind_headroom=2)
    state = model.new_state()
    model.forward([1, 2, 3], state)

    def fail(row: Any, accepted: Sequence[int]) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verify_draft(model, state, 4, [5, 6], fail)
