"""What a model backend is: something that turns tokens into logits, one row a token.

A `Model` holds weights only and is shared by sessions and threads; what a session adds (the key/value cache) lives in
its `InferenceState`. This module knows nothing of drafts: verifying many tokens is just `forward_all`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from cera_core.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Logits: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """What the loop and a reader need to know of a model.

    Attributes:
        vocab_size: Number of token ids; a row of logits has this length.
        max_seq_len: The context length in tokens the model was made for.
        architecture: The architecture's name, as in the model file.
        name: The model's name, for people.
        num_layers: Number of blocks; 0 if unknown.
        hidden_size: Width of the residual stream; 0 if unknown.
        num_parameters: Number of weights; 0 if unknown.
        file_size: Bytes of weights a forward reads; 0 if unknown.
    """

    vocab_size: int
    max_seq_len: int
    architecture: str = ""
    name: str = ""
    num_layers: int = 0
    hidden_size: int = 0
    num_parameters: int = 0
    file_size: int = 0


class InferenceState:
    """What one session adds to a model: its cache. Backends subclass it.

    Attributes:
        seq_len: Number of tokens in the cache.
        max_seq_len: The most tokens it can hold.
        is_compressed: The cache no longer holds every token as it was (evicted or merged), so nothing can be verified.
    """

    def __init__(self, max_seq_len: int) -> None:
        self.seq_len = 0
        self.max_seq_len = max_seq_len
        self.is_compressed = False


class Model(ABC):
    """Weights, and the forward pass over them.

    An error leaves the state as it was. Sessions on several threads may use one model at the same time, each with a
    state of its own.

    Attributes:
        config: What the model is.
        supports_all_logits: `forward_all` works; without it cera decodes plainly.
        supports_rewind: `truncate` can go back; without it cera decodes plainly.
        supports_copy: `copy_state` works; without it a session cannot fork.
        batch_invariant: A row's logits have the same bits however many rows share the forward, however the prompt was
            chunked, after any truncate. Only then is text with and without drafts the same by construction.
        max_batch: The most tokens one forward takes.
    """

    config: ModelConfig
    supports_all_logits: bool = True
    supports_rewind: bool = True
    supports_copy: bool = False
    batch_invariant: bool = False
    max_batch: int = 512

    @abstractmethod
    def new_state(self, max_seq_len: int | None = None) -> InferenceState:
        """Makes an empty state for at most `max_seq_len` tokens, by default the model's own context length."""

    @abstractmethod
    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends all of `token_ids` (1 to `max_batch`).

        Returns:
            The logits after the last token, float32[vocab_size]; they stay valid until the next forward on
            this state.

        Raises:
            InvalidInputError: An id is outside the vocabulary, or there are none.
            ContextFullError: The state cannot hold them.
        """

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends all of `token_ids` like `forward`, and keeps every row.

        Returns:
            float32[len(token_ids), vocab_size]; row j predicts the token after `token_ids[j]`.
            Valid like the result of `forward`.
        """
        raise ModelError(f"{type(self).__name__} gives logits for the last token only (supports_all_logits is False).")

    def truncate(self, state: InferenceState, length: int) -> None:
        """Cuts the state to its first `length` tokens; free when that changes nothing.

        Raises:
            RewindError: The state cannot go back that far; it is unchanged.
        """
        raise ModelError(f"{type(self).__name__} cannot rewind (supports_rewind is False).")

    def rewind_headroom(self, state: InferenceState) -> int:
        """Returns by how many tokens `truncate` can shorten the state now."""
        return state.seq_len if self.supports_rewind else 0

    def copy_state(self, state: InferenceState) -> InferenceState:
        """Makes an independent state with the same content."""
        raise ModelError(f"{type(self).__name__} cannot copy a state (supports_copy is False).")

    def facts(self) -> Mapping[str, str]:
        """Returns what a reader of a measurement should know of how the model runs here, such as its threads.

        The key `machine state`, where there is one, names a state of the machine in which figures can be compared.
        """
        return {}
