"""The arithmetic between the matrix products of a transformer: norm, rotation, attention, gate.

Every function takes rows of activations, one a token, and knows nothing of weights' storage or of the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cera_core.modelfile.architectures import Activation, Gating
    from cera_core.modelfile.rotary import RotaryLayout
    from cera_numpy.weights import Floats


def rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """Scales each vector to a mean square of one, then by `weight` (arXiv:1910.07467)."""
    mean_square = np.add.reduce(x * x, axis=-1, keepdims=True) / np.float32(x.shape[-1])
    return x / np.sqrt(mean_square + np.float32(eps)) * weight


def rotate(heads: Floats, cosines: Floats, sines: Floats, layout: RotaryLayout) -> Floats:
    """Turns the pairs of each head by the angles of its row (arXiv:2104.09864).

    Args:
        heads: float32[n, heads, head_dim].
        cosines: float32[n, 1, pairs]; elements beyond the pairs stay as they are.
        sines: Likewise.
        layout: Which elements make a pair.
    """
    turned = heads.copy()
    first, second = _pairs(heads, cosines.shape[-1], layout)
    turned_first, turned_second = _pairs(turned, cosines.shape[-1], layout)
    np.subtract(first * cosines, second * sines, out=turned_first)
    np.add(first * sines, second * cosines, out=turned_second)
    return turned


def _pairs(heads: Floats, num_pairs: int, layout: RotaryLayout) -> tuple[Floats, Floats]:
    """Returns views of the first and the second elements of the pairs."""
    if layout == "interleaved":
        return heads[..., 0 : 2 * num_pairs : 2], heads[..., 1 : 2 * num_pairs : 2]
    return heads[..., :num_pairs], heads[..., num_pairs : 2 * num_pairs]


def attend(queries: Floats, keys: Floats, values: Floats, start: int, window: int | None = None) -> Floats:
    """Mixes values by how well their keys match; each row sees the keys up to its own position.

    Positions are counted from the first page.

    Args:
        queries: float32[n, heads, head_dim], already scaled, of the positions from `start` on.
        keys: float32[kv_heads, pages, page_length, head_dim], as far as the last row sees; the last page may have
            anything in places not written yet.
        values: Likewise, but finite in those places.
        start: Position of the first row.
        window: How many keys a row sees, its own among them; None for all.

    Returns:
        float32[n, heads * head_dim].
    """
    num_rows, num_heads, head_dim = queries.shape
    num_kv_heads, num_pages, page_length, _ = keys.shape
    grouped = queries.transpose(1, 0, 2).reshape(num_kv_heads, 1, -1, head_dim)  # rows: (head of the group, token)
    scores = np.matmul(grouped, keys.transpose(0, 1, 3, 2))
    by_row = scores.reshape(num_kv_heads, num_pages, -1, num_rows, page_length)
    for row in range(num_rows):
        page, place = divmod(start + row, page_length)
        by_row[:, page, :, row, place + 1 :] = -np.inf
        by_row[:, page + 1 :, :, row] = -np.inf
        if window is not None and start + row >= window:
            page, place = divmod(start + row - window + 1, page_length)
            by_row[:, :page, :, row] = -np.inf
            by_row[:, page, :, row, :place] = -np.inf
    scores -= scores.max(axis=(1, 3), keepdims=True)
    np.exp(scores, out=scores)
    totals = np.add.reduce(scores, axis=(1, 3))
    mixed = np.add.reduce(np.matmul(scores, values), axis=1) / totals[..., np.newaxis]
    return mixed.reshape(num_heads, num_rows, head_dim).transpose(1, 0, 2).reshape(num_rows, -1)


def gated(gate_and_up: Floats, activation: Activation) -> Floats:
    """Lets the second half of each row through the gate of the first: activation(gate) * up (arXiv:2002.05202)."""
    width = gate_and_up.shape[-1] // 2
    gate, up = gate_and_up[:, :width], gate_and_up[:, width:]
    return (_gelu(gate) if activation == "gelu" else gate / _one_plus_exp(gate)) * up


def gating_weights(scores: Floats, gating: Gating) -> Floats:
    """Turns the scores of experts into weights, each row by itself."""
    if gating == "sigmoid":
        return np.reciprocal(_one_plus_exp(scores))
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights: Floats = powers / powers.sum(axis=1, keepdims=True)
    return weights


def _one_plus_exp(x: Floats) -> Floats:
    """Returns 1 + e^-x; infinite for x far below 0, and what is divided by it then 0."""
    denominator = np.exp(-x)
    denominator += np.float32(1.0)
    return denominator


def _gelu(x: Floats) -> Floats:
    """Returns the approximation of GELU by a hyperbolic tangent (arXiv:1606.08415)."""
    inner = x * (np.float32(1.0) + np.float32(0.044715) * x * x) * np.float32((2.0 / np.pi) ** 0.5)
    return np.float32(0.5) * x * (np.float32(1.0) + np.tanh(inner))
