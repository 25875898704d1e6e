"""Model files that are nothing but metadata, for what reads vocabularies and chat templates."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cera_core.modelfile.gguf import ModelFile
from cera_core.modelfile.gguf_header import Header
from cera_core.modelfile.vocabulary import TokenType
from support.tiny_vocabulary import END_OF_TEXT, IM_END, Vocabulary, tiny_vocabulary

CONTROL_PIECES = ("<unk>", "<s>", "</s>")


def model_file(metadata: Mapping[str, Any]) -> ModelFile:
    """Makes an open model file with this metadata; a key whose value is None is left out."""
    present = {"general.architecture": "llama", **metadata}
    header = Header(3, {key: value for key, value in present.items() if value is not None}, {})
    return ModelFile(Path("vocabulary.gguf"), mmap.mmap(-1, 1), header)


def byte_level_file(vocabulary: Vocabulary | None = None, **changes: Any) -> ModelFile:
    """Makes a model file with a byte-level vocabulary; `changes` are keys after `tokenizer.ggml.`."""
    vocabulary = vocabulary or tiny_vocabulary(320)
    return _file(
        {
            "model": "gpt2",
            "pre": "gpt-2",
            "tokens": list(vocabulary.tokens),
            "token_type": np.array(vocabulary.types, np.int32),
            "merges": list(vocabulary.merges),
            "bos_token_id": vocabulary.id_of(END_OF_TEXT),
            "eos_token_id": vocabulary.id_of(IM_END),
        },
        changes,
    )


def sentencepiece_file(pieces: Mapping[str, float] | Sequence[str], **changes: Any) -> ModelFile:
    """Makes a model file with a sentencepiece vocabulary: control tokens, all bytes, and these pieces.

    Args:
        pieces: With their scores; a sequence has falling ones.
        changes: Keys after `tokenizer.ggml.`.
    """
    if not isinstance(pieces, Mapping):
        pieces = {piece: -float(rank) for rank, piece in enumerate(pieces)}
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    others = [*CONTROL_PIECES, *fallback]
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    return _file(
        {
            "model": "llama",
            "tokens": [*others, *pieces],
            "token_type": np.array([*types, *[TokenType.NORMAL] * len(pieces)], np.int32),
            "scores": np.array([0.0] * len(others) + list(pieces.values()), np.float32),
        },
        changes,
    )


def _file(keys: Mapping[str, Any], changes: Mapping[str, Any]) -> ModelFile:
    return model_file({f"tokenizer.ggml.{key}": value for key, value in {**keys, **changes}.items()})
