from __future__ import annotations

import numpy as np
import pytest

from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.modelfile.tokenizer import ModelTokenizer, load_tokenizer
from cera_core.modelfile.vocabulary import TokenType
from support.tiny_vocabulary import tiny_vocabulary, vocabulary_of_merges
from support.vocabulary_file import byte_level_file, sentencepiece_file


def spelling(tokenizer: ModelTokenizer, text: str) -> list[str]:
    return [tokenizer.decode([token_id]) for token_id in tokenizer.encode(text, add_special=False)]


def test_merges_are_applied_in_the_order_of_the_file() -> None:
    early = load_tokenizer(byte_level_file(vocabulary_of_merges(["a b", "b c"])))
    late = load_tokenizer(byte_level_file(vocabulary_of_merges(["b c", "a b"])))
    assert spelling(early, "abc") == ["ab", "c"]
    assert spelling(late, "abc") == ["a", "bc"]


def test_of_a_merge_listed_twice_the_first_place_counts() -> None:
    twice = load_tokenizer(byte_level_file(vocabulary_of_merges(["a b", "b c", "a b"])))
    assert spelling(twice, "abc") == ["ab", "c"]


@pytest.mark.parametrize("line", ["a bb", "a", "a b c", "", "zz y"])
def test_a_merge_that_makes_no_token_is_named(line: str) -> None:
    vocabulary = tiny_vocabulary(320)
    vocabulary.merges.insert(3, line)
    with pytest.raises(ModelFileError, match=f"'tokenizer.ggml.merges'.*found '{line}'"):
        load_tokenizer(byte_level_file(vocabulary))


def test_an_empty_token_is_no_half_of_a_merge() -> None:
    vocabulary = vocabulary_of_merges(["a b"])
    vocabulary.add("")
    vocabulary.merges.append("a")
    with pytest.raises(ModelFileError, match=r"'tokenizer.ggml.merges'.*found 'a'"):
        load_tokenizer(byte_level_file(vocabulary))


def test_missing_merges_are_an_error() -> None:
    with pytest.raises(ModelFileError, match=r"'tokenizer.ggml.merges'.*missing"):
        load_tokenizer(byte_level_file(merges=None))


def test_merges_cannot_make_a_control_token() -> None:
    vocabulary = vocabulary_of_merges(["a b", "b c"])
    vocabulary.types[vocabulary.id_of("ab")] = TokenType.CONTROL
    assert spelling(load_tokenizer(byte_level_file(vocabulary)), "abc") == ["a", "bc"]


def test_a_whole_word_that_is_a_token_needs_no_merges_where_the_pretokenizer_says_so() -> None:
    vocabulary = vocabulary_of_merges(["a b"])
    vocabulary.add("abc")
    assert spelling(load_tokenizer(byte_level_file(vocabulary, pre="llama-bpe")), "abc") == ["abc"]
    assert spelling(load_tokenizer(byte_level_file(vocabulary, pre="qwen2")), "abc") == ["ab", "c"]


def test_a_byte_that_is_no_token_is_left_out() -> None:
    vocabulary = tiny_vocabulary(320)
    vocabulary.tokens[vocabulary.id_of("z")] = "[gone]"
    tokenizer = load_tokenizer(byte_level_file(vocabulary))
    assert tokenizer.decode(tokenizer.encode("fuzz!")) == "fu!"


def test_pieces_with_the_highest_score_are_merged_first() -> None:
    pieces = ["ab", "bc", "abc", "a", "b", "c"]
    assert spelling(load_tokenizer(sentencepiece_file(pieces, add_space_prefix=False)), "abcbc") == ["abc", "bc"]
    scores = {"ab": -3.0, "bc": -1.0, "a": -4.0, "b": -5.0, "c": -6.0}
    assert spelling(load_tokenizer(sentencepiece_file(scores, add_space_prefix=False)), "abc") == ["a", "bc"]


def test_the_leftmost_of_equal_pairs_is_merged_first() -> None:
    tokenizer = load_tokenizer(sentencepiece_file(["aa", "a"], add_space_prefix=False))
    assert spelling(tokenizer, "aaa") == ["aa", "a"]


def test_a_piece_that_only_a_longer_path_reaches_is_not_found() -> None:
    """It is pair merging, not a search for the best cover: nothing makes "bc" or "ab", so "abc" cannot arise."""
    assert spelling(load_tokenizer(sentencepiece_file(["abc", "a", "b", "c"], add_space_prefix=False)), "abc") == [
        *"abc"
    ]


def test_a_character_without_a_piece_becomes_its_bytes() -> None:
    tokenizer = load_tokenizer(sentencepiece_file(["a"], add_space_prefix=False))
    ids = tokenizer.encode("aé世", add_special=False)
    assert b"".join(map(tokenizer.token_bytes, ids)) == "aé世".encode()
    assert len(ids) == 1 + 2 + 3


def test_text_cannot_spell_a_byte_or_a_control_piece() -> None:
    pieces = [*"<0xA>/su", "<0", "<0x", "<0xA", "<0xAA", "<s", "</", "</s", "▁"]
    tokenizer = load_tokenizer(sentencepiece_file(pieces, add_space_prefix=False))
    text = "<0xAA> <s> </s>"
    ids = tokenizer.encode(text, add_special=False)
    assert tokenizer.decode(ids) == text
    assert not {1, 2, 3 + 0xAA} & set(ids)


@pytest.mark.parametrize("scores", [None, np.zeros(5, np.float32), np.full(260, np.nan, np.float32)])
def test_scores_must_fit_the_tokens(scores: np.ndarray | None) -> None:
    with pytest.raises(ModelFileError, match=r"'tokenizer.ggml.scores'"):
        load_tokenizer(sentencepiece_file(["a"], scores=scores))


def test_a_sentencepiece_vocabulary_without_all_bytes_is_unsupported() -> None:
    tokens = sentencepiece_file(["a"]).metadata["tokenizer.ggml.tokens"]
    with pytest.raises(UnsupportedModelError, match="256 bytes, 1 are missing, '<0x41>'"):
        load_tokenizer(sentencepiece_file(["a"], tokens=["[gone]" if token == "<0x41>" else token for token in tokens]))


def test_a_token_that_is_no_utf8_is_never_spelt_but_gives_its_bytes() -> None:
    damaged = b"a\xff".decode("utf-8", "surrogateescape")
    tokenizer = load_tokenizer(sentencepiece_file(["a", damaged], add_space_prefix=False))
    assert tokenizer.token_bytes(tokenizer.vocab_size - 1) == b"a\xff"
    assert spelling(tokenizer, "aa") == ["a", "a"]
