from __future__ import annotations

import pytest

from cera_core.errors import InvalidInputError
from cera_core.modelfile.detokenize import BYTE_OF_CHARACTER
from cera_core.modelfile.tokenizer import ModelTokenizer, load_tokenizer
from cera_core.modelfile.vocabulary import TokenType
from support.tiny_vocabulary import byte_level_alphabet, tiny_vocabulary
from support.vocabulary_file import byte_level_file, sentencepiece_file

FIRST_BYTE = 3  # id of byte 0 in the tiny vocabularies, after three control tokens


@pytest.fixture(scope="module")
def tokenizer() -> ModelTokenizer:
    return load_tokenizer(byte_level_file())


def ids_of(data: bytes) -> list[int]:
    return [FIRST_BYTE + byte for byte in data]


def test_the_byte_alphabet_names_every_byte_once() -> None:
    assert [BYTE_OF_CHARACTER[character] for character in byte_level_alphabet()] == list(range(256))


def test_a_character_appears_with_its_last_byte(tokenizer: ModelTokenizer) -> None:
    stream = tokenizer.stream_decoder()
    assert [stream.push(token_id) for token_id in ids_of("é世".encode())] == ["", "é", "", "", "世"]
    assert stream.flush() == ""


def test_a_character_that_is_never_completed_becomes_a_replacement(tokenizer: ModelTokenizer) -> None:
    stream = tokenizer.stream_decoder()
    assert stream.push(ids_of(b"\xe4")[0]) == ""
    assert stream.flush() == "\ufffd"


def test_bytes_that_are_no_utf8_become_replacements_and_harm_no_neighbour(tokenizer: ModelTokenizer) -> None:
    data = b"a\xffb\xe4\xb8c\xc0\xafd"
    assert tokenizer.decode(ids_of(data)) == data.decode("utf-8", "replace")


def test_control_tokens_give_nothing_even_inside_a_character(tokenizer: ModelTokenizer) -> None:
    first, second = ids_of("é".encode())
    assert tokenizer.decode([0, first, 1, second, 2]) == "é"
    assert tokenizer.token_bytes(0) == b""


@pytest.mark.parametrize("token_id", [-1, 320])
def test_an_id_outside_the_vocabulary_is_an_error(tokenizer: ModelTokenizer, token_id: int) -> None:
    for call in (tokenizer.token_bytes, tokenizer.stream_decoder().push, lambda wrong: tokenizer.decode([wrong])):
        with pytest.raises(InvalidInputError, match=f"from 0 to 319, found {token_id}"):
            call(token_id)


def test_a_user_defined_token_spells_itself_in_a_byte_level_vocabulary() -> None:
    vocabulary = tiny_vocabulary(320)
    vocabulary.add("<outil é>", TokenType.USER_DEFINED)
    assert load_tokenizer(byte_level_file(vocabulary)).token_bytes(320) == "<outil é>".encode()


def test_a_normal_token_outside_the_byte_alphabet_spells_itself() -> None:
    vocabulary = tiny_vocabulary(320)
    vocabulary.add("two words 世")
    assert load_tokenizer(byte_level_file(vocabulary)).token_bytes(320) == "two words 世".encode()


def test_a_sentencepiece_token_has_spaces_and_bytes() -> None:
    tokenizer = load_tokenizer(sentencepiece_file(["▁▁a▁b"]))
    assert tokenizer.token_bytes(tokenizer.vocab_size - 1) == b"  a b"
    assert tokenizer.token_bytes(FIRST_BYTE + 0xE4) == b"\xe4"
    assert tokenizer.token_bytes(0) == b""  # <unk>


def test_the_space_put_before_a_text_is_taken_away_where_the_text_is_known_to_begin() -> None:
    tokenizer = load_tokenizer(sentencepiece_file(["▁a", "▁", "a"]))
    bos, *ids = tokenizer.encode("a a")
    assert tokenizer.decode([bos, *ids]) == "a a"
    assert tokenizer.decode(ids) == " a a"  # may be the rest of a longer text
    stream = tokenizer.stream_decoder()
    assert [stream.push(token_id) for token_id in (bos, *ids)] == ["", "a", " a"]


def test_a_space_of_the_text_itself_is_kept() -> None:
    with_prefix = load_tokenizer(sentencepiece_file(["▁a", "▁", "a"]))
    assert with_prefix.decode(with_prefix.encode(" a")) == " a"
    without = load_tokenizer(sentencepiece_file(["▁a", "▁", "a"], add_space_prefix=False))
    assert without.decode(without.encode(" a")) == " a"
