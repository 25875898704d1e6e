"""A second implementation of the transformer: one element at a time in Python floats, straight from the formulas.

Deliberately shares nothing with a backend but the file: no table of architectures, no arrays, no cache. Slow; for
tiny models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import gguf

from cera_core.modelfile.gguf import ModelFile

Vector = list[float]


class NaiveModel:
    """Logits of all positions of a text, computed from nothing each time."""

    def __init__(self, model_file: ModelFile) -> None:
        name = model_file.architecture
        metadata = model_file.metadata
        self.weights = {
            info.name: gguf.dequantize(model_file.tensor_bytes(info.name), info.type).astype(float).tolist()
            for info in model_file.tensors.values()
        }
        self.num_layers = metadata[f"{name}.block_count"]
        self.num_heads = metadata[f"{name}.attention.head_count"]
        self.num_kv_heads = metadata[f"{name}.attention.head_count_kv"]
        self.head_dim = metadata[f"{name}.attention.key_length"]
        self.eps = metadata[f"{name}.attention.layer_norm_rms_epsilon"]
        self.num_turning = metadata[f"{name}.rope.dimension_count"]
        self.base = metadata[f"{name}.rope.freq_base"]
        self.is_interleaved = name == "llama"

    def logits(self, token_ids: Sequence[int]) -> list[Vector]:
        stream = [self.weights["token_embd.weight"][token_id] for token_id in token_ids]
        for layer in range(self.num_layers):
            stream = self._block(stream, f"blk.{layer}.")
        head = self.weights.get("output.weight", self.weights["token_embd.weight"])
        return [_matrix_vector(head, self._norm(x, "output_norm.weight")) for x in stream]

    def _block(self, stream: list[Vector], prefix: str) -> list[Vector]:
        mixed = self._attention([self._norm(x, f"{prefix}attn_norm.weight") for x in stream], prefix)
        stream = [_sum(x, self._linear(m, f"{prefix}attn_output")) for x, m in zip(stream, mixed, strict=True)]
        return [_sum(x, self._feed_forward(self._norm(x, f"{prefix}ffn_norm.weight"), prefix)) for x in stream]

    def _attention(self, stream: list[Vector], prefix: str) -> list[Vector]:
        queries = [self._heads(x, f"{prefix}attn_q", position) for position, x in enumerate(stream)]
        keys = [self._heads(x, f"{prefix}attn_k", position) for position, x in enumerate(stream)]
        values = [self._heads(x, f"{prefix}attn_v", None) for x in stream]
        group = self.num_heads // self.num_kv_heads
        mixed: list[Vector] = []
        for position in range(len(stream)):
            seen = range(position + 1)
            heads = [
                _attend(
                    queries[position][head],
                    [keys[p][head // group] for p in seen],
                    [values[p][head // group] for p in seen],
                )
                for head in range(self.num_heads)
            ]
            mixed.append([value for head in heads for value in head])
        return mixed

    def _feed_forward(self, x: Vector, prefix: str) -> Vector:
        gate, up = self._linear(x, f"{prefix}ffn_gate"), self._linear(x, f"{prefix}ffn_up")
        gated = [g / (1.0 + math.exp(-g)) * u for g, u in zip(gate, up, strict=True)]
        return self._linear(gated, f"{prefix}ffn_down")

    def _heads(self, x: Vector, name: str, position: int | None) -> list[Vector]:
        """Projects to heads; norms and turns them if a position is given."""
        flat = self._linear(x, name)
        heads = [flat[start : start + self.head_dim] for start in range(0, len(flat), self.head_dim)]
        if position is None:
            return heads
        if f"{name}_norm.weight" in self.weights:
            heads = [self._norm(head, f"{name}_norm.weight") for head in heads]
        return [self._turn(head, position) for head in heads]

    def _turn(self, head: Vector, position: int) -> Vector:
        turned = list(head)
        factors = self.weights.get("rope_freqs.weight", [[1.0] * (self.num_turning // 2)])[0]
        for pair in range(self.num_turning // 2):
            first = 2 * pair if self.is_interleaved else pair
            second = first + (1 if self.is_interleaved else self.num_turning // 2)
            angle = position * self.base ** (-2 * pair / self.num_turning) / factors[pair]
            point = complex(head[first], head[second]) * complex(math.cos(angle), math.sin(angle))
            turned[first], turned[second] = point.real, point.imag
        return turned

    def _linear(self, x: Vector, name: str) -> Vector:
        y = _matrix_vector(self.weights[f"{name}.weight"], x)
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else _sum(y, bias[0])

    def _norm(self, x: Vector, name: str) -> Vector:
        root = math.sqrt(sum(value * value for value in x) / len(x) + self.eps)
        return [value / root * weight for value, weight in zip(x, self.weights[name][0], strict=True)]


def _attend(query: Vector, keys: list[Vector], values: list[Vector]) -> Vector:
    scores = [_dot(query, key) / math.sqrt(len(query)) for key in keys]
    powers = [math.exp(score - max(scores)) for score in scores]
    shares = [power / sum(powers) for power in powers]
    return [_dot(shares, [value[i] for value in values]) for i in range(len(values[0]))]


def _matrix_vector(matrix: list[Vector], x: Vector) -> Vector:
    return [_dot(row, x) for row in matrix]


def _dot(a: Vector, b: Vector) -> float:
    return sum(map(_multiply, a, b))


_multiply: Callable[[float, float], float] = float.__mul__


def _sum(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]
