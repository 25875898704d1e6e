"""Saved phrases: only those of the same tokenizer and format are loaded."""

import json
from dataclasses import replace

import pytest

from cera_aho_corasick.phrases import load_phrases, save_phrases, tokenise
from cera_core.drafting.sources import Source
from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext
from support.letter_tokenizer import CONTEXT, letters

PHRASES = [[1, 2, 3], [262_143, 0]]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "api.phrases"
    save_phrases(path, PHRASES, "letters")
    return path


def replace_header(path, **changes):
    header, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps(json.loads(header) | changes) + "\n" + rest)


def test_saved_phrases_are_loaded_for_the_same_tokenizer(saved):
    assert load_phrases(saved, replace(CONTEXT, vocab_size=None)) == PHRASES


def test_saved_phrases_are_loaded_where_no_tokenizer_is_known(saved):
    assert load_phrases(saved, DrafterContext()) == PHRASES


def test_another_tokenizer_is_refused(saved):
    with pytest.raises(InvalidInputError, match=r"line 1: must be saved for tokenizer 'words', found 'letters'"):
        load_phrases(saved, DrafterContext(tokenizer_fingerprint="words"))
    save_phrases(saved, PHRASES, None)
    with pytest.raises(InvalidInputError, match="found None"):
        load_phrases(saved, DrafterContext(tokenizer_fingerprint="words"))


def test_another_format_version_is_refused(saved):
    replace_header(saved, version=2)
    with pytest.raises(InvalidInputError, match="must have format version 1, found 2"):
        load_phrases(saved, DrafterContext())


@pytest.mark.parametrize("content", ["", "[1, 2]\n", "not JSON\n", '{"format": "other"}\n'])
def test_file_without_a_header_is_refused(tmp_path, content):
    path = tmp_path / "a.phrases"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match="line 1: must be the header of saved phrases"):
        load_phrases(path, DrafterContext())


def test_damaged_line_is_refused_with_its_number(saved):
    saved.write_text(saved.read_text() + "[1, \n")
    with pytest.raises(InvalidInputError, match=r"line 4, column \d+: must be JSON"):
        load_phrases(saved, DrafterContext())


def test_id_outside_the_vocabulary_is_refused(saved):
    with pytest.raises(InvalidInputError, match=r"line 3: token ids must be in 0\.\.999, found 262143"):
        load_phrases(saved, CONTEXT)


def test_unwritable_file_is_an_error_with_its_path(tmp_path):
    with pytest.raises(InvalidInputError, match=r"none/a' cannot be written"):
        save_phrases(tmp_path / "none" / "a", PHRASES, None)


def test_text_is_tokenised_with_and_without_a_leading_space():
    assert tokenise(Source("here", "ab"), CONTEXT) == [letters("ab"), letters(" ab")]
    assert tokenise(Source("here", " ab"), CONTEXT) == [letters(" ab"), letters("ab")]
    assert tokenise(Source("here", (1, 2)), CONTEXT) == [[1, 2]]
