"""Which files are read, and how their text comes in pieces."""

import os
import tracemalloc
from collections import Counter

import pytest

from cera_core.drafting.corpora import documents
from cera_core.drafting.corpora.documents import NotTextError, find_files
from cera_core.errors import InvalidInputError


def pieces_of(path):
    ((file,), _) = find_files([path])
    return list(file.pieces())


def texts_of(path):
    return [piece.source.content for piece in pieces_of(path)]


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.md", "sub/c.txt", ".hidden.txt", ".git/d.txt"):
        path = tmp_path / "docs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="utf-8")
    return tmp_path / "docs"


def test_files_of_a_folder_are_found_in_order_and_hidden_ones_counted(folder):
    files, skipped = find_files([folder])
    assert [file.name for file in files] == ["a.md", "b.txt", "sub/c.txt"]
    assert skipped == Counter({"hidden": 2})


def test_suffixes_choose_in_folders_but_not_among_named_files(folder):
    files, skipped = find_files([folder, folder / ".hidden.txt"], [".md"])
    assert [file.name for file in files] == ["a.md", ".hidden.txt"]
    assert skipped == Counter({"hidden": 2, "another suffix": 2})


def test_what_is_no_file_is_left_out(folder):
    (folder / "broken").symlink_to(folder / "nowhere")
    os.mkfifo(folder / "pipe")
    assert len(find_files([folder])[0]) == 3


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="missing' cannot be read: No such file"):
        find_files([tmp_path / "missing"])


def test_long_text_is_cut_before_lines_that_are_not_indented(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "_BLOCK_CHARACTERS", 20)
    monkeypatch.setattr(documents, "_MAX_PIECE_CHARACTERS", 60)
    text = "def one():\n    return 1\n\n\ndef two():\r\n    return 2\n" + "é" * 200 + "\nend\n"
    path = tmp_path / "a.py"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    texts = texts_of(path)
    assert "".join(texts) == text.replace("\r\n", "\n")
    assert len(texts) > 4
    assert max(map(len, texts)) <= 60
    assert all(not piece[0].isspace() for piece in texts)
    assert pieces_of(path)[-1].num_bytes_read == path.stat().st_size


def test_reading_takes_the_same_memory_however_long_the_text(tmp_path):
    path = tmp_path / "long.txt"
    path.write_text("a line of text\n" * 300_000, encoding="utf-8")
    ((file,), _) = find_files([path])
    tracemalloc.start()
    num_characters = sum(len(piece.source.content) for piece in file.pieces())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert num_characters == 15 * 300_000
    assert peak < num_characters / 4


@pytest.mark.parametrize("content", [b"text\0text", b"\xff\xfea\0b\0", b"caf\xe9"])
def test_what_is_no_utf8_is_no_text(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(NotTextError):
        pieces_of(path)


def test_each_line_of_json_is_a_document(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('"one"\n\n{"text": "two"}\n[1, 2]\n', encoding="utf-8")
    found = pieces_of(path)
    assert [piece.document for piece in found] == ["a.jsonl, line 1", "a.jsonl, line 3", "a.jsonl, line 4"]
    assert [piece.source.content for piece in found] == ["one", "two", (1, 2)]


def test_malformed_line_is_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('"one"\n{"txt": 1}\n', encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"a\.jsonl, line 2: must be a JSON string"):
        pieces_of(path)


def test_file_that_cannot_be_read_is_named(tmp_path):
    path = tmp_path / "a.txt"
    path.touch()
    ((file,), _) = find_files([path])
    path.unlink()
    with pytest.raises(InvalidInputError, match=r"a\.txt' cannot be read: No such file"):
        list(file.pieces())
