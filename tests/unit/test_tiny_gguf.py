"""The tiny models other tests rely on are what they claim to be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cera_core.modelfile.gguf import ModelFile, open_model_file
from support.tiny_blocks import ARCHITECTURES, WITH_CONVOLUTION, WITH_EXPERTS
from support.tiny_gguf import write_tiny_gguf
from support.tiny_vocabulary import CONTROL_TOKENS, tiny_vocabulary


def written(folder: Path, **options: object) -> ModelFile:
    return open_model_file(write_tiny_gguf(folder / f"{len(list(folder.iterdir()))}.gguf", **options))


def test_the_seed_decides_the_weights(tmp_path: Path) -> None:
    first, again, other = (written(tmp_path, seed=seed).path.read_bytes() for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tensors_of_an_architecture(tmp_path: Path, architecture: str) -> None:
    file = written(tmp_path, architecture=architecture)
    assert ("blk.1.attn_q.bias" in file.tensors) == (architecture == "qwen2")
    has_norms = architecture not in ("granite", "llama", "qwen2")
    assert ("blk.1.attn_k_norm.weight" in file.tensors) == has_norms
    assert ("blk.0.shortconv.conv.weight" in file.tensors) == (architecture in WITH_CONVOLUTION)
    assert ("blk.1.ffn_gate_exps.weight" in file.tensors) == (architecture in WITH_EXPERTS)
    head_dim = file.require(f"{architecture}.attention.key_length", int)
    assert head_dim == (32 if architecture in ("qwen3", "gemma3") else 16)
    file.tensor("blk.1.attn_q.weight", (4 * head_dim, 64))
    file.tensor("blk.1.attn_v.weight", (2 * head_dim, 64))
    file.tensor("blk.1.attn_output.weight", (64, 4 * head_dim))


def test_options(tmp_path: Path) -> None:
    assert "output.weight" not in written(tmp_path).tensors
    file = written(tmp_path, tied=False, rope_factors=True, quantisation_of={"*attn_v*": "Q6_K", "*.1.attn_v*": "Q5_K"})
    file.tensor("output.weight", (320, 256))
    file.tensor("rope_freqs.weight", (32,))
    types = {name: file.tensor(f"blk.{name}.weight").type.name for name in ("0.attn_v", "1.attn_v", "0.attn_k")}
    assert types == {"0.attn_v": "Q6_K", "1.attn_v": "Q5_K", "0.attn_k": "Q4_0"}


@pytest.mark.parametrize("size", [259, 320, 1000])
def test_vocabulary(tmp_path: Path, size: int) -> None:
    file = written(tmp_path, vocab_size=size)
    tokens = file.require("tokenizer.ggml.tokens", list)
    assert len(set(tokens)) == len(tokens) == len(file.require("tokenizer.ggml.token_type", np.ndarray)) == size
    assert tokens[file.require("tokenizer.ggml.eos_token_id", int)] in CONTROL_TOKENS
    file.tensor("token_embd.weight", (size, 64))


def test_merges_lead_to_tokens() -> None:
    vocabulary = tiny_vocabulary(1000)
    tokens = set(vocabulary.tokens)
    assert len(vocabulary.merges) > 100
    for merge in vocabulary.merges:
        left, right = merge.split(" ")
        assert {left, right, left + right} <= tokens


def test_too_small_a_vocabulary() -> None:
    with pytest.raises(ValueError, match="at least 259 tokens, found 258"):
        tiny_vocabulary(258)
