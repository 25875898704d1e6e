"""From files to a corpus, whole or not at all."""

from collections import Counter

import pytest

from cera_core.drafting.corpora import building
from cera_core.drafting.corpora.building import build_corpus
from cera_core.drafting.corpora.file import open_corpus
from cera_core.errors import InvalidInputError
from support.letter_tokenizer import CONTEXT, letters


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.txt").write_text("abc", encoding="utf-8")
    (folder / "b.jsonl").write_text('"de"\n[7, 8]\n', encoding="utf-8")
    (folder / "binary").write_bytes(b"begins well\n" * 9000 + b"\0")
    (folder / "empty.txt").touch()
    return folder


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out" / "docs.corpus"


def build(output, *paths, **options):
    output.parent.mkdir(exist_ok=True)
    return build_corpus(paths, output, CONTEXT, **options)


def test_documents_stand_apart(folder, output):
    report = build(output, folder)
    corpus = open_corpus(output, "letters")
    assert corpus.tokens.tolist() == [-1, *letters("abc"), -1, *letters("de"), -1, 7, 8, -1]
    assert (report.header.num_documents, report.header.num_tokens, report.num_files) == (3, 7, 2)
    assert report.skipped == Counter({"not text": 1, "empty": 1})
    assert corpus.source(2, 4) == "a.txt[1:3]"
    assert corpus.source(8, 10) == "b.jsonl, line 2[0:2]"
    corpus.check_content()


def test_same_files_make_the_same_bytes(folder, output):
    build(output, folder)
    first = output.read_bytes()
    build(output, folder)
    assert output.read_bytes() == first


def test_progress_goes_through_reading_and_ordering(folder, output):
    told = []
    build(output, folder, progress=lambda *told_now: told.append(told_now))
    assert all(0 <= done <= total for done, total, _ in told)
    steps = list(dict.fromkeys(step for _, _, step in told))
    assert steps == ["a.txt", "b.jsonl", "binary", "empty.txt", "ordering"]
    assert told[-1][0] == told[-1][1]


def test_without_text_there_is_no_corpus(folder, output):
    with pytest.raises(InvalidInputError, match=r"must have text.*docs' \(skipped: 4 another suffix\)"):
        build(output, folder, suffixes=[".rst"])
    assert not list(output.parent.iterdir())


def test_named_file_that_is_no_text_is_refused(folder, output):
    with pytest.raises(InvalidInputError, match="binary' must be UTF-8 text"):
        build(output, folder / "binary")


def test_what_was_there_stays_until_all_is_done(folder, output):
    build(output, folder)
    before = output.read_bytes()
    (folder / "c.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"c\.jsonl, line 1"):
        build(output, folder)
    assert output.read_bytes() == before
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_open_corpus_outlives_its_replacement(folder, output):
    build(output, folder)
    corpus = open_corpus(output)
    (folder / "a.txt").write_text("xyz" * 5000, encoding="utf-8")
    build(output, folder)
    assert corpus.is_whole()
    assert corpus.tokens[1:4].tolist() == letters("abc")
    assert open_corpus(output).tokens[1:4].tolist() == letters("xyz")


def test_output_that_cannot_be_written_is_said_before_anything_is_read(folder, tmp_path):
    (folder / "c.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInputError, match="cannot be written: No such file"):
        build_corpus([folder], tmp_path / "nowhere" / "docs.corpus", CONTEXT)


def test_too_many_tokens_are_refused(folder, output, monkeypatch):
    monkeypatch.setattr(building, "MAX_PLACES", 5)
    with pytest.raises(InvalidInputError, match="fewer than 5 tokens"):
        build(output, folder)
