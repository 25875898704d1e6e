from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.modelfile.vocabulary import TokenType, read_vocabulary
from support.tiny_vocabulary import IM_END, tiny_vocabulary
from support.vocabulary_file import byte_level_file, sentencepiece_file

NUM_TOKENS = 320


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokens": None}, "'tokenizer.ggml.tokens'.*missing"),
        ({"tokens": []}, "at least one token"),
        ({"tokens": ["a", "b", "a"], "token_type": None}, "'a' with the ids 0 and 2"),
        ({"token_type": np.zeros(3, np.int32)}, "'tokenizer.ggml.token_type'.*320 tokens, found 3"),
        ({"token_type": np.zeros(NUM_TOKENS, np.float32)}, "'tokenizer.ggml.token_type'.*float32"),
        ({"bos_token_id": NUM_TOKENS}, "'tokenizer.ggml.bos_token_id'.*from 0 to 319, found 320"),
        ({"eos_token_id": -1}, "'tokenizer.ggml.eos_token_id'.*found -1"),
        ({"eot_token_id": 4_294_967_295}, "'tokenizer.ggml.eot_token_id'.*found 4294967295"),
        ({"eom_token_id": "<|eom|>"}, "'tokenizer.ggml.eom_token_id' must be of type int"),
        (
            {"add_bos_token": True, "bos_token_id": None},
            "'tokenizer.ggml.add_bos_token'.*'tokenizer.ggml.bos_token_id'",
        ),
        (
            {"add_eos_token": True, "eos_token_id": None},
            "'tokenizer.ggml.add_eos_token'.*'tokenizer.ggml.eos_token_id'",
        ),
    ],
)
def test_a_malformed_vocabulary_is_one_clear_error(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_vocabulary(byte_level_file(**changes), adds_bos=False)


@pytest.mark.parametrize("kind", ["bert", "t5", "rwkv", "no_vocab"])
def test_an_unknown_kind_is_unsupported_and_named(kind: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"'tokenizer.ggml.model'.*found '{kind}'"):
        read_vocabulary(byte_level_file(model=kind), adds_bos=False)


def test_without_types_every_byte_level_token_is_normal() -> None:
    vocabulary = read_vocabulary(byte_level_file(token_type=None), adds_bos=False)
    assert set(vocabulary.types) == {TokenType.NORMAL}


def test_a_sentencepiece_vocabulary_needs_types_to_know_its_bytes() -> None:
    with pytest.raises(ModelFileError, match=r"'tokenizer.ggml.token_type'.*missing"):
        read_vocabulary(sentencepiece_file(["a"], token_type=None), adds_bos=True)


def test_several_empty_tokens_are_no_duplicates() -> None:
    vocabulary = tiny_vocabulary(NUM_TOKENS)
    vocabulary.tokens[-2:] = ["", ""]
    assert read_vocabulary(byte_level_file(vocabulary), adds_bos=False).tokens[-2:] == ["", ""]


@pytest.mark.parametrize(("key", "expected"), [(None, True), (False, False), (True, True)])
def test_the_file_decides_about_bos_and_else_the_pretokenizer(key: bool | None, expected: bool) -> None:
    assert read_vocabulary(byte_level_file(add_bos_token=key), adds_bos=True).adds_bos is expected
    assert read_vocabulary(byte_level_file(add_bos_token=key), adds_bos=False).adds_bos is bool(key)


def test_a_byte_level_vocabulary_without_a_bos_id_adds_none() -> None:
    vocabulary = read_vocabulary(byte_level_file(bos_token_id=None), adds_bos=True)
    assert (vocabulary.bos_id, vocabulary.adds_bos) == (None, False)


def test_a_sentencepiece_vocabulary_has_the_usual_ids_and_adds_bos_and_a_space_by_default() -> None:
    vocabulary = read_vocabulary(sentencepiece_file(["a"]), adds_bos=False)
    assert (vocabulary.bos_id, vocabulary.eos_id) == (1, 2)
    assert (vocabulary.adds_bos, vocabulary.adds_eos, vocabulary.adds_space_prefix) == (True, False, True)


def test_a_byte_level_vocabulary_never_adds_a_space() -> None:
    assert not read_vocabulary(byte_level_file(add_space_prefix=True), adds_bos=False).adds_space_prefix


def test_end_ids_are_those_of_the_keys_and_of_control_tokens_with_a_usual_name() -> None:
    vocabulary = tiny_vocabulary(NUM_TOKENS)
    vocabulary.tokens[300:304] = ["<|eot_id|>", "<end_of_turn>", "<|im_end_of|>", "<|eom_id|>"]
    vocabulary.types[300:303] = [TokenType.CONTROL, TokenType.NORMAL, TokenType.CONTROL]
    read = read_vocabulary(
        byte_level_file(vocabulary, eos_token_id=310, eot_token_id=311, eom_token_id=312), adds_bos=False
    )
    assert read.end_ids == {0, 2, 300, 310, 311, 312}  # 0 and 2 are <|endoftext|> and <|im_end|>


@pytest.mark.parametrize("has_return", [False, True])
def test_the_end_of_a_part_ends_no_answer_where_there_is_another_end(has_return: bool) -> None:
    vocabulary = tiny_vocabulary(NUM_TOKENS)
    vocabulary.tokens[300:302] = ["<|end|>", "<|return|>" if has_return else "<|other|>"]
    vocabulary.types[300:302] = [TokenType.CONTROL, TokenType.CONTROL]
    end_ids = read_vocabulary(byte_level_file(vocabulary), adds_bos=False).end_ids
    assert (300 in end_ids, 301 in end_ids) == (not has_return, has_return)


def test_a_file_may_have_no_end_at_all() -> None:
    vocabulary = tiny_vocabulary(NUM_TOKENS)
    vocabulary.types[:3] = [TokenType.NORMAL] * 3
    file = byte_level_file(vocabulary, eos_token_id=None)
    assert read_vocabulary(file, adds_bos=False).end_ids == frozenset()
    assert vocabulary.id_of(IM_END) == 2
