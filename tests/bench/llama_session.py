"""A session of llama.cpp or a fork of it, over the C functions that their Python packages share."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

from worker import CHUNK

CONTEXT = 2048


def context_parameters(api: ModuleType, threads: int) -> Any:
    """Returns the parameters of a context as every contestant gets it."""
    parameters = api.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = CONTEXT, CHUNK, CHUNK
    parameters.n_threads = parameters.n_threads_batch = threads
    return parameters


class LlamaSession:
    """One sequence in a context; `remove(length)` drops what lies behind a length, and says whether it could.

    Where it cannot, as with short convolutions, the state that was there is put back.
    """

    def __init__(self, api: ModuleType, context: Any, remove: Callable[[int], bool]) -> None:
        self._api, self._context, self._remove = api, context, remove
        self._batch = api.llama_batch_init(CHUNK, 0, 1)
        self._length = 0
        self._kept = b""  # the state at the length it was last cut to

    def run(self, num_tokens: int, *, all_rows: bool) -> None:
        batch = self._batch
        batch.n_tokens = num_tokens
        for i in range(num_tokens):
            batch.token[i], batch.pos[i] = 100 + i, self._length + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = all_rows or i == num_tokens - 1
        if self._api.llama_decode(self._context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        self._api.llama_get_logits_ith(self._context, num_tokens - 1)
        self._length += num_tokens

    def cut(self, length: int) -> None:
        if length == self._length and hasattr(self._api, "llama_state_seq_get_size"):  # the fork has it not
            size = self._api.llama_state_seq_get_size(self._context, 0)
            kept = (ctypes.c_uint8 * size)()
            self._kept = bytes(kept[: self._api.llama_state_seq_get_data(self._context, kept, size, 0)])
        elif not self._remove(length):
            self._remove(0)
            kept = (ctypes.c_uint8 * len(self._kept)).from_buffer_copy(self._kept)
            self._api.llama_state_seq_set_data(self._context, kept, len(self._kept), 0)
        self._length = min(self._length, length)
