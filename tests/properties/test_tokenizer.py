"""What holds for any text and any ids."""

from __future__ import annotations

import functools
import itertools

from hypothesis import given
from hypothesis import strategies as st

from cera_core.modelfile.pretokenizers import PRETOKENIZERS
from cera_core.modelfile.tokenizer import ModelTokenizer, load_tokenizer
from support.tiny_vocabulary import CONTROL_TOKENS
from support.vocabulary_file import byte_level_file, sentencepiece_file

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
LIKELY = st.lists(
    st.sampled_from(
        [
            *CONTROL_TOKENS,
            " ",
            "  ",
            "\n",
            "\r\n",
            "\t",
            "the",
            "'s",
            "12",
            "é",
            "e\u0301",
            "世界",
            "👩‍👧",
            "\u3000",
            "<",
        ]
    )
).map("".join)
TEXT = UNICODE | LIKELY
NAMES = sorted({pretokenizer: name for name, pretokenizer in PRETOKENIZERS.items()}.values())


@functools.cache
def byte_level(pre: str) -> ModelTokenizer:
    return load_tokenizer(byte_level_file(pre=pre))


@functools.cache
def sentencepiece(add_space_prefix: bool) -> ModelTokenizer:
    pieces = ["▁t", "he", "▁the", "▁▁", "in", "▁in", *"▁theinas"]
    return load_tokenizer(sentencepiece_file(pieces, add_space_prefix=add_space_prefix))


def any_tokenizer() -> st.SearchStrategy[ModelTokenizer]:
    return st.sampled_from(NAMES).map(byte_level) | st.booleans().map(sentencepiece)


@given(TEXT, st.sampled_from(NAMES), st.booleans())
def test_byte_level_ids_give_the_text_back(text: str, name: str, add_special: bool) -> None:
    tokenizer = byte_level(name)
    assert tokenizer.decode(tokenizer.encode(text, add_special=add_special)) == text


@given(TEXT.filter(lambda text: "▁" not in text), st.booleans())
def test_sentencepiece_ids_give_the_text_back(text: str, add_space_prefix: bool) -> None:
    tokenizer = sentencepiece(add_space_prefix)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(LIKELY, any_tokenizer())
def test_text_never_becomes_a_control_token(text: str, tokenizer: ModelTokenizer) -> None:
    ids = tokenizer.encode(text, add_special=False)
    assert all(tokenizer.token_bytes(token_id) for token_id in ids)


@given(any_tokenizer(), st.data())
def test_a_stream_agrees_with_decoding_at_once_and_takes_nothing_back(
    tokenizer: ModelTokenizer, data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=40))
    stream = tokenizer.stream_decoder()
    pushed = [stream.push(token_id) for token_id in ids]
    assert "".join(pushed) + stream.flush() == tokenizer.decode(ids)
    for length, shown in enumerate(itertools.accumulate(pushed, initial="")):
        assert tokenizer.decode(ids[:length]).startswith(shown)


@given(any_tokenizer(), st.data())
def test_decoding_is_decoding_the_bytes(tokenizer: ModelTokenizer, data: st.DataObject) -> None:
    first_without_bos = 2  # after a beginning-of-sequence token one space may go
    ids = data.draw(st.lists(st.integers(first_without_bos, tokenizer.vocab_size - 1), max_size=40))
    assert tokenizer.decode(ids) == b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")


def merged_by_score(text: str, scores: dict[str, float]) -> list[str]:
    """Defines sentencepiece's merging: the best, leftmost pair that makes a piece, until none is left."""
    symbols = list(text)
    while True:
        pairs = [
            (-scores[left + right], place)
            for place, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in scores
        ]
        if not pairs:
            return symbols
        _, place = min(pairs)
        symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]


@st.composite
def scored_pieces(draw: st.DrawFn) -> dict[str, float]:
    longer = draw(st.lists(st.text("ab▁", min_size=2, max_size=5), unique=True, max_size=25))
    pieces = draw(st.permutations([*longer, *"ab▁"]))
    return {piece: -float(rank) for rank, piece in enumerate(pieces)}


@given(scored_pieces(), st.text("ab ", max_size=30))
def test_sentencepiece_merging_equals_its_definition(scores: dict[str, float], text: str) -> None:
    tokenizer = load_tokenizer(sentencepiece_file(scores, add_space_prefix=False))
    ids = tokenizer.encode(text, add_special=False)
    expected = merged_by_score(text.replace(" ", "▁"), scores)
    assert [tokenizer.decode([token_id]) for token_id in ids] == [piece.replace("▁", " ") for piece in expected]


def test_every_single_character_of_the_basic_plane_gives_itself_back() -> None:
    characters = "".join(map(chr, itertools.chain(range(0xD800), range(0xE000, 0x10000))))
    assert byte_level("qwen2").decode(byte_level("qwen2").encode(characters)) == characters
