"""The documents of a corpus: text files in folders, read piece by piece, and lines of JSON.

This module does not know what becomes of them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TextIO

from cera_core.drafting.sources import JSON_LINES_SUFFIXES, Source, parse_json_line
from cera_core.errors import InvalidInputError

HIDDEN, OTHER_SUFFIX, NOT_TEXT, EMPTY = "hidden", "another suffix", "not text", "empty"
"""Why a file is skipped."""
_BLOCK_CHARACTERS = 1 << 16
_MAX_PIECE_CHARACTERS = 1 << 18


class Piece(NamedTuple):
    """A part of a document.

    Attributes:
        document: The name of the document; pieces of one name that follow one another are one document.
        source: Text or token ids.
        num_bytes_read: How far in its file the reader is.
    """

    document: str
    source: Source
    num_bytes_read: int


class NotTextError(Exception):
    """A file is no UTF-8 text."""


class DocumentFile(NamedTuple):
    """A file to read documents from.

    Attributes:
        path: Where it is.
        name: What it is called in the corpus.
        size: Its bytes.
        is_named: The caller named it and did not find it in a folder, so it may not be skipped.
    """

    path: Path
    name: str
    size: int
    is_named: bool

    def pieces(self) -> Iterator[Piece]:
        """Reads the file with bounded memory; a JSON line is read as a whole.

        Raises:
            NotTextError: It is no UTF-8 text, which may show only after some pieces.
            InvalidInputError: It cannot be read, or a line is no JSON of the form that `read_sources` says.
        """
        is_json = self.path.suffix.lower() in JSON_LINES_SUFFIXES
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                yield from self._json_pieces(file) if is_json else self._text_pieces(file)
        except OSError as error:
            raise InvalidInputError(f"'{self.path}' cannot be read: {error.strerror}. Check the file.") from error
        except UnicodeDecodeError as error:
            raise NotTextError from error

    def _text_pieces(self, file: TextIO) -> Iterator[Piece]:
        for text in _cut(_blocks(file)):
            yield Piece(self.name, Source(str(self.path), text), file.buffer.tell())

    def _json_pieces(self, file: TextIO) -> Iterator[Piece]:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            source = parse_json_line(line, f"{self.path}, line {number}")
            document = f"{self.name}, line {number}"
            if not isinstance(source.content, str):
                yield Piece(document, source, file.buffer.tell())
                continue
            for text in _cut([source.content]):
                yield Piece(document, Source(source.place, text), file.buffer.tell())


def find_files(paths: Iterable[Path], suffixes: Collection[str] = ()) -> tuple[list[DocumentFile], Counter[str]]:
    """Finds the files to read, in folders and what is below them; the files of a folder are in the order of names.

    Links to folders are not followed.

    Args:
        paths: Folders, and files that are taken whatever their name.
        suffixes: In folders, take only files whose name ends in one of these; none stands for all.

    Returns:
        The files, and for each reason how many were skipped.

    Raises:
        InvalidInputError: A path or a folder cannot be read.
    """
    files: list[DocumentFile] = []
    skipped: Counter[str] = Counter()
    for path in paths:
        if path.is_file():
            files.append(DocumentFile(path, path.name, path.stat().st_size, is_named=True))
            continue
        for found in _files_below(path, skipped):
            if suffixes and not found.name.endswith(tuple(suffixes)):
                skipped[OTHER_SUFFIX] += 1
            else:
                name = found.relative_to(path).as_posix()
                files.append(DocumentFile(found, name, found.stat().st_size, is_named=False))
    return files, skipped


def _files_below(folder: Path, skipped: Counter[str]) -> Iterator[Path]:
    """Yields the files that are not hidden; a hidden folder counts as one."""
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        skipped[HIDDEN] += sum(name.startswith(".") for name in (*folders, *names))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _refuse(error: OSError) -> None:
    raise InvalidInputError(f"'{error.filename}' cannot be read: {error.strerror}. Check the path.") from error


def _blocks(file: TextIO) -> Iterator[str]:
    """Yields the text of a file; raises for a zero byte, which no text has."""
    while block := file.read(_BLOCK_CHARACTERS):
        if "\0" in block:
            raise NotTextError
        yield block


def _cut(blocks: Iterable[str]) -> Iterator[str]:
    """Joins blocks and cuts them before lines that are not indented, where tokens hardly ever cross.

    A tokenizer takes some hundred bytes for each token of what it is given at once.
    """
    rest = ""
    for block in blocks:
        rest += block
        while len(rest) >= _BLOCK_CHARACTERS and (place := _last_cut(rest[:_MAX_PIECE_CHARACTERS])):
            yield rest[:place]
            rest = rest[place:]
    if rest:
        yield rest


def _last_cut(text: str) -> int:
    """Returns where the last line begins that is not indented; 0 to wait for more."""
    place = text.rfind("\n", 0, -1)
    while place > 0 and text[place + 1].isspace():
        place = text.rfind("\n", 0, place)
    if place > 0:
        return place + 1
    return len(text) if len(text) == _MAX_PIECE_CHARACTERS else 0
