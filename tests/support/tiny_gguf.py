"""Writes a small, seeded, complete model as a GGUF file, of any architecture and weight type cera reads.

The weights are random but scaled so that logits vary, attention looks at several tokens, and greedy text is no single
token for ever.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from support.random_weights import block_length, random_weights
from support.tiny_blocks import WITH_CONVOLUTION, Sizes, Weight, architecture_settings, block_weights
from support.tiny_vocabulary import CHAT_TEMPLATE, END_OF_TEXT, IM_END, tiny_vocabulary


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
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Writes the model and returns the path.

    Args:
        path: Where to write.
        architecture: One of `ARCHITECTURES`.
        quantisation: The type of all matrices, by its GGUF name.
        quantisation_of: Other types for the matrices whose name matches a pattern, for instance
            `{"*attn_v.weight": "Q6_K"}`.
        seed: Of all weights.
        vocab_size: Number of tokens, at least 259.
        num_layers: Number of blocks.
        hidden_size: Width; by default 64, or the block length of the weight types where that is longer.
        num_heads: Query heads.
        num_kv_heads: Key and value heads.
        head_dim: Length of a head; by default `hidden_size / num_heads`, for `qwen3` and `gemma3` twice that.
        feed_forward_size: Width between up and down projection; by default twice `hidden_size`.
        context_length: In tokens.
        rope_freq_base: Base of the rotary frequencies.
        rope_factors: Write `rope_freqs.weight`, one factor for each rotary frequency.
        tied: No `output.weight`; the embedding is the head.
        add_bos: Ask for a beginning-of-sequence token.
        chat_template: None leaves it out.
        pre_tokeniser: Value of `tokenizer.ggml.pre`.
        settings: More keys, below the architecture's name; None leaves one out that would be there.
    """
    types = [Type[quantisation], *(Type[name] for name in (quantisation_of or {}).values())]
    hidden_size = hidden_size or max(64, *map(block_length, types))
    sizes = Sizes(
        vocab=vocab_size,
        layers=num_layers,
        hidden=hidden_size,
        heads=num_heads,
        kv_heads=num_kv_heads,
        head=head_dim or hidden_size // num_heads * (2 if architecture in ("qwen3", "gemma3") else 1),
        feed_forward=feed_forward_size or 2 * hidden_size,
        context=context_length,
    )
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny {architecture} {quantisation}")
    own_settings = {**architecture_settings(architecture, sizes), **(settings or {})}
    _add_sizes(writer, sizes)
    _add_settings(writer, architecture, own_settings)
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


def _add_sizes(writer: gguf.GGUFWriter, sizes: Sizes) -> None:
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


def _add_settings(writer: gguf.GGUFWriter, architecture: str, settings: Mapping[str, Any]) -> None:
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    for name, value in settings.items():
        key = f"{architecture}.{name}"
        for shard in writer.kv_data:
            shard.pop(key, None)
        if isinstance(value, list):
            writer.add_array(key, value)
        elif value is not None:
            add[type(value)](key, value)


def _add_vocabulary(writer: gguf.GGUFWriter, size: int) -> None:
    vocabulary = tiny_vocabulary(size)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.id_of(END_OF_TEXT))
    writer.add_eos_token_id(vocabulary.id_of(IM_END))


def _weights(architecture: str, sizes: Sizes, *, tied: bool, rope_factors: bool) -> Iterator[Weight]:
    # A small embedding beside large block outputs: else a tied head would answer every token with itself.
    embedding_deviation = 2.4 / sizes.hidden**0.5
    yield Weight("token_embd.weight", (sizes.vocab, sizes.hidden), embedding_deviation)
    for layer in range(sizes.layers):
        yield from block_weights(architecture, sizes, layer)
    norm = "token_embd_norm" if architecture in WITH_CONVOLUTION else "output_norm"
    yield Weight(f"{norm}.weight", (sizes.hidden,), 0.1, mean=1.0)
    if not tied:
        yield Weight("output.weight", (sizes.vocab, sizes.hidden), embedding_deviation)
    if rope_factors:
        yield Weight("rope_freqs.weight", (sizes.head // 2,), 0.5, mean=2.0)


def _add_weight(
    writer: gguf.GGUFWriter,
    rng: np.random.Generator,
    weight: Weight,
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
