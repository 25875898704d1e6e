"""What the blocks of tiny models are made of, for each architecture: settings and tensors, with seeded sizes.

Written from the formats, not from cera's table of architectures, which it is a check of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

ARCHITECTURES = ("gemma3", "granite", "lfm2", "lfm2moe", "llama", "qwen2", "qwen3", "qwen3moe")
WITH_CONVOLUTION = ("lfm2", "lfm2moe")
WITH_EXPERTS = ("lfm2moe", "qwen3moe")
LIMITED = ("gemma3", *WITH_CONVOLUTION)
"""Architectures whose states cannot go back all the way."""

NUM_EXPERTS = 6


@dataclass(frozen=True)
class Weight:
    """A tensor to be written: in F32 around `mean`, or, without a mean, a matrix of the model's type."""

    name: str
    shape: tuple[int, ...]
    deviation: float
    mean: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a tiny model."""

    vocab: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    feed_forward: int
    context: int

    def has_convolution(self, architecture: str, layer: int) -> bool:
        """Every other layer is a short convolution, the first among them."""
        return architecture in WITH_CONVOLUTION and layer % 2 == 0

    def has_experts(self, architecture: str, layer: int) -> bool:
        """`lfm2moe` begins with a dense layer."""
        return architecture in WITH_EXPERTS and (architecture != "lfm2moe" or layer > 0)


def architecture_settings(architecture: str, sizes: Sizes) -> dict[str, Any]:
    """Returns the keys only this architecture has, below its prefix."""
    settings: dict[str, Any] = {}
    if architecture == "gemma3":
        settings |= {"attention.sliding_window": 24, "attention.sliding_window_pattern": 2}
    if architecture == "granite":
        settings |= {"embedding_scale": 3.0, "residual_scale": 0.6, "attention.scale": 0.2, "logit_scale": 1.5}
    if architecture in WITH_CONVOLUTION:
        settings["shortconv.l_cache"] = 3
        settings["attention.head_count_kv"] = [
            0 if sizes.has_convolution(architecture, layer) else sizes.kv_heads for layer in range(sizes.layers)
        ]
    if architecture in WITH_EXPERTS:
        settings |= {
            "expert_count": NUM_EXPERTS,
            "expert_used_count": 2,
            "expert_feed_forward_length": sizes.feed_forward // 2,
        }
    if architecture == "lfm2moe":
        settings |= {"leading_dense_block_count": 1, "expert_gating_func": 2}
    return settings


def block_weights(architecture: str, sizes: Sizes, layer: int) -> Iterator[Weight]:
    """Returns the tensors of one block."""
    block = f"blk.{layer}."
    yield _vector(f"{block}attn_norm.weight", sizes.hidden, 1.0)
    if sizes.has_convolution(architecture, layer):
        yield from _convolution(sizes, block)
    else:
        yield from _attention(architecture, sizes, block)
    yield _vector(f"{block}ffn_norm.weight", sizes.hidden, 1.0)
    if sizes.has_experts(architecture, layer):
        yield from _experts(sizes, block)
    else:
        yield _matrix(f"{block}ffn_gate", sizes.feed_forward, sizes.hidden)
        yield _matrix(f"{block}ffn_up", sizes.feed_forward, sizes.hidden)
        yield _matrix(f"{block}ffn_down", sizes.hidden, sizes.feed_forward)
    if architecture == "lfm2moe" and sizes.has_experts(architecture, layer):
        yield _vector(f"{block}exp_probs_b.bias", NUM_EXPERTS, 0.0)
    if architecture == "gemma3":
        yield _vector(f"{block}post_attention_norm.weight", sizes.hidden, 0.7)
        yield _vector(f"{block}post_ffw_norm.weight", sizes.hidden, 0.7)


def _attention(architecture: str, sizes: Sizes, block: str) -> Iterator[Weight]:
    queries, keys = sizes.heads * sizes.head, sizes.kv_heads * sizes.head
    yield _matrix(f"{block}attn_q", queries, sizes.hidden)
    yield _matrix(f"{block}attn_k", keys, sizes.hidden)
    yield _matrix(f"{block}attn_v", keys, sizes.hidden)
    yield _matrix(f"{block}attn_output", sizes.hidden, queries)
    if architecture == "qwen2":
        yield _vector(f"{block}attn_q.bias", queries, 0.0)
        yield _vector(f"{block}attn_k.bias", keys, 0.0)
        yield _vector(f"{block}attn_v.bias", keys, 0.0)
    if architecture in ("qwen3", "qwen3moe", "gemma3", *WITH_CONVOLUTION):
        yield _vector(f"{block}attn_q_norm.weight", sizes.head, 1.5)
        yield _vector(f"{block}attn_k_norm.weight", sizes.head, 1.5)


def _convolution(sizes: Sizes, block: str) -> Iterator[Weight]:
    yield _matrix(f"{block}shortconv.in_proj", 3 * sizes.hidden, sizes.hidden)
    yield Weight(f"{block}shortconv.conv.weight", (sizes.hidden, 3), 0.6, mean=0.3)
    yield _matrix(f"{block}shortconv.out_proj", sizes.hidden, sizes.hidden)


def _experts(sizes: Sizes, block: str) -> Iterator[Weight]:
    width = sizes.feed_forward // 2
    yield Weight(f"{block}ffn_gate_inp.weight", (NUM_EXPERTS, sizes.hidden), 1.5 / sizes.hidden**0.5, mean=0.0)
    yield _matrix(f"{block}ffn_gate_exps", NUM_EXPERTS, width, sizes.hidden)
    yield _matrix(f"{block}ffn_up_exps", NUM_EXPERTS, width, sizes.hidden)
    yield _matrix(f"{block}ffn_down_exps", NUM_EXPERTS, sizes.hidden, width)


def _matrix(name: str, *shape: int) -> Weight:
    return Weight(f"{name}.weight", shape, 1.5 / shape[-1] ** 0.5)


def _vector(name: str, length: int, mean: float) -> Weight:
    return Weight(name, (length,), 0.2, mean)
