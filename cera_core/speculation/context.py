"""The committed tokens of a session and the cache behind them.

The cache follows the history lazily: `append` and `truncate` change the history, `catch_up` brings the cache up to it.
So whatever fails between the two, nothing is lost but time. It knows nothing of text, drafts or options.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Iterable, Sequence, Sized
from numbers import Integral
from typing import TYPE_CHECKING

from cera_core.drafter import common_prefix_length
from cera_core.errors import ContextFullError, InvalidInputError, ModelError
from cera_core.foreign_errors import let_interrupt_through
from cera_core.speculation.history import History
from cera_core.speculation.model_guard import call_model, check_model, checked_forward, new_state

if TYPE_CHECKING:
    from cera_core.model import InferenceState, Logits, Model

_PREFILL_ROWS = 256
"""Tokens of a prompt in one forward: enough to share each weight among many, few enough to notice a cancel soon."""


class Context:
    """Committed tokens, and a state that holds them or the beginning of them.

    Args:
        model: Does the forwards.
        state: A fresh state of the model.

    Attributes:
        model: As above.
        state: As above; another one after a rewind that the model could not do.
        history: The committed tokens.
        next_row: float32[vocab_size], the logits after the last committed token; None while the state lags behind.
    """

    def __init__(self, model: Model, state: InferenceState) -> None:
        check_model(model)
        self.model = model
        self.state = state
        self.history = History()
        self.next_row: Logits | None = None

    @property
    def num_left(self) -> int:
        """How many more tokens fit."""
        return self.state.max_seq_len - len(self.history)

    def append(self, token_ids: Sequence[int]) -> None:
        """Commits tokens.

        Raises:
            InvalidInputError: An id is no integer or outside the vocabulary; nothing was appended.
            ContextFullError: They do not fit; nothing was appended.
        """
        new_ids = self._checked(token_ids, len(self.history))
        if new_ids:
            self.history.extend(new_ids)
            self.next_row = None

    def truncate(self, length: int) -> None:
        """Keeps the first `length` tokens; a model that cannot go back that far will be fed them again.

        Raises:
            InvalidInputError: There are fewer tokens than that.
        """
        if not isinstance(length, Integral) or not 0 <= length <= len(self.history):
            raise InvalidInputError(
                f"'truncate' needs a length from 0 to the {len(self.history)} tokens there are; it is {length!r:.80}."
            )
        if length < len(self.history):
            self.history.truncate(length)
            self.next_row = None
            if self.state.seq_len > length:
                self._rewind(length)

    def replace(self, token_ids: Sequence[int]) -> int:
        """Commits `token_ids` in place of what is there, keeping the cache up to the first difference.

        Returns:
            How many tokens at the start were kept.
        """
        new_ids = self._checked(token_ids, 0)
        num_kept = common_prefix_length(array("i", self.history.view()), new_ids)
        self.truncate(num_kept)
        self.append(new_ids[num_kept:])
        return num_kept

    def catch_up(self, is_cancelled: Callable[[], bool] = lambda: False) -> bool:
        """Feeds the model what it lacks of the history.

        Args:
            is_cancelled: Asked before each forward.

        Returns:
            Whether it was finished; False after a cancel.
        """
        length = len(self.history)
        if self.state.seq_len > length or (self.state.seq_len == length and self.next_row is None):
            self._rewind(max(length - 1, 0))  # the last token again: its logits are needed
        tokens = self.history.view()
        num_rows = min(_PREFILL_ROWS, self.model.max_batch)
        while self.state.seq_len < length:
            if is_cancelled():
                return False
            start = self.state.seq_len
            row = self.forward(tokens[start : start + num_rows])
            self.next_row = row if self.state.seq_len == length else None
        return True

    def forward(self, token_ids: Sequence[int]) -> Logits:
        """Feeds the model tokens of the history that it lacks; returns the row after the last.

        Raises:
            ModelError: The model failed, or its row or state is not as the contract says.
        """
        required_len = self.state.seq_len + len(token_ids)
        row = checked_forward(self.model.forward, token_ids, self.state, (self.model.config.vocab_size,))
        if self.state.seq_len != required_len:
            raise ModelError(
                f"'forward' of {type(self.model).__name__} must append all of its tokens, which makes {required_len}; "
                f"the state has {self.state.seq_len}. The backend is at fault."
            )
        return row

    def rewind_headroom(self) -> int:
        """Returns how far back the state can go now; a model that does not say cannot go back."""
        headroom = call_model(self.model.rewind_headroom, self.state)
        if type(headroom) is int:
            return headroom
        return int(headroom) if isinstance(headroom, Integral) else 0

    def fork(self) -> Context:
        """Makes an independent context with the same tokens; what was computed is copied, not computed again.

        Raises:
            ModelError: The model cannot copy a state.
        """
        fork = Context(self.model, call_model(self.model.copy_state, self.state))
        fork.history.extend(self.history.view()[:])
        fork.next_row = None if self.next_row is None else self.next_row.copy()
        return fork

    def _rewind(self, length: int) -> None:
        """Cuts the cache to `length` tokens, or to none where the model cannot go back that far."""
        try:
            self.model.truncate(self.state, length)
        except BaseException as error:  # one that breaks the contract too: a fresh state is right whatever happened
            let_interrupt_through(error)
            self.state = new_state(self.model, self.state.max_seq_len)

    def _checked(self, token_ids: Sequence[int], num_before: int) -> list[int]:
        """Returns ids as plain integers, if they fit behind `num_before` others and each is in the vocabulary."""
        check_are_ids(token_ids)
        num_tokens = num_before + len(token_ids)
        if num_tokens > self.state.max_seq_len:
            can_grow = self.state.max_seq_len < self.model.config.max_seq_len
            remedy = ", or load the model with a larger 'context_length'" if can_grow else "; the model takes no more"
            raise ContextFullError(
                f"The context holds {self.state.max_seq_len} tokens, and {num_tokens} are needed. "
                f"Shorten the text{remedy}."
            )
        return checked_ids(token_ids, self.model.config.vocab_size)


def check_are_ids(token_ids: object) -> None:
    """Raises for what is no sequence of ids at all; bytes are one of numbers, but those are no token ids."""
    if isinstance(token_ids, str | bytes | bytearray) or not (
        isinstance(token_ids, Sized) and isinstance(token_ids, Iterable)
    ):
        raise InvalidInputError(f"Text or a sequence of token ids is required, found {type(token_ids).__name__}.")


def checked_ids(token_ids: Sequence[int], vocab_size: int) -> list[int]:
    """Returns ids as plain integers.

    Raises:
        InvalidInputError: One is no integer, or outside the vocabulary.
    """
    check_are_ids(token_ids)
    checked = []
    for position, token_id in enumerate(token_ids):
        try:
            checked.append(operator.index(token_id))
        except TypeError:
            checked.append(-1)
        if not 0 <= checked[-1] < vocab_size:
            raise InvalidInputError(
                f"A token id must be an integer from 0 to {vocab_size - 1}; the one at position {position} is "
                f"{token_id!r}."
            )
    return checked
