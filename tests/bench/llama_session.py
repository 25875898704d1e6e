"""A session of llama.cpp or a fork of it, over the C functions that their Python packages share."""

from __future__ import annotations

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
    """One sequence in a context; `remove(length)` drops what lies behind a length."""

    def __init__(self, api: ModuleType, context: Any, remove: Callable[[int], object]) -> None:
        self._api, self._context, self._remove = api, context, remove
        self._batch = api.llama_batch_init(CHUNK, 0, 1)
        self._length = 0

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
        self._remove(length)
        self._length = min(self._length, length)
