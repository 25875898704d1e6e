"""Builds `tokenizers` encoders for the two kinds of vocabulary whose words are made by merging pairs.

An encoder takes plain text and knows no control tokens: those are not in it, so no text can spell one.

A byte-level vocabulary lists its merges in order. A sentencepiece one has a score for each token instead: of all
neighbours that make a token together, those with the highest score are merged, the leftmost first
(https://github.com/google/sentencepiece/blob/master/src/bpe_model.cc). Listing every way to make a token from two
others, by descending score, makes the same choice, as long as no two tokens share a score; among those that do, the
lower id goes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

from cera_core.modelfile.hyperparameters import damaged, unsupported
from cera_core.modelfile.vocabulary import TokenType, Vocabulary

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import ModelFile
    from cera_core.modelfile.pretokenizers import Pretokenizer

_UNSPEAKABLE = (TokenType.CONTROL, TokenType.UNKNOWN)


def byte_level_encoder(model_file: ModelFile, vocabulary: Vocabulary, pretokenizer: Pretokenizer) -> Tokenizer:
    """Makes the encoder of a byte-level vocabulary.

    A byte that is no token is left out of the ids, as in llama.cpp; SmolLM2 lacks 21, most of them impossible in UTF-8.

    Raises:
        ModelFileError: The merges do not fit the tokens.
    """
    ids = _ids_in_text(vocabulary)
    lines = model_file.require("tokenizer.ggml.merges", list)
    pairs = dict.fromkeys(line.partition(" ")[::2] for line in lines)
    ignores_merges = pretokenizer.ignores_merges
    try:  # the package checks the merges as well, in half the time
        model = BPE(vocab=ids, merges=list(pairs), ignore_merges=ignores_merges)
    except Exception:  # it has no class of its own for this
        model = BPE(vocab=ids, merges=_usable(pairs, model_file, vocabulary, ids), ignore_merges=ignores_merges)
    encoder = Tokenizer(model)
    splits = [Split(Regex(pattern), "isolated") for pattern in pretokenizer.patterns]
    encoder.pre_tokenizer = Sequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])
    return encoder


def sentencepiece_encoder(model_file: ModelFile, vocabulary: Vocabulary) -> Tokenizer:
    """Makes the encoder of a sentencepiece vocabulary; it takes text whose spaces are `WORD_START`.

    A character that is no token becomes the tokens of its bytes.

    Raises:
        ModelFileError: The scores do not fit the tokens.
        UnsupportedModelError: There is not a token for each byte.
    """
    ids = _ids_in_text(vocabulary)
    missing = [byte for byte in range(256) if byte_token(byte) not in ids]
    if missing:
        raise unsupported(
            model_file,
            f"a sentencepiece vocabulary must have a token for each of the 256 bytes, {len(missing)} are missing, "
            f"{byte_token(missing[0])!r} for one. Use another model.",
        )
    merges = _merges_by_score(_read_scores(model_file, len(vocabulary.tokens)), vocabulary, ids)
    return Tokenizer(BPE(vocab=ids, merges=merges, byte_fallback=True))


def byte_token(byte: int) -> str:
    """Returns the token that stands for a byte in a sentencepiece vocabulary."""
    return f"<0x{byte:02X}>"


def _ids_in_text(vocabulary: Vocabulary) -> dict[str, int]:
    """Returns the ids of the tokens that plain text may become."""
    ids = dict(zip(vocabulary.tokens, range(len(vocabulary.tokens)), strict=True))
    for token_id in vocabulary.ids_of_types(*_UNSPEAKABLE):
        ids.pop(vocabulary.tokens[token_id], None)
    ids.pop("", None)
    return ids if _is_utf8("".join(ids)) else {token: token_id for token, token_id in ids.items() if _is_utf8(token)}


def _is_utf8(token: str) -> bool:
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True


def _usable(
    pairs: Iterable[tuple[str, str]], model_file: ModelFile, vocabulary: Vocabulary, ids: Mapping[str, int]
) -> list[tuple[str, str]]:
    """Returns the pairs in order, without those that would make, or are made of, a control token."""
    left_out = {token for token in vocabulary.tokens if token and token not in ids}
    usable = []
    for left, right in pairs:
        if left in ids and right in ids and left + right in ids:
            usable.append((left, right))
        elif left_out.isdisjoint((left, right, left + right)):
            raise damaged(
                model_file,
                "each of 'tokenizer.ggml.merges' must be two tokens, separated by a space, that make a third; "
                f"found {f'{left} {right}'.rstrip()!r}.",
            )
    return usable


def _read_scores(model_file: ModelFile, num_tokens: int) -> np.ndarray:
    key = "tokenizer.ggml.scores"
    scores = model_file.require(key, np.ndarray)
    if len(scores) != num_tokens or np.isnan(scores).any():
        raise damaged(
            model_file,
            f"the key {key!r} must have one number for each of the {num_tokens} tokens, found {len(scores)}, "
            f"{int(np.isnan(scores).sum())} of them NaN.",
        )
    return scores


def _merges_by_score(scores: np.ndarray, vocabulary: Vocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    spelt = {token for token, token_id in ids.items() if vocabulary.types[token_id] != TokenType.BYTE}
    best_first = (vocabulary.tokens[token_id] for token_id in np.argsort(-scores, kind="stable"))
    return [
        (token[:cut], token[cut:])
        for token in best_first
        if token in spelt
        for cut in range(1, len(token))
        if token[:cut] in spelt and token[cut:] in spelt
    ]
