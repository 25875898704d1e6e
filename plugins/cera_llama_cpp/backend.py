"""`Model` and `InferenceState` over the C functions of llama.cpp, a context of it for each state.

llama.cpp computes a row a little differently as more rows share the forward, so `batch_invariant` is False: at a near
tie a text with drafts may differ from one without, and cera says so where it matters.
"""

from __future__ import annotations

import ctypes
import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import llama_cpp as api
import numpy as np

from cera_core.errors import ModelError, ModelFileError
from cera_core.machine import num_usable_processors
from cera_core.model import InferenceState, Model, ModelConfig
from cera_core.model_inputs import check_room, context_length, ids_of_forward, length_to_keep, own_state

if TYPE_CHECKING:
    from cera_core.model import Logits
    from cera_core.modelfile.gguf import ModelFile
    from cera_llama_cpp import LlamaCppOptions

MAX_BATCH = 512
_SEQUENCE = 0  # each context holds one


class Weights:
    """A model of llama.cpp; freed when the last state and the model that use it are gone."""

    def __init__(self, model_file: ModelFile) -> None:
        self.model = _loaded(model_file)
        if not self.model:
            raise ModelFileError(
                f"'{model_file.path}': llama.cpp {api.__version__} cannot load the architecture "
                f"{model_file.architecture!r} or a tensor of this file. Use another backend or a newer binding."
            )
        self.vocab_size: int = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self.model))
        self.context_length: int = api.llama_model_n_ctx_train(self.model)
        self.is_recurrent: bool = api.llama_model_is_recurrent(self.model) or api.llama_model_is_hybrid(self.model)
        weakref.finalize(self, api.llama_model_free, self.model)


def _loaded(model_file: ModelFile, *, vocab_only: bool = False) -> Any:
    """Returns a model of llama.cpp, on the processors; a null pointer if it refuses the file."""
    # The binding prints what llama.cpp logs, all of it unless this is set: a page for each model and context.
    logging.getLogger("llama-cpp-python").setLevel(logging.CRITICAL)
    api.llama_backend_init()
    parameters = api.llama_model_default_params()
    parameters.n_gpu_layers = 0
    parameters.vocab_only = vocab_only
    return api.llama_model_load_from_file(str(model_file.path).encode(), parameters)


def knows(model_file: ModelFile) -> bool:
    """Says whether llama.cpp knows a file's architecture and vocabulary; reads no weights."""
    model = _loaded(model_file, vocab_only=True)
    if model:
        api.llama_model_free(model)
    return bool(model)


class LlamaCppState(InferenceState):
    """A context of llama.cpp with one sequence; its cache is taken at once for all tokens it can hold."""

    def __init__(self, weights: Weights, options: LlamaCppOptions, max_seq_len: int) -> None:
        super().__init__(max_seq_len)
        self._weights = weights  # outlives the context
        parameters = api.llama_context_default_params()
        parameters.n_ctx = max_seq_len
        parameters.n_batch = parameters.n_ubatch = min(MAX_BATCH, max_seq_len)
        parameters.n_threads = parameters.n_threads_batch = options.threads or num_usable_processors()
        if options.flash_attention is not None:
            parameters.flash_attn_type = int(options.flash_attention)
        parameters.swa_full = True  # sliding layers keep all, so that drafts can be taken back
        parameters.no_perf = True
        self.context = api.llama_init_from_model(weights.model, parameters)
        if not self.context:
            raise ModelError(
                f"llama.cpp could not make a context of {max_seq_len} tokens. Perhaps memory is short: set "
                "'context_length' lower."
            )
        self.memory = api.llama_get_memory(self.context)
        self.batch = api.llama_batch_init(MAX_BATCH, 0, 1)
        weakref.finalize(self, _free, self.context, self.batch)


def _free(context: Any, batch: Any) -> None:
    api.llama_batch_free(batch)
    api.llama_free(context)


class LlamaCppModel(Model):
    """A model file in llama.cpp."""

    supports_all_logits = True
    supports_copy = True
    batch_invariant = False
    max_batch = MAX_BATCH

    def __init__(self, config: ModelConfig, weights: Weights, options: LlamaCppOptions) -> None:
        self.config = config
        self.supports_rewind = not weights.is_recurrent
        self._weights = weights
        self._options = options

    def new_state(self, max_seq_len: int | None = None) -> LlamaCppState:
        """Makes an empty state.

        Raises:
            InvalidInputError: `max_seq_len` is below 1 or above the model's context length.
            ModelError: llama.cpp has no memory for it.
        """
        return LlamaCppState(self._weights, self._options, context_length(max_seq_len, self.config.max_seq_len))

    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends the ids; returns the logits after the last."""
        logits: Logits = self._forward(token_ids, state, all_rows=False)[0]
        return logits

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends the ids; returns the logits after each."""
        return self._forward(token_ids, state, all_rows=True)

    def truncate(self, state: InferenceState, length: int) -> None:
        """Cuts the state to its first `length` tokens."""
        own = own_state(state, LlamaCppState)
        length = length_to_keep(own, length, 0 if self.supports_rewind else own.seq_len)
        if length < own.seq_len:
            api.llama_memory_seq_rm(own.memory, _SEQUENCE, length, -1)
            own.seq_len = length

    def rewind_headroom(self, state: InferenceState) -> int:
        """Returns by how many tokens `truncate` can shorten the state now."""
        return own_state(state, LlamaCppState).seq_len if self.supports_rewind else 0

    def copy_state(self, state: InferenceState) -> LlamaCppState:
        """Makes an independent state with the same content."""
        own = own_state(state, LlamaCppState)
        copy = LlamaCppState(self._weights, self._options, own.max_seq_len)
        if own.seq_len:
            size = api.llama_state_seq_get_size(own.context, _SEQUENCE)
            content = (ctypes.c_uint8 * size)()
            written = api.llama_state_seq_get_data(own.context, content, size, _SEQUENCE)
            if not written or not api.llama_state_seq_set_data(copy.context, content, written, _SEQUENCE):
                raise ModelError(f"llama.cpp could not copy a state of {own.seq_len} tokens.")
        copy.seq_len = own.seq_len
        return copy

    def facts(self) -> Mapping[str, str]:
        """Returns the version of the binding and the threads."""
        return {
            "llama-cpp-python": api.__version__,
            "threads": str(self._options.threads or num_usable_processors()),
        }

    def _forward(self, token_ids: Sequence[int], state: InferenceState, *, all_rows: bool) -> Logits:
        own = own_state(state, LlamaCppState)
        ids = ids_of_forward(token_ids, self)
        check_room(own, len(ids))
        batch = own.batch
        batch.n_tokens = len(ids)
        for index, token_id in enumerate(ids.tolist()):
            batch.token[index] = token_id
            batch.pos[index] = own.seq_len + index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = _SEQUENCE
            batch.logits[index] = all_rows or index == len(ids) - 1
        status = api.llama_decode(own.context, batch)
        if status != 0:
            api.llama_memory_seq_rm(own.memory, _SEQUENCE, own.seq_len, -1)  # it may have come half way
            raise ModelError(f"llama.cpp could not compute {len(ids)} tokens after {own.seq_len} (status {status}).")
        own.seq_len += len(ids)
        num_rows = len(ids) if all_rows else 1
        # llama.cpp writes the rows of the next forward to the same place; a copy costs little beside the forward.
        rows = np.ctypeslib.as_array(api.llama_get_logits(own.context), (num_rows, self.config.vocab_size))
        return rows.astype(np.float32, copy=True)


def load_model(model_file: ModelFile, options: LlamaCppOptions) -> LlamaCppModel:
    """Loads a model file.

    Raises:
        ModelFileError: llama.cpp refuses it.
    """
    weights = Weights(model_file)
    config = ModelConfig(
        vocab_size=weights.vocab_size,
        max_seq_len=weights.context_length,
        architecture=model_file.architecture,
        name=model_file.get("general.name", str, ""),
        num_layers=api.llama_model_n_layer(weights.model),
        hidden_size=api.llama_model_n_embd(weights.model),
        num_parameters=api.llama_model_n_params(weights.model),
        file_size=api.llama_model_size(weights.model),
    )
    return LlamaCppModel(config, weights, options)
