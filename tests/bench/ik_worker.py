"""ik_llama.cpp, through the package ik-llama-cpp-python, as a contestant of bench_native.py."""

from __future__ import annotations

import ctypes

import ik_llama_cpp._ctypes_api as api
from llama_session import LlamaSession, context_parameters
from worker import serve


def load(path: str, threads: int) -> LlamaSession:
    """Loads a model with weights repacked and flash attention on: its fastest setting here."""
    api.llama_backend_init()
    model_parameters = api.llama_model_default_params()
    model_parameters.repack_tensors = True
    model_parameters.use_mmap = False
    model = api.llama_model_load_from_file(path.encode(), model_parameters)
    parameters = context_parameters(api, threads)
    parameters.flash_attn = True
    context = api.llama_init_from_model(model, parameters)
    remove = api._lib.llama_kv_cache_seq_rm
    remove.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32]
    return LlamaSession(api, context, lambda length: remove(context, 0, length, -1))


serve(load)
