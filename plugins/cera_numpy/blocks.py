"""One transformer block: its weights, and how rows of activations go through it.

The block is the same for every architecture of the table; what an architecture lacks (biases, norms of queries and
keys) is None.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cera_numpy.cache import PAGE_LENGTH
from cera_numpy.layers import attend, rms_norm, rotate, silu_gate
from cera_numpy.weights import MAX_MULTIPLICATIONS, Matrix, StoredTensor

if TYPE_CHECKING:
    from cera_core.modelfile.description import LayerDescription, ModelDescription
    from cera_core.modelfile.gguf import ModelFile
    from cera_numpy.cache import LayerCache
    from cera_numpy.execution import Execution
    from cera_numpy.weights import Floats


class BlockWeights:
    """The weights of one block, read from the file."""

    def __init__(self, model_file: ModelFile, layer: LayerDescription, execution: Execution) -> None:
        stored = {role: StoredTensor(model_file, info) for role, info in layer.tensors.items()}

        def matrix(*names: str) -> Matrix:
            return Matrix([stored[f"{name}.weight"] for name in names], execution)

        def bias(*names: str) -> Floats | None:
            if not any(f"{name}.bias" in stored for name in names):
                return None
            zeros = {name: np.zeros(stored[f"{name}.weight"].num_rows, np.float32) for name in names}
            return np.concatenate(
                [stored[f"{name}.bias"].vector() if f"{name}.bias" in stored else zeros[name] for name in names]
            )

        self.attention_norm = stored["attn_norm.weight"].vector()
        self.qkv, self.qkv_bias = matrix("attn_q", "attn_k", "attn_v"), bias("attn_q", "attn_k", "attn_v")
        self.qk_norm = self._qk_norm(stored, layer) if "attn_q_norm.weight" in stored else None
        self.output, self.output_bias = matrix("attn_output"), bias("attn_output")
        self.feed_forward_norm = stored["ffn_norm.weight"].vector()
        self.gate_and_up = matrix("ffn_gate", "ffn_up")
        self.down = matrix("ffn_down")

    @staticmethod
    def _qk_norm(stored: dict[str, StoredTensor], layer: LayerDescription) -> Floats:
        """Returns the norm's weights for all heads of queries, then of keys, float32[heads + kv_heads, head_dim]."""
        return np.concatenate(
            [
                np.tile(stored["attn_q_norm.weight"].vector(), (layer.num_heads, 1)),
                np.tile(stored["attn_k_norm.weight"].vector(), (layer.num_kv_heads, 1)),
            ]
        )


class Block:
    """Computes one block."""

    def __init__(
        self, model_file: ModelFile, model: ModelDescription, layer: LayerDescription, execution: Execution
    ) -> None:
        """Reads the weights of one of the layers of `model`."""
        self._layer = layer
        self._head_dim = model.head_dim
        self._eps = model.rms_eps
        rows_of_scores = MAX_MULTIPLICATIONS // (PAGE_LENGTH * self._head_dim)
        self._rows_per_piece = 1 if execution.exact else max(1, rows_of_scores * layer.num_kv_heads // layer.num_heads)
        self._apply = execution.apply
        self._weights = BlockWeights(model_file, layer, execution)
        self._norm_before_attention = partial(rms_norm, weight=self._weights.attention_norm, eps=self._eps)
        self._norm_before_feed_forward = partial(rms_norm, weight=self._weights.feed_forward_norm, eps=self._eps)

    def forward(self, x: Floats, cosines: Floats, sines: Floats, cache: LayerCache, start: int) -> Floats:
        """Sends rows through the block and writes their keys and values to the cache.

        Args:
            x: float32[n, hidden_size], the residual stream of the tokens from position `start` on.
            cosines: float32[n, 1, pairs], of their rotary angles.
            sines: Likewise.
            cache: This layer's; tokens before `start` are in it, and there is room for n more.
            start: Position of the first row.

        Returns:
            float32[n, hidden_size].
        """
        weights = self._weights
        qkv = _plus(weights.qkv.product(self._apply(self._norm_before_attention, x)), weights.qkv_bias)
        heads = qkv.reshape(len(x), -1, self._head_dim)
        queries = self._turn_and_store(heads, cosines, sines, cache, start)
        x = x + _plus(weights.output.product(self._attention(queries, cache, start)), weights.output_bias)
        gate_and_up = weights.gate_and_up.product(self._apply(self._norm_before_feed_forward, x))
        return x + weights.down.product(self._apply(silu_gate, gate_and_up))

    def _turn_and_store(self, heads: Floats, cosines: Floats, sines: Floats, cache: LayerCache, start: int) -> Floats:
        """Turns queries and keys, stores keys and values, and returns the queries, scaled for attention."""
        num_heads = self._layer.num_heads
        num_turning = num_heads + self._layer.num_kv_heads
        turned = self._apply(self._norm_and_rotate, heads[:, :num_turning], cosines, sines)
        cache.write(start, turned[:, num_heads:], heads[:, num_turning:])
        return turned[:, :num_heads] * np.float32(self._head_dim**-0.5)

    def _norm_and_rotate(self, heads: Floats, cosines: Floats, sines: Floats) -> Floats:
        if self._weights.qk_norm is not None:
            heads = rms_norm(heads, self._weights.qk_norm, self._eps)
        return rotate(heads, cosines, sines, self._layer.rotary.layout)

    def _attention(self, queries: Floats, cache: LayerCache, start: int) -> Floats:
        """Attends a few rows at a time."""
        pieces = []
        for first in range(0, len(queries), self._rows_per_piece):
            piece = queries[first : first + self._rows_per_piece]
            keys, values = cache.pages(start + first + len(piece))
            pieces.append(attend(piece, keys, values, start + first))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _plus(x: Floats, bias: Floats | None) -> Floats:
    return x if bias is None else x + bias
