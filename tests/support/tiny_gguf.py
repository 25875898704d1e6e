"""Writes a small, seeded, complete model as a GGUF file, of any architecture and weight type cera reads.

The weights are random but scaled so that logits vary, attention looks at several tokens, and greedy text is no single
token for ever.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from support.random_weights import block_length, random_weights
from support.tiny_vocabulary import CHAT_TEMPLATE, END_OF_TEXT, IM_END, tiny_vocabulary

ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True)
class _Weight:
    """A tensor to be written: a vector around `mean` in F32, or, without a mean, a matrix of the model's type."""

    name: str
    shape: tuple[int, ...]
    deviation: float
    mean: float | None = None


def write_tiny_gguf(
    path: str | os.PathLike[str],
    *,
    architecture: str = "llama",
    quantisation: str = "Q4_0",
    quantisation_of: Mapping[str, str] | None = None,
    seed: int = 0,
    vocab_size: int = 320,
    num_layers: int = 2,
    hidden_size: int | None = None,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int | None = None,
    feed_forward_size: int | None = None,
    context_length: int = 512,
    rope_freq_base: float = 10_000.0,
    rope_factors: bool = False,
    tied: bool = True,
    add_bos: bool = False,
    chat_template: str | None = CHAT_TEMPLATE,
    pre_tokeniser: str = "gpt-2",
) -> Path:
    """Writes the model and returns the path.

    Args:
        path: Where to write.
        architecture: `llama`, `qwen2` (biases on queries, keys and values) or `qwen3` (norms on queries and keys).
        quantisation: The type of all matrices, by its GGUF name.
        quantisation_of: Other types for the matrices whose name matches a pattern, for instance
            `{"*attn_v.weight": "Q6_K"}`.
        seed: Of all weights.
        vocab_size: Number of tokens, at least 259.
        num_layers: Number of blocks.
        hidden_size: Width; by default 64, or the block length of the weight types where that is longer.
        num_heads: Query heads.
        num_kv_heads: Key and value heads.
        head_dim: Length of a head; by default `hidden_size / num_heads`, for `qwen3` twice that.
        feed_forward_size: Width between up and down projection; by default twice `hidden_size`.
        context_length: In tokens.
        rope_freq_base: Base of the rotary frequencies.
        rope_factors: Write `rope_freqs.weight`, one factor for each rotary frequency.
        tied: No `output.weight`; the embedding is the head.
        add_bos: Ask for a beginning-of-sequence token.
        chat_template: None leaves it out.
        pre_tokeniser: Value of `tokenizer.ggml.pre`.
    """
    types = [Type[quantisation], *(Type[name] for name in (quantisation_of or {}).values())]
    hidden_size = hidden_size or max(64, *map(block_length, types))
    sizes = _Sizes(
        vocab=vocab_size,
        layers=num_layers,
        hidden=hidden_size,
        heads=num_heads,
        kv_heads=num_kv_heads,
        head=head_dim or hidden_size // num_heads * (2 if architecture == "qwen3" else 1),
        feed_forward=feed_forward_size or 2 * hidden_size,
        context=context_length,
    )
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny {architecture} {quantisation}")
    _add_sizes(writer, sizes)
    writer.add_rope_freq_base(rope_freq_base)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_vocabulary(writer, vocab_size)
    writer.add_tokenizer_pre(pre_tokeniser)
    writer.add_add_bos_token(add_bos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    rng = np.random.default_rng(seed)
    for weight in _weights(architecture, sizes, tied=tied, rope_factors=rope_factors):
        _add_weight(writer, rng, weight, quantisation, quantisation_of or {})
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    vocab: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    feed_forward: int
    context: int


def _add_sizes(writer: gguf.GGUFWriter, sizes: _Sizes) -> None:
    writer.add_vocab_size(sizes.vocab)
    writer.add_block_count(sizes.layers)
    writer.add_embedding_length(sizes.hidden)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_key_length(sizes.head)
    writer.add_value_length(sizes.head)
    writer.add_rope_dimension_count(sizes.head)
    writer.add_feed_forward_length(sizes.feed_forward)
    writer.add_context_length(sizes.context)


def _add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    vocabulary = tiny_vocabulary(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.id_of(END_OF_TEXT))
    writer.add_eos_token_id(vocabulary.id_of(IM_END))


def _weights(architecture: str, sizes: _Sizes, *, tied: bool, rope_factors: bool) -> Iterator[_Weight]:
    # A small embedding beside large block outputs: else a tied head would answer every token with itself.
    embedding_deviation = 2.4 / sizes.hidden**0.5
    yield _Weight("token_embd.weight", (sizes.vocab, sizes.hidden), embedding_deviation)
    for layer in range(sizes.layers):
        yield from _block_weights(architecture, sizes, f"blk.{layer}.")
    yield _Weight("output_norm.weight", (sizes.hidden,), 0.1, mean=1.0)
    if not tied:
        yield _Weight("output.weight", (sizes.vocab, sizes.hidden), embedding_deviation)
    if rope_factors:
        yield _Weight("rope_freqs.weight", (sizes.head // 2,), 0.5, mean=2.0)


def _block_weights(architecture: str, sizes: _Sizes, block: str) -> Iterator[_Weight]:
    def matrix(name: str, rows: int, columns: int, gain: float) -> _Weight:
        return _Weight(f"{block}{name}.weight", (rows, columns), gain / columns**0.5)

    def vector(name: str, length: int, mean: float) -> _Weight:
        return _Weight(block + name, (length,), 0.2, mean)

    queries, keys = sizes.heads * sizes.head, sizes.kv_heads * sizes.head
    yield vector("attn_norm.weight", sizes.hidden, 1.0)
    yield matrix("attn_q", queries, sizes.hidden, 1.5)
    yield matrix("attn_k", keys, sizes.hidden, 1.5)
    yield matrix("attn_v", keys, sizes.hidden, 1.5)
    yield matrix("attn_output", sizes.hidden, queries, 1.5)
    if architecture == "qwen2":
        yield vector("attn_q.bias", queries, 0.0)
        yield vector("attn_k.bias", keys, 0.0)
        yield vector("attn_v.bias", keys, 0.0)
    if architecture == "qwen3":
        yield vector("attn_q_norm.weight", sizes.head, 1.5)
        yield vector("attn_k_norm.weight", sizes.head, 1.5)
    yield vector("ffn_norm.weight", sizes.hidden, 1.0)
    yield matrix("ffn_gate", sizes.feed_forward, sizes.hidden, 1.5)
    yield matrix("ffn_up", sizes.feed_forward, sizes.hidden, 1.5)
    yield matrix("ffn_down", sizes.hidden, sizes.feed_forward, 1.5)


def _add_weight(
    writer: gguf.GGUFWriter,
    rng: np.random.Generator,
    weight: _Weight,
    quantisation: str,
    quantisation_of: Mapping[str, str],
) -> None:
    if weight.mean is not None:
        vector = rng.normal(weight.mean, weight.deviation, weight.shape).astype(np.float32)
        writer.add_tensor(weight.name, vector)
        return
    matching = [name for pattern, name in quantisation_of.items() if fnmatch.fnmatchcase(weight.name, pattern)]
    weight_type = Type[matching[-1] if matching else quantisation]
    stored = random_weights(rng, weight.shape, weight_type, weight.deviation)
    writer.add_tensor(weight.name, stored, raw_dtype=weight_type)
