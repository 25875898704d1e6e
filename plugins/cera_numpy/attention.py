"""The attention of one block: projections, heads that turn, the cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cera_numpy.cache import PAGE_LENGTH, LayerCache
from cera_numpy.layers import attend, rms_norm, rotate
from cera_numpy.weights import MAX_MULTIPLICATIONS, Matrix, StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cera_core.modelfile.blocks import AttentionDescription
    from cera_core.modelfile.description import ModelDescription
    from cera_numpy.execution import Execution
    from cera_numpy.positions import Positions
    from cera_numpy.weights import Floats


class Attention:
    """Mixes tokens by how well their keys match."""

    def __init__(
        self,
        stored: Mapping[str, StoredTensor],
        model: ModelDescription,
        attention: AttentionDescription,
        execution: Execution,
    ) -> None:
        self._attention = attention
        self._head_dim = model.head_dim
        self._scale = np.float32(model.attention_scale)
        self._eps = model.rms_eps
        self._apply = execution.apply
        rows_of_scores = MAX_MULTIPLICATIONS // (PAGE_LENGTH * self._head_dim) * attention.num_kv_heads
        self._rows_per_piece = 1 if execution.exact else max(1, rows_of_scores // attention.num_heads)
        names = ("attn_q", "attn_k", "attn_v")
        self._qkv = Matrix([stored[f"{name}.weight"] for name in names], execution)
        self._qkv_bias = _joined_biases(stored, names)
        self._qk_norm = _joined_norms(stored, attention) if "attn_q_norm.weight" in stored else None
        self._output = Matrix([stored["attn_output.weight"]], execution)
        self._output_bias = _joined_biases(stored, ("attn_output",))

    def forward(self, x: Floats, positions: Positions, cache: LayerCache) -> Floats:
        """Mixes rows with those before them, whose keys and values are in the cache, and writes their own there."""
        qkv = _plus(self._qkv.product(x), self._qkv_bias)
        heads = qkv.reshape(len(x), -1, self._head_dim)
        num_heads = self._attention.num_heads
        num_turning = num_heads + self._attention.num_kv_heads
        turned = self._apply(self._norm_and_rotate, heads[:, :num_turning], *positions.turns(self._attention.rotary))
        cache.write(positions.start, turned[:, num_heads:], heads[:, num_turning:])
        mixed = self._attend(turned[:, :num_heads] * self._scale, cache, positions.start)
        return _plus(self._output.product(mixed), self._output_bias)

    def _norm_and_rotate(self, heads: Floats, cosines: Floats, sines: Floats) -> Floats:
        if self._qk_norm is not None:
            heads = rms_norm(heads, self._qk_norm, self._eps)
        return rotate(heads, cosines, sines, self._attention.rotary.layout)

    def _attend(self, queries: Floats, cache: LayerCache, start: int) -> Floats:
        """Attends a few rows at a time, each time to the pages the first of them begins to see."""
        window = self._attention.window
        pieces = []
        for first in range(0, len(queries), self._rows_per_piece):
            piece = queries[first : first + self._rows_per_piece]
            position = start + first
            first_seen = 0 if window is None else max(0, position - window + 1) // PAGE_LENGTH * PAGE_LENGTH
            keys, values = cache.pages(position + len(piece), first_seen)
            pieces.append(attend(piece, keys, values, position - first_seen, window))
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _joined_biases(stored: Mapping[str, StoredTensor], names: tuple[str, ...]) -> Floats | None:
    """Returns the biases of several matrices in a row, zeros for one that has none; None if none has."""
    if not any(f"{name}.bias" in stored for name in names):
        return None
    return np.concatenate(
        [
            stored[f"{name}.bias"].vector()
            if f"{name}.bias" in stored
            else np.zeros(stored[f"{name}.weight"].num_rows, np.float32)
            for name in names
        ]
    )


def _joined_norms(stored: Mapping[str, StoredTensor], attention: AttentionDescription) -> Floats:
    """Returns the norm's weights for all heads of queries, then of keys, float32[heads + kv_heads, head_dim]."""
    return np.concatenate(
        [
            np.tile(stored["attn_q_norm.weight"].vector(), (attention.num_heads, 1)),
            np.tile(stored["attn_k_norm.weight"].vector(), (attention.num_kv_heads, 1)),
        ]
    )


def _plus(x: Floats, bias: Floats | None) -> Floats:
    return x if bias is None else x + bias
