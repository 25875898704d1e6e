"""Small models whose every logit is known, for tests of whatever talks to a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import RewindError
from cera_core.model import InferenceState, Model, ModelConfig
from cera_core.model_inputs import check_room, context_length, ids_of_forward, own_state

if TYPE_CHECKING:
    from cera_core.model import Logits


class TokenState(InferenceState):
    """A state that is nothing but the tokens it was fed.

    Attributes:
        token_ids: Those tokens.
    """

    def __init__(self, max_seq_len: int) -> None:
        super().__init__(max_seq_len)
        self.token_ids: list[int] = []


class TableModel(Model):
    """A model whose logits are a seeded function of the last few tokens, so that its text repeats itself soon.

    Args:
        vocab_size: Number of token ids.
        order: How many tokens the logits depend on, at least 1.
        seed: Another seed is another model.
        max_seq_len: The context length.
        max_batch: The most tokens one forward takes.
        num_levels: How many different values a logit can have; few make ties.
        rewind_headroom: How far back `truncate` can go; None is all the way.

    Attributes:
        forward_sizes: The number of tokens of each forward so far.
    """

    batch_invariant = True
    supports_copy = True

    def __init__(
        self,
        vocab_size: int = 16,
        order: int = 2,
        seed: int = 0,
        *,
        max_seq_len: int = 256,
        max_batch: int = 64,
        num_levels: int = 1000,
        rewind_headroom: int | None = None,
    ) -> None:
        self.config = ModelConfig(vocab_size=vocab_size, max_seq_len=max_seq_len, architecture="table")
        self.max_batch = max_batch
        self.forward_sizes: list[int] = []
        self._order = order
        self._seed = seed
        self._num_levels = num_levels
        self._headroom = rewind_headroom
        self._rows: dict[tuple[int, ...], Logits] = {}

    def new_state(self, max_seq_len: int | None = None) -> TokenState:
        """Makes an empty state."""
        return TokenState(context_length(max_seq_len, self.config.max_seq_len))

    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends tokens; returns the last row."""
        last: Logits = self.forward_all(token_ids, state)[-1]
        return last

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends tokens; returns every row."""
        tokens = own_state(state, TokenState).token_ids
        check_forward(self, token_ids, state)
        rows = []
        for token_id in token_ids:
            tokens.append(token_id)
            rows.append(self.row(tokens))
        state.seq_len = len(tokens)
        self.forward_sizes.append(len(token_ids))
        return np.stack(rows)

    def truncate(self, state: InferenceState, length: int) -> None:
        """Cuts the state, if the headroom allows."""
        if not state.seq_len - self.rewind_headroom(state) <= length <= state.seq_len:
            raise RewindError(f"The state of {state.seq_len} tokens cannot be cut to {length}.")
        del own_state(state, TokenState).token_ids[length:]
        state.seq_len = length

    def rewind_headroom(self, state: InferenceState) -> int:
        """Returns how far back it can go."""
        return state.seq_len if self._headroom is None else min(self._headroom, state.seq_len)

    def copy_state(self, state: InferenceState) -> TokenState:
        """Makes an independent state with the same tokens."""
        copy = TokenState(state.max_seq_len)
        copy.token_ids = list(own_state(state, TokenState).token_ids)
        copy.seq_len = state.seq_len
        return copy

    def row(self, tokens: Sequence[int]) -> Logits:
        """Returns the logits after `tokens`."""
        last_tokens = tuple(tokens[-self._order :])
        if last_tokens not in self._rows:
            generator = np.random.default_rng([self._seed, *last_tokens])
            levels = generator.integers(0, self._num_levels, self.config.vocab_size)
            row = self._rows[last_tokens] = (levels / 100).astype(np.float32)
            row.setflags(write=False)  # it is given out again
        return self._rows[last_tokens]


class ScriptedModel(TableModel):
    """A model that wants to say the same token at a position whatever was said before, script after script.

    Args:
        script: The tokens it wants to say, by position.
        vocab_size: Number of token ids.
        max_seq_len: The context length.
    """

    def __init__(self, script: Sequence[int], vocab_size: int = 64, max_seq_len: int = 256) -> None:
        super().__init__(vocab_size, max_seq_len=max_seq_len)
        self._script = list(script)

    def row(self, tokens: Sequence[int]) -> Logits:
        """Returns logits whose largest is the script's token for the position after `tokens`."""
        row = np.zeros(self.config.vocab_size, np.float32)
        row[self._script[len(tokens) % len(self._script)]] = 1
        return row


class CyclicModel(TableModel):
    """A model that counts: after any token it wants to say the next one, and after the last the first again.

    Args:
        period: Number of token ids.
        max_seq_len: The context length.
    """

    def __init__(self, period: int = 5, max_seq_len: int = 256) -> None:
        super().__init__(period, order=1, max_seq_len=max_seq_len)

    def row(self, tokens: Sequence[int]) -> Logits:
        """Returns logits whose largest is the token after the last of `tokens`."""
        row = np.zeros(self.config.vocab_size, np.float32)
        row[(tokens[-1] + 1) % self.config.vocab_size] = 1
        return row


class RecurrentState(InferenceState):
    """A summary of all tokens so far, and the summaries before the last few of them."""

    def __init__(self, max_seq_len: int) -> None:
        super().__init__(max_seq_len)
        self.summaries = [0]


class RecurrentModel(Model):
    """A model whose state is one number, whatever it was fed, and which can go back a few tokens only.

    Args:
        vocab_size: Number of token ids.
        max_seq_len: The context length.
        headroom: How many tokens `truncate` can take back.
    """

    batch_invariant = True
    supports_copy = True
    max_batch = 64

    def __init__(self, vocab_size: int = 16, max_seq_len: int = 256, headroom: int = 4) -> None:
        self.config = ModelConfig(vocab_size=vocab_size, max_seq_len=max_seq_len, architecture="recurrent")
        self._headroom = headroom

    def new_state(self, max_seq_len: int | None = None) -> RecurrentState:
        """Makes an empty state."""
        return RecurrentState(context_length(max_seq_len, self.config.max_seq_len))

    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends tokens; returns the last row."""
        last: Logits = self.forward_all(token_ids, state)[-1]
        return last

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends tokens; returns every row."""
        summaries = self._summaries_of(state)
        check_forward(self, token_ids, state)
        rows = []
        for token_id in token_ids:
            summaries.append((summaries[-1] * 31 + token_id + 1) % 2**31)
            levels = np.random.default_rng(summaries[-1]).integers(0, 1000, self.config.vocab_size)
            rows.append((levels / 100).astype(np.float32))
        state.seq_len += len(token_ids)
        del summaries[: -1 - self._headroom]
        return np.stack(rows)

    def truncate(self, state: InferenceState, length: int) -> None:
        """Cuts the state, if the headroom allows."""
        num_taken_back = state.seq_len - length
        if not 0 <= num_taken_back <= self.rewind_headroom(state):
            raise RewindError(f"The state of {state.seq_len} tokens cannot be cut to {length}.")
        summaries = self._summaries_of(state)
        del summaries[len(summaries) - num_taken_back :]
        state.seq_len = length

    def rewind_headroom(self, state: InferenceState) -> int:
        """Returns how far back it can go."""
        return len(self._summaries_of(state)) - 1

    def copy_state(self, state: InferenceState) -> RecurrentState:
        """Makes an independent state with the same summaries."""
        copy = RecurrentState(state.max_seq_len)
        copy.summaries, copy.seq_len = list(self._summaries_of(state)), state.seq_len
        return copy

    @staticmethod
    def _summaries_of(state: InferenceState) -> list[int]:
        return own_state(state, RecurrentState).summaries


def check_forward(model: Model, token_ids: Sequence[int], state: InferenceState) -> None:
    """Refuses what no forward can append.

    Raises:
        InvalidInputError: There are none or too many, or one is outside the vocabulary.
        ContextFullError: The state cannot hold them.
    """
    ids_of_forward(token_ids, model)
    check_room(state, len(token_ids))
