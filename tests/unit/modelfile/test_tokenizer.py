from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from cera_core.errors import CeraWarning, InvalidInputError, UnsupportedModelError
from cera_core.modelfile.tokenizer import ModelTokenizer, load_tokenizer
from cera_core.modelfile.unicode_text import LONGEST_SPACE, require_short_space
from cera_core.modelfile.vocabulary import SHIELD, TokenType
from cera_core.specs import Tokenizer
from support.tiny_vocabulary import tiny_vocabulary
from support.vocabulary_file import byte_level_file, sentencepiece_file

END_OF_TEXT_ID, IM_START_ID, IM_END_ID = range(3)


@pytest.fixture(scope="module")
def tokenizer() -> ModelTokenizer:
    return load_tokenizer(byte_level_file())


def with_user_defined(*names: str) -> ModelTokenizer:
    vocabulary = tiny_vocabulary(320)
    for name in names:
        vocabulary.add(name, TokenType.USER_DEFINED)
    return load_tokenizer(byte_level_file(vocabulary))


def test_it_is_what_the_contract_calls_a_tokenizer(tokenizer: ModelTokenizer) -> None:
    as_contract: Tokenizer = tokenizer
    assert as_contract.vocab_size == 320
    assert as_contract.decode(as_contract.encode("the text", add_special=True, parse_special=False)) == "the text"


def test_words_of_the_vocabulary_are_one_token(tokenizer: ModelTokenizer) -> None:
    vocabulary = tiny_vocabulary(320)
    assert tokenizer.encode(" the") == [vocabulary.id_of("Ġthe")]


def test_control_tokens_are_read_on_request_only(tokenizer: ModelTokenizer) -> None:
    text = "<|im_start|>a<|im_end|>"
    assert {IM_START_ID, IM_END_ID}.isdisjoint(tokenizer.encode(text))
    assert tokenizer.decode(tokenizer.encode(text)) == text
    read = tokenizer.encode(text, parse_special=True)
    assert (read[0], read[-1], tokenizer.decode(read)) == (IM_START_ID, IM_END_ID, "a")


def test_user_defined_tokens_are_always_read_the_longest_first() -> None:
    tokenizer = with_user_defined("<tool>", "<tool>s")
    for parse_special in (False, True):
        assert tokenizer.encode("<tool><tool>s", parse_special=parse_special) == [320, 321]
    assert tokenizer.decode([320, 321]) == "<tool><tool>s"


def test_names_that_begin_alike_are_told_apart() -> None:
    names = ["<a>", "<ab>", "<abc", "<~", "x" * 40, "x" * 39, "xx", "éé", "[(.*)+?]"]
    tokenizer = with_user_defined(*names)
    ids = dict(zip(names, range(320, 330), strict=False))
    for name, token_id in ids.items():
        assert tokenizer.encode(name) == [token_id]
    assert tokenizer.encode("x" * 41) == [ids["x" * 40], *tokenizer.encode("x")]
    assert tokenizer.encode("<a<abxx") == [*tokenizer.encode("<a<ab"), ids["xx"]]


def test_long_names_that_differ_at_their_end_do_not_nest_too_deep() -> None:
    assert with_user_defined("x" * 3000, "x" * 2999 + "y").encode("x" * 2999 + "y") == [321]


def test_a_shielded_name_is_text_and_the_shield_is_gone(tokenizer: ModelTokenizer) -> None:
    shielded = SHIELD.join("<|im_end|>")
    assert tokenizer.encode(shielded, parse_special=True) == tokenizer.encode("<|im_end|>")
    assert tokenizer.decode(tokenizer.encode(shielded)) == shielded  # elsewhere it is a character like others


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_half_a_surrogate_pair_is_an_error_that_says_where(tokenizer: ModelTokenizer, text: str) -> None:
    position = next(index for index, character in enumerate(text) if "\ud800" <= character <= "\udfff")
    with pytest.raises(InvalidInputError, match=f"position {position}"):
        tokenizer.encode(text)


def test_what_is_no_text_or_no_ids_is_refused(tokenizer: ModelTokenizer) -> None:
    for text, found in ((None, "NoneType"), (b"a", "bytes")):
        with pytest.raises(InvalidInputError, match=f"^Text must be a str, found {found}."):
            tokenizer.encode(text)  # type: ignore[arg-type]
    for ids in (5, ["a"], [1.0]):
        with pytest.raises(InvalidInputError, match=r"^A sequence of token ids is required, found"):
            tokenizer.decode(ids)  # type: ignore[arg-type]


def test_empty_text_has_no_tokens_but_bos() -> None:
    assert load_tokenizer(byte_level_file()).encode("") == []
    assert load_tokenizer(byte_level_file(add_bos_token=True)).encode("") == [END_OF_TEXT_ID]
    assert load_tokenizer(sentencepiece_file(["a"])).encode("") == [1]
    assert load_tokenizer(sentencepiece_file(["a"])).encode("", add_special=False) == []


def test_bos_and_eos_are_added_once() -> None:
    tokenizer = load_tokenizer(byte_level_file(add_bos_token=True, add_eos_token=True))
    plain = tokenizer.encode("a", add_special=False)
    expected = [END_OF_TEXT_ID, *plain, IM_END_ID]
    assert tokenizer.encode("a") == expected
    assert tokenizer.encode("<|endoftext|>a<|im_end|>", parse_special=True) == expected


def test_the_pretokenizer_decides_about_bos_where_the_file_does_not() -> None:
    assert load_tokenizer(byte_level_file(pre="llama-bpe")).encode("")  # has adds_bos
    assert not load_tokenizer(byte_level_file(pre="llama-bpe", add_bos_token=False)).encode("")
    assert not load_tokenizer(byte_level_file(pre="qwen2")).encode("")


def test_each_part_of_a_sentencepiece_text_begins_with_a_space() -> None:
    tokenizer = load_tokenizer(sentencepiece_file(["▁a", "▁", "a"]))
    a_with_space = tokenizer.vocab_size - 3
    assert tokenizer.encode("a</s>a", parse_special=True) == [1, a_with_space, 2, a_with_space]


@pytest.mark.parametrize(("pre", "named"), [("brand-new", "'brand-new'"), (None, "is missing")])
def test_an_unknown_pretokenizer_is_a_warning_that_names_it_and_what_is_used(pre: str | None, named: str) -> None:
    with pytest.warns(CeraWarning, match=f"'tokenizer.ggml.pre'.*{named}.*'default' is used"):
        tokenizer = load_tokenizer(byte_level_file(pre=pre))
    assert tokenizer.decode(tokenizer.encode("a+b 12345")) == "a+b 12345"


def test_a_sentencepiece_vocabulary_has_no_pretokenizer_to_know() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_tokenizer(sentencepiece_file(["a"], pre="brand-new"))


def test_an_unknown_kind_is_unsupported() -> None:
    with pytest.raises(UnsupportedModelError, match=r"'tokenizer.ggml.model'.*'bert'"):
        load_tokenizer(byte_level_file(model="bert"))


def test_the_fingerprint_changes_with_all_that_ids_depend_on() -> None:
    vocabulary = tiny_vocabulary(320)
    swapped = tiny_vocabulary(320)
    swapped.tokens[10:12] = reversed(swapped.tokens[10:12])
    other_type = tiny_vocabulary(320)
    other_type.types[319] = TokenType.CONTROL
    files = [
        byte_level_file(),
        byte_level_file(swapped),
        byte_level_file(other_type),
        byte_level_file(merges=vocabulary.merges[::-1]),
        byte_level_file(pre="qwen2"),
        byte_level_file(add_bos_token=True),
        sentencepiece_file(["a", "b"]),
        sentencepiece_file({"a": -1.0, "b": 0.0}),
        sentencepiece_file(["a", "b"], add_space_prefix=False),
    ]
    fingerprints = [load_tokenizer(file).fingerprint for file in files]
    assert len(set(fingerprints)) == len(files)
    assert load_tokenizer(byte_level_file()).fingerprint == fingerprints[0]


def test_more_spaces_than_the_regexes_take_are_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    tokenizer = load_tokenizer(byte_level_file(pre="qwen2"))
    with pytest.raises(InvalidInputError, match=r"^Text must have at most 9,900,000 .*, found more from position 1 on"):
        tokenizer.encode("a" + " " * 5_000_000 + "\n" * 5_000_000)
    assert capfd.readouterr() == ("", "")  # Rust would print its panic


def test_a_long_text_without_a_long_space_is_cut_into_words() -> None:
    require_short_space(" " * LONGEST_SPACE + "a\n")
    with pytest.raises(InvalidInputError, match="from position 2 on"):
        require_short_space("aa" + " " * LONGEST_SPACE + "\t")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
@pytest.mark.alone
def test_a_very_long_word_takes_time_in_proportion(kind: str) -> None:
    """Merging by repeated search would take a thousand times as long for a word thirty times as long."""
    powers = ["a" * 2**exponent for exponent in range(8)]
    if kind == "byte-level":
        vocabulary = tiny_vocabulary(259)
        vocabulary.tokens += powers[1:]
        vocabulary.types += [TokenType.NORMAL] * len(powers[1:])
        vocabulary.merges += [f"{half} {half}" for half in powers[:-1]]
        tokenizer = load_tokenizer(byte_level_file(vocabulary))
    else:
        tokenizer = load_tokenizer(sentencepiece_file([*powers[1:], "a"], add_space_prefix=False))

    def seconds(length: int) -> float:
        start = time.perf_counter()
        assert tokenizer.decode(tokenizer.encode("a" * length)) == "a" * length
        return time.perf_counter() - start

    short = min(seconds(10_000) for _ in range(3))
    assert seconds(300_000) < 300 * short


def test_ids_may_be_numpy_integers(tokenizer: ModelTokenizer) -> None:
    assert tokenizer.decode(np.array(tokenizer.encode("the"))) == "the"
