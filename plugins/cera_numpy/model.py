"""The model: checks what it is given, and sends tokens through embedding, blocks and head."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import ModelError, RewindError
from cera_core.model import InferenceState, Model
from cera_core.model_inputs import check_room, context_length, ids_of_forward, length_to_keep, own_state
from cera_core.modelfile.blocks import AttentionDescription, LayerDescription
from cera_core.modelfile.description import describe
from cera_numpy.blocks import Block
from cera_numpy.cache import ConvolutionCache, LayerCache, NumpyState
from cera_numpy.execution import Execution
from cera_numpy.layers import rms_norm
from cera_numpy.positions import Positions
from cera_numpy.weights import Matrix, StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cera_core.model import Logits
    from cera_core.modelfile.gguf import ModelFile
    from cera_numpy.weights import Floats


DEFAULT_REWIND_HEADROOM = 64


class NumpyModel(Model):
    """A transformer in float32.

    Weights that overflow give infinite or undefined logits without NumPy's warnings; judging logits is the caller's.
    """

    supports_all_logits = True
    supports_rewind = True
    supports_copy = True

    def __init__(
        self,
        model_file: ModelFile,
        execution: Execution | None = None,
        rewind_headroom: int = DEFAULT_REWIND_HEADROOM,
    ) -> None:
        """Reads the weights.

        Args:
            model_file: An open file; it may be closed afterwards.
            execution: How to compute; in exact mode the model is batch-invariant.
            rewind_headroom: By how many tokens a state can go back where it does not hold all that was before.

        Raises:
            ModelFileError: The file is damaged, or asks for something that is not there.
            ModelError: There is too little memory.
        """
        execution = execution or Execution()
        description = describe(model_file)
        self.config = description.config
        self.batch_invariant = execution.exact
        self._description = description
        self._rewind_headroom = rewind_headroom
        self._forgets = any(map(_forgets, description.layers))
        self._apply = execution.apply
        self._num_threads = execution.workers.num_threads
        try:
            with np.errstate(all="ignore"):
                self._read_weights(model_file, execution)
        except MemoryError as error:
            raise ModelError(
                f"The weights of {str(model_file.path)!r} need {4 * self.config.num_parameters / 1e9:.1f} GB as "
                "float32, which is more memory than there is. Set the option 'weights' of the backend to 'file'."
            ) from error

    def _read_weights(self, model_file: ModelFile, execution: Execution) -> None:
        tensors, layers = self._description.tensors, self._description.layers
        self._embedding = StoredTensor(model_file, tensors["token_embd.weight"])
        self._blocks = [Block(model_file, self._description, layer, execution) for layer in layers]
        self._output_norm = StoredTensor(model_file, tensors["output_norm.weight"]).vector()
        self._head = Matrix([StoredTensor(model_file, tensors["output.weight"])], execution)

    def new_state(self, max_seq_len: int | None = None) -> NumpyState:
        """Makes an empty state; memory is taken as the text grows.

        Raises:
            InvalidInputError: `max_seq_len` is below 1 or above the model's context length.
        """
        length = context_length(max_seq_len, self.config.max_seq_len)
        headroom = self._rewind_headroom if self._forgets else None
        return NumpyState(length, [self._new_cache(layer) for layer in self._description.layers], headroom)

    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends tokens; float32[vocab_size] after the last."""
        with np.errstate(all="ignore"):
            return self._logits(self._append(token_ids, state)[-1:])[0]

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        """Appends tokens; float32[n, vocab_size]."""
        with np.errstate(all="ignore"):
            return self._logits(self._append(token_ids, state))

    def truncate(self, state: InferenceState, length: int) -> None:
        """Cuts the state to its first `length` tokens."""
        state = own_state(state, NumpyState)
        try:
            length = length_to_keep(state, length, state.oldest)
        except RewindError as error:
            if state.headroom is None:
                raise
            raise RewindError(f"{error} This model's states go back by {state.headroom} tokens.") from None
        state.seq_len = length

    def rewind_headroom(self, state: InferenceState) -> int:
        """Returns by how many tokens `truncate` can shorten the state now."""
        state = own_state(state, NumpyState)
        return state.seq_len - state.oldest

    def copy_state(self, state: InferenceState) -> NumpyState:
        """Makes an independent state with the same tokens."""
        return own_state(state, NumpyState).copy()

    def facts(self) -> Mapping[str, str]:
        """Returns the threads and whether rows are computed one by one."""
        return {"threads": str(self._num_threads), "exact": "yes" if self.batch_invariant else "no"}

    def _append(self, token_ids: Sequence[int], state: InferenceState) -> Floats:
        """Sends tokens through the blocks; returns the residual stream. The state changes last, so errors leave it."""
        state = own_state(state, NumpyState)
        ids = ids_of_forward(token_ids, self)
        check_room(state, len(ids))
        positions = Positions(state.seq_len, len(ids))
        x = self._embedding.rows(ids) * np.float32(self._description.embedding_scale)
        state.reserve(state.seq_len + len(ids))
        entries = []
        for block, cache in zip(self._blocks, state.layers, strict=True):
            x, new = block.forward(x, positions, cache)
            entries.append(new)
        state.advance(entries, len(ids))
        return x

    def _new_cache(self, layer: LayerDescription) -> LayerCache | ConvolutionCache:
        mixer = layer.mixer
        if isinstance(mixer, AttentionDescription):
            return LayerCache(mixer.num_kv_heads, self._description.head_dim, mixer.window)
        return ConvolutionCache(mixer.num_taps, self.config.hidden_size, self._rewind_headroom)

    def _logits(self, x: Floats) -> Logits:
        normed = self._apply(lambda rows: rms_norm(rows, self._output_norm, self._description.rms_eps), x)
        logits = self._head.product(normed)
        if self._description.logit_divisor != 1.0:
            logits /= np.float32(self._description.logit_divisor)
        return logits


def _forgets(layer: LayerDescription) -> bool:
    """Whether what a layer holds of the text is not all of it."""
    return not isinstance(layer.mixer, AttentionDescription) or layer.mixer.window is not None
