"""`Model` and `InferenceState` over the extension: checks arguments, owns the buffers logits are written to."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cera_core.model import InferenceState, Model, ModelConfig
from cera_core.model_inputs import context_length, ids_of_forward, length_to_keep, own_state

if TYPE_CHECKING:
    from cera_core.model import Logits
    from cera_native import _native

LARGEST_LENGTH = np.iinfo(np.int32).max
LONGEST_ROUND_TRIP_IN_A_CACHE = 200.0
"""Nanoseconds of a cache line to another core and back; about 55 in one last-level cache, about 340 between two."""


class NativeState(InferenceState):
    """A session's cache in the extension, and the buffer its logits were last written to."""

    def __init__(self, native: _native.State) -> None:
        super().__init__(native.max_length)
        self.native = native
        self.seq_len = native.length
        self._logits: Logits = np.empty((0, 0), np.float32)

    @property
    def num_bytes(self) -> int:
        """Returns the memory the cache holds now, in bytes."""
        return self.native.num_bytes

    def logits_buffer(self, num_rows: int, vocab_size: int) -> Logits:
        """Returns memory for rows of logits: the last one again, unless somebody still holds it or it is too small.

        New pages of memory cost about as much as writing them twice, which for a large vocabulary is felt.
        """
        is_free = sys.getrefcount(self._logits) == 2  # the attribute, and the argument of the call
        if not is_free or self._logits.shape[0] < num_rows or self._logits.shape[1] != vocab_size:
            self._logits = np.empty((num_rows, vocab_size), np.float32)
        return self._logits[:num_rows]


class NativeModel(Model):
    """Packed weights, shared by sessions and threads; one forward runs at a time, others wait for it."""

    supports_all_logits = True
    supports_rewind = True
    supports_copy = True
    batch_invariant = True
    max_batch = 512

    def __init__(self, config: ModelConfig, weights: _native.Model) -> None:
        self.config = config
        self._weights = weights

    @property
    def instruction_set(self) -> str:
        """Returns the name of the instruction set the kernels use."""
        return self._weights.instruction_set

    @property
    def num_threads(self) -> int:
        """Returns the number of threads a forward runs on."""
        return self._weights.num_threads

    def new_state(self, max_seq_len: int | None = None) -> NativeState:
        """Makes an empty state; memory is taken as it fills.

        Raises:
            InvalidInputError: `max_seq_len` is below 1 or above the model's context length.
        """
        limit = min(self.config.max_seq_len, LARGEST_LENGTH)
        return NativeState(self._weights.new_state(context_length(max_seq_len, limit)))

    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends the ids; returns the logits after the last."""
        logits: Logits = self._forward(token_ids, state, all_rows=False)[0]
        return logits

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends the ids; returns the logits after each."""
        return self._forward(token_ids, state, all_rows=True)

    def truncate(self, state: InferenceState, length: int) -> None:
        """Cuts the state to its first `length` tokens."""
        native_state = own_state(state, NativeState)
        length = length_to_keep(state, length, native_state.native.oldest)
        self._weights.truncate(native_state.native, length)
        native_state.seq_len = length

    def rewind_headroom(self, state: InferenceState) -> int:
        """Returns by how many tokens `truncate` can shorten the state now."""
        native_state = own_state(state, NativeState)
        return native_state.seq_len - native_state.native.oldest

    def copy_state(self, state: InferenceState) -> NativeState:
        """Makes an independent state with the same content."""
        return NativeState(self._weights.copy_state(own_state(state, NativeState).native))

    def facts(self) -> Mapping[str, str]:
        """Returns the instruction set, the threads, and whether the cores share their last cache at the moment.

        The host of a virtual machine may move its cores; a cache line then takes several times as long between them.
        """
        from cera_native._native import core_round_trip  # noqa: PLC0415 - may not have been built

        round_trip = core_round_trip()
        return {
            "instruction set": self.instruction_set,
            "threads": str(self.num_threads),
            "machine state": "shared cache" if round_trip < LONGEST_ROUND_TRIP_IN_A_CACHE else "separate caches",
            "round trip between cores": f"{round_trip:.0f} ns",
        }

    def _forward(self, token_ids: Sequence[int], state: InferenceState, *, all_rows: bool) -> Logits:
        native_state = own_state(state, NativeState)
        ids = ids_of_forward(token_ids, self).astype(np.int32)
        logits = native_state.logits_buffer(len(ids) if all_rows else 1, self.config.vocab_size)
        self._weights.forward(native_state.native, ids, logits, all_rows)
        native_state.seq_len = native_state.native.length
        return logits
