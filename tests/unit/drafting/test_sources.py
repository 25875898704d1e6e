"""Texts and token ids from options and files, and errors that say where."""

import json

import pytest

from cera_core.drafting.sources import Source, given_sources, read_sources
from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext


def contents(path, **how):
    return [source.content for source in read_sources(path, **how)]


def test_plain_file_is_one_text_or_one_a_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\n\r\n  two \nthree".encode())
    assert contents(path, one_a_line=False) == ["one\n\n  two \nthree"]
    assert contents(path, one_a_line=True) == ["one", "  two ", "three"]
    assert read_sources(path, one_a_line=True)[1].place == f"{path}, line 3"


def test_json_lines_hold_texts_and_token_ids(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = ["a\nb", [1, 2], {"text": "c", "note": 1}, {"token_ids": [3]}]
    path.write_text("\n\n".join(json.dumps(line) for line in lines))
    assert contents(path, one_a_line=True) == contents(path, one_a_line=False) == ["a\nb", (1, 2), "c", (3,)]


def test_empty_file_holds_nothing(tmp_path):
    (tmp_path / "a.txt").write_text("")
    assert contents(tmp_path / "a.txt", one_a_line=False) == contents(tmp_path / "a.txt", one_a_line=True) == []


@pytest.mark.parametrize(
    "line",
    ["3", "null", '""', "[]", "[1, true]", "[1.5]", '["a"]', "{}", '{"text": "a", "token_ids": [1]}', '{"text": ""}'],
)
def test_line_of_another_form_is_an_error_with_its_number(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_text(f'"good"\n\n{line}\n')
    with pytest.raises(InvalidInputError) as error:
        read_sources(path, one_a_line=True)
    assert str(error.value).startswith(f"{path}, line 3: must be a JSON string")
    assert f"found {line}." in str(error.value)


def test_line_that_is_no_json_is_an_error_with_its_number(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('"good"\n{"text": \n')
    with pytest.raises(InvalidInputError, match=r"a\.jsonl, line 2, column \d+: must be JSON"):
        read_sources(path, one_a_line=True)


def test_file_that_is_no_utf8_is_an_error_with_the_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nb\xffd\n")
    with pytest.raises(InvalidInputError, match=r"a\.txt, line 2: .* byte 0xff"):
        read_sources(path, one_a_line=True)


def test_missing_file_and_directory_are_errors_with_the_path(tmp_path):
    with pytest.raises(InvalidInputError, match=r"none\.txt' cannot be read: No such file"):
        read_sources(tmp_path / "none.txt", one_a_line=True)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read_sources(tmp_path, one_a_line=True)


def test_empty_value_of_an_option_is_an_error():
    assert [source.place for source in given_sources("texts", ["a", (1,)])] == ["texts[0]", "texts[1]"]
    with pytest.raises(InvalidInputError, match=r"texts\[1\] must not be empty"):
        given_sources("texts", ["a", ""])


@pytest.mark.parametrize("token_id", [-1, 300, 1 << 40])
def test_token_id_outside_the_vocabulary_is_an_error(token_id):
    with pytest.raises(InvalidInputError, match=rf"here: token ids must be in 0\.\.299, found {token_id}"):
        Source("here", (1, token_id)).token_ids(DrafterContext(vocab_size=300))


def test_without_a_known_vocabulary_ids_are_32_bit():
    assert Source("here", (1, 262_143)).token_ids(DrafterContext()) == [1, 262_143]
    with pytest.raises(InvalidInputError, match="token ids must be in"):
        Source("here", (1 << 31,)).token_ids(DrafterContext())
