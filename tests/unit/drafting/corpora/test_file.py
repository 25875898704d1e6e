"""An open corpus, and what is refused."""

import os
import struct
import zlib

import pytest

from cera_core.drafting.corpora.file import open_corpus
from cera_core.drafting.corpora.layout import MAGIC
from cera_core.errors import InvalidInputError
from support.corpora import write_corpus


@pytest.fixture
def path(tmp_path):
    return write_corpus(tmp_path / "a.corpus", {"one": [1, 2, 3], "two": [1, 2]}, "mine", 9)


def with_header(path, old, new):
    """Changes the text of the header, and its checksum."""
    content = path.read_bytes()
    (length,) = struct.unpack_from("<I", content, 20)
    text = content[32 : 32 + length].replace(old, new)
    assert text != content[32 : 32 + length]
    start = struct.pack("<16sIIII", MAGIC, 1, len(text), zlib.crc32(text), 0)
    path.write_bytes((start + text).ljust(32 + length, b"\0") + content[32 + length :])


def test_tables_are_where_they_were_written(path):
    corpus = open_corpus(path, "mine")
    assert corpus.tokens.tolist() == [-1, 1, 2, 3, -1, 1, 2, -1]
    assert corpus.order.tolist() == [1, 5, 2, 6, 3]
    assert corpus.bounds.tolist() == [0, 0, 2, 4, 5, 5, 5, 5, 5, 5]
    assert [corpus.source(1, 4), corpus.source(6, 7)] == ["one[0:3]", "two[1:2]"]
    assert corpus.num_mapped_bytes == path.stat().st_size


def test_another_tokenizer_is_refused_with_the_remedy(path):
    with pytest.raises(
        InvalidInputError, match=r"built with the tokenizer yours, found one built with mine\. Build it"
    ):
        open_corpus(path, "yours")


def test_another_version_is_refused(path):
    content = bytearray(path.read_bytes())
    content[16] = 2
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"must have format version 1, found 2. Build it"):
        open_corpus(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "must be a file with something in it"),
        (b"GGUF" * 20, "must be a file that 'cera corpus build' wrote"),
        (MAGIC, "is cut off after 16 bytes"),
        (MAGIC + bytes(64), "must have format version 1, found 0"),
        (MAGIC + struct.pack("<IIII", 1, 2**32 - 1, 0, 0), "has a damaged header"),
        (MAGIC + struct.pack("<IIII", 1, 2, zlib.crc32(b"{}"), 0) + b"{}", "has a header that cannot be read"),
    ],
)
def test_what_is_no_corpus_is_refused(path, content, complaint):
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=complaint):
        open_corpus(path)


def test_paths_that_are_no_file_are_refused(path, tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        open_corpus(tmp_path / "missing")
    with pytest.raises(InvalidInputError, match="cannot be read: Is a directory"):
        open_corpus(tmp_path)


def test_every_length_but_the_whole_is_refused(path):
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(InvalidInputError):
            open_corpus(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(InvalidInputError, match=f"must have {len(content)} bytes, found {len(content) + 1}"):
        open_corpus(path)


@pytest.mark.parametrize("number", [b"-1", b"0", b"2147483647", b"99999999999999999999", b'"5"', b"5.5"])
def test_numbers_that_do_not_fit_are_refused(path, number):
    with_header(path, b'"num_tokens":5', b'"num_tokens":' + number)
    with pytest.raises(InvalidInputError, match=r"has a header that cannot be read|must have \d+ bytes"):
        open_corpus(path)


def test_damage_inside_is_found_by_the_checksum(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"must have the checksum .* it is damaged. Build it"):
        open_corpus(path).check_content()


def test_file_that_is_written_over_is_noticed(path):
    corpus = open_corpus(path)
    assert corpus.is_whole()
    os.truncate(path, 10)
    assert not corpus.is_whole()
