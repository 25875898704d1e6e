"""The vocabulary of a model file: its tokens, their types, and the ids that begin and end a text.

Checks that what the file says fits together. Knows neither how text becomes tokens nor how tokens become text.

The keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer. What is assumed where a key is missing is
what llama.cpp assumes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from cera_core.modelfile.hyperparameters import damaged, unsupported

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import ModelFile

BYTE_LEVEL = "gpt2"
SENTENCEPIECE = "llama"

WORD_START = "\u2581"
"""Stands for a space in a sentencepiece vocabulary."""

SHIELD = "\ufdd0"
"""Keeps the name of a control token inside a message from being read as that token.

A noncharacter, which Unicode sets aside for such use inside a program (Unicode 16.0, section 23.7).
"""

# Control tokens that end an answer, whatever the keys of the file say. After those of the last line another file of a
# code model's training text begins, so the answer is over there as well.
_END_TOKENS = frozenset(
    (
        *("</s>", "<eos>", "<|endoftext|>", "<|end_of_text|>", "<\uff5cend\u2581of\u2581sentence\uff5c>", "[EOS]"),
        *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<|return|>", "<|call|>", "<EOT>", "[EOT]"),
        *("<end_of_turn>", "<end_of_utterance>"),
        *("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    )
)
_MAX_TREE_DEPTH = 16

_PART_ENDS_ANSWER_GOES_ON = ("<|end|>", "<|return|>")  # where there is the second, the first ends a part only


class TokenType(IntEnum):
    """What a token is for, as `tokenizer.ggml.token_type` says."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What a model file says of its tokens.

    Attributes:
        kind: `BYTE_LEVEL` or `SENTENCEPIECE`.
        tokens: As they stand in the file; the index is the id. One that is no UTF-8 has surrogates for its bytes.
        types: A `TokenType` for each token.
        bos_id: The token a text begins with, if there is one.
        eos_id: The token a text ends with, if there is one.
        end_ids: The tokens that end an answer.
        adds_bos: Text to be continued begins with `bos_id`.
        adds_eos: Text to be encoded ends with `eos_id`.
        adds_space_prefix: Text is encoded with a space before it.
    """

    kind: str
    tokens: Sequence[str]
    types: Sequence[int]
    bos_id: int | None
    eos_id: int | None
    end_ids: frozenset[int]
    adds_bos: bool
    adds_eos: bool
    adds_space_prefix: bool

    def ids_of_types(self, *types: TokenType) -> list[int]:
        """Returns the ids of all tokens of these types, in order."""
        wanted = frozenset(map(int, types))  # an integer is compared with another far faster than with a member
        return [token_id for token_id, kind in enumerate(self.types) if kind in wanted]


def read_vocabulary(model_file: ModelFile, *, adds_bos: bool) -> Vocabulary:
    """Reads the vocabulary of a model file.

    Args:
        model_file: An open model file.
        adds_bos: What is true of `Vocabulary.adds_bos` if the file does not say.

    Raises:
        UnsupportedModelError: The vocabulary is of a kind cera does not know.
        ModelFileError: A key is missing, or keys do not fit together.
    """
    kind = model_file.require("tokenizer.ggml.model", str)
    if kind not in (BYTE_LEVEL, SENTENCEPIECE):
        raise unsupported(
            model_file,
            f"the key 'tokenizer.ggml.model' must be {BYTE_LEVEL!r} (byte-level) or {SENTENCEPIECE!r} "
            f"(sentencepiece), found {kind!r}. Use another model.",
        )
    sentencepiece = kind == SENTENCEPIECE
    tokens = _read_tokens(model_file)
    types = _read_types(model_file, len(tokens), required=sentencepiece)
    bos_id = _bos_or_eos(model_file, "bos", len(tokens))
    eos_id = _bos_or_eos(model_file, "eos", len(tokens))
    other_ends = (_token_id(model_file, name, len(tokens)) for name in ("eot", "eom"))
    return Vocabulary(
        kind=kind,
        tokens=tokens,
        types=types,
        bos_id=bos_id,
        eos_id=eos_id,
        end_ids=_end_ids(tokens, types, (eos_id, *other_ends)),
        adds_bos=_adds(model_file, "bos", bos_id, default=sentencepiece or adds_bos),
        adds_eos=_adds(model_file, "eos", eos_id, default=False),
        adds_space_prefix=model_file.get("tokenizer.ggml.add_space_prefix", bool, sentencepiece) and sentencepiece,
    )


def read_special_token(model_file: ModelFile, name: str) -> str:
    """Returns the token that `name` ("bos", "eos") stands for; empty if there is none.

    Raises:
        ModelFileError: The key does not name a token.
    """
    tokens = model_file.require("tokenizer.ggml.tokens", list)
    token_id = _bos_or_eos(model_file, name, len(tokens))
    return "" if token_id is None else tokens[token_id]


def read_tokens_of_type(model_file: ModelFile, kind: TokenType) -> list[str]:
    """Returns all tokens of a type; none if the file has no types.

    Raises:
        ModelFileError: There is not a type for each token.
    """
    tokens = model_file.require("tokenizer.ggml.tokens", list)
    types = _read_types(model_file, len(tokens), required=False)
    return [token for token, other in zip(tokens, types, strict=True) if other == kind and token]


def any_of(names: Iterable[str]) -> re.Pattern[str]:
    """Returns a pattern that matches any of these names, the longest where several fit, and captures it."""
    return re.compile(f"({_prefix_tree(set(names) - {''}) or '(?!)'})")


def _prefix_tree(names: Collection[str], depth: int = 0) -> str:
    """Returns a pattern that decides by one character after the other.

    A plain list of Gemma's 6,400 names takes 100 us wherever a text has a `<`. The limit keeps hostile names from
    nesting the pattern deeper than Python can follow.
    """
    if len(names) < 2 or depth == _MAX_TREE_DEPTH:
        return "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    rests: dict[str, set[str]] = {}
    for name in names:
        if name:
            rests.setdefault(name[0], set()).add(name[1:])
    branches = "|".join(f"{re.escape(first)}(?:{_prefix_tree(rests[first], depth + 1)})" for first in sorted(rests))
    return f"(?:{branches})?" if "" in names else branches


def _read_tokens(model_file: ModelFile) -> list[str]:
    tokens = model_file.require("tokenizer.ggml.tokens", list)
    if not tokens:
        raise damaged(model_file, "the key 'tokenizer.ggml.tokens' must have at least one token, found none.")
    if len(set(tokens)) < len(tokens):
        _refuse_repeated(model_file, tokens)
    return tokens


def _refuse_repeated(model_file: ModelFile, tokens: Sequence[str]) -> None:
    """Raises for a token that is there twice; empty ones, which no text becomes, may be."""
    first_id_of: dict[str, int] = {}
    for token_id, token in enumerate(tokens):
        if first_id_of.setdefault(token, token_id) != token_id and token:
            raise damaged(
                model_file,
                f"each token must have one id, found {token!r} with the ids {first_id_of[token]} and {token_id}.",
            )


def _read_types(model_file: ModelFile, num_tokens: int, *, required: bool) -> list[int]:
    key = "tokenizer.ggml.token_type"
    if key not in model_file.metadata and not required:
        return [TokenType.NORMAL.value] * num_tokens
    types = model_file.require(key, np.ndarray)
    if len(types) != num_tokens or not np.issubdtype(types.dtype, np.integer):
        raise damaged(
            model_file,
            f"the key {key!r} must have one integer for each of the {num_tokens} tokens, "
            f"found {len(types)} of type {types.dtype}.",
        )
    kinds: list[int] = types.tolist()
    return kinds


def _bos_or_eos(model_file: ModelFile, name: str, num_tokens: int) -> int | None:
    is_sentencepiece = model_file.get("tokenizer.ggml.model", str, "") == SENTENCEPIECE
    return _token_id(model_file, name, num_tokens, default={"bos": 1, "eos": 2}[name] if is_sentencepiece else None)


def _token_id(model_file: ModelFile, name: str, num_tokens: int, default: int | None = None) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    if key not in model_file.metadata:
        return default if default is not None and default < num_tokens else None
    token_id = model_file.require(key, int)
    if not 0 <= token_id < num_tokens:
        raise damaged(model_file, f"the key {key!r} must be a token id from 0 to {num_tokens - 1}, found {token_id}.")
    return token_id


def _adds(model_file: ModelFile, name: str, token_id: int | None, *, default: bool) -> bool:
    key = f"tokenizer.ggml.add_{name}_token"
    if model_file.get(key, bool, False) and token_id is None:
        raise damaged(model_file, f"the key {key!r} asks for a token, but 'tokenizer.ggml.{name}_token_id' is missing.")
    return model_file.get(key, bool, default) and token_id is not None


def _end_ids(tokens: Sequence[str], types: Sequence[int], named_by_keys: Collection[int | None]) -> frozenset[int]:
    control = TokenType.CONTROL.value
    ends = {
        token: token_id
        for token_id, (token, kind) in enumerate(zip(tokens, types, strict=True))
        if kind == control and token in _END_TOKENS
    }
    part_end, answer_end = _PART_ENDS_ANSWER_GOES_ON
    if answer_end in ends:
        ends.pop(part_end, None)
    return frozenset({*ends.values(), *(token_id for token_id in named_by_keys if token_id is not None)})
