"""ik_llama.cpp, through the package ik-llama-cpp-python, as a contestant of bench_native.py."""

from __future__ import annotations

import ctypes

import ik_llama_cpp._ctypes_api as api
from worker import CHUNK, serve


class IkLlama:
    """A model and one context; weights repacked at load, flash attention on: its fastest setting here."""

    def __init__(self, path: str, threads: int) -> None:
        api.llama_backend_init()
        model_parameters = api.llama_model_default_params()
        model_parameters.repack_tensors = True
        model_parameters.use_mmap = False
        self._model = api.llama_model_load_from_file(path.encode(), model_parameters)
        parameters = api.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = 2048, CHUNK, CHUNK
        parameters.n_threads = parameters.n_threads_batch = threads
        parameters.flash_attn = True
        self._context = api.llama_init_from_model(self._model, parameters)
        self._batch = api.llama_batch_init(CHUNK, 0, 1)
        self._remove = api._lib.llama_kv_cache_seq_rm
        self._remove.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]
        self._length = 0

    def run(self, num_tokens: int, *, all_rows: bool) -> None:
        batch = self._batch
        batch.n_tokens = num_tokens
        for i in range(num_tokens):
            batch.token[i], batch.pos[i] = 100 + i, self._length + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = all_rows or i == num_tokens - 1
        if api.llama_decode(self._context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        api.llama_get_logits_ith(self._context, num_tokens - 1)
        self._length += num_tokens

    def cut(self, length: int) -> None:
        self._remove(self._context, 0, length, -1)
        self._length = min(self._length, length)


serve(IkLlama)
