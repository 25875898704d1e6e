"""llama.cpp, through the package llama-cpp-python, as a contestant of bench_native.py.

The third argument is `flash` or `plain`: which attention is faster depends on the rows and the depth. Weights are
repacked at load where llama.cpp knows how.
"""

from __future__ import annotations

import sys

import llama_cpp as api
from llama_session import LlamaSession, context_parameters
from worker import serve


def load(path: str, threads: int) -> LlamaSession:
    """Loads a model with the attention that was asked for."""
    api.llama_backend_init()
    model_parameters = api.llama_model_default_params()
    model_parameters.use_mmap = False
    model = api.llama_model_load_from_file(path.encode(), model_parameters)
    parameters = context_parameters(api, threads)
    parameters.flash_attn_type = int(sys.argv[3] == "flash")
    context = api.llama_init_from_model(model, parameters)
    memory = api.llama_get_memory(context)
    return LlamaSession(api, context, lambda length: api.llama_memory_seq_rm(memory, 0, length, -1))


serve(load)
