"""A random walk of a state: append, draft, verify, truncate, fork, each step compared with a fresh state's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cera_core.errors import RewindError
from cera_core.model import InferenceState, Model

MAX_STATES = 3


class StateWalk:
    """Keeps some states of a model, each of which holds the beginning of one text.

    Args:
        model: Batch-invariant, so that equality is equality of bits.
        text: The text; long enough that caches grow and rings turn over.
        seed: Of the steps.
        max_rows: The most tokens of an append.

    Attributes:
        num_steps: How often each kind of step was taken.
    """

    def __init__(self, model: Model, text: Sequence[int], seed: int, max_rows: int = 40) -> None:
        self.num_steps: Counter[str] = Counter()
        self._model = model
        self._text = list(text)
        self._rng = np.random.default_rng(seed)
        self._max_rows = max_rows
        state = model.new_state()
        self._expected = np.array([model.forward([token_id], state).copy() for token_id in self._text])
        self._states = [model.new_state()]

    def step(self) -> None:
        """Takes one step with one of the states."""
        index = int(self._rng.integers(len(self._states)))
        state = self._states[index]
        if len(self._text) - state.seq_len < self._max_rows:
            self._states[index] = self._model.new_state()
            return
        steps = (self._append, self._verify, self._verify, self._truncate, self._truncate_too_far, self._fork)
        step = steps[int(self._rng.integers(len(steps)))]
        self.num_steps[step.__name__.lstrip("_")] += 1
        step(state)

    def _append(self, state: InferenceState) -> None:
        num_rows = int(self._rng.integers(1, self._max_rows if self._rng.random() < 0.2 else 8))
        self._check(state, self._next(state, num_rows), num_rows)

    def _verify(self, state: InferenceState) -> None:
        """Feeds a token and a draft of which a part is right, and takes the rest back."""
        num_drafted = min(int(self._rng.integers(1, 9)), self._model.rewind_headroom(state))
        num_right = int(self._rng.integers(0, num_drafted + 1))
        vocab_size = self._model.config.vocab_size
        wrong = self._rng.integers(0, vocab_size, num_drafted - num_right).tolist()
        old_len = state.seq_len
        self._check(state, self._next(state, 1 + num_right) + wrong, 1 + num_right)
        self._model.truncate(state, old_len + 1 + num_right)

    def _truncate(self, state: InferenceState) -> None:
        num_back = int(self._rng.integers(0, self._model.rewind_headroom(state) + 1))
        self._model.truncate(state, state.seq_len - num_back)

    def _truncate_too_far(self, state: InferenceState) -> None:
        before = state.seq_len, self._model.rewind_headroom(state)
        try:
            self._model.truncate(state, before[0] - before[1] - 1)
        except RewindError:
            assert (state.seq_len, self._model.rewind_headroom(state)) == before
        else:
            raise AssertionError("a state went back further than its headroom")

    def _fork(self, state: InferenceState) -> None:
        copy = self._model.copy_state(state)
        assert self._model.rewind_headroom(copy) == self._model.rewind_headroom(state)
        self._states = [*self._states, copy][-MAX_STATES:]

    def _next(self, state: InferenceState, num_tokens: int) -> list[int]:
        return self._text[state.seq_len : state.seq_len + num_tokens]

    def _check(self, state: InferenceState, token_ids: list[int], num_right: int) -> None:
        """Feeds tokens, the first of which go on with the text, and compares those rows with a fresh state's."""
        start = state.seq_len
        rows: NDArray[np.float32] = self._model.forward_all(token_ids, state)
        expected = self._expected[start : start + num_right]
        assert np.array_equal(rows[:num_right].view(np.uint32), expected.view(np.uint32)), (start, self.num_steps)
