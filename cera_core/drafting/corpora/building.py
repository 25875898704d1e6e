"""Builds a corpus: reads documents, tokenises them, orders their places, writes the file in one step.

Takes memory for the tokens and their order, about 50 bytes a token, and for one piece of a document at a time.
"""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np

from cera_core.drafting.corpora.documents import EMPTY, NOT_TEXT, DocumentFile, NotTextError, find_files
from cera_core.drafting.corpora.layout import MAX_PLACES, CorpusHeader, header_bytes
from cera_core.drafting.corpora.ordering import NUM_ROUNDS, SEPARATOR, bounds_by_token, order_by_ends
from cera_core.errors import InvalidInputError
from cera_core.files import replacing
from cera_core.specs import DrafterContext

Progress: TypeAlias = Callable[[int, int, str], None]
"""Is told how much of a step is done and how much there is to do, in bytes or rounds, and what it is, for people."""


def no_progress(done: int, total: int, step: str) -> None:
    """Shows nothing."""


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What became of the files.

    Attributes:
        header: What the corpus says of itself.
        num_files: Files whose documents are in it.
        skipped: For each reason how many files are not.
    """

    header: CorpusHeader
    num_files: int
    skipped: Counter[str]


class CorpusTables:
    """The documents of a corpus in the making."""

    def __init__(self) -> None:
        self.tokens = array("i", [SEPARATOR])
        self.starts = array("i")
        self.name_ends = array("i")
        self.names = bytearray()

    def begin(self, document: str) -> None:
        """Begins a document."""
        self.starts.append(len(self.tokens))
        self.names += document.encode("utf-8", "replace")
        self.name_ends.append(len(self.names))

    def extend(self, token_ids: Sequence[int]) -> None:
        """Adds tokens to the document that was begun last."""
        self.tokens.extend(token_ids)
        if max(len(self.tokens), len(self.names)) >= MAX_PLACES:
            raise InvalidInputError(
                f"A corpus must have fewer than {MAX_PLACES} tokens, found more. Build several, and name them all."
            )

    def end(self) -> None:
        """Ends a document."""
        self.tokens.append(SEPARATOR)

    def cut(self, num_documents: int) -> None:
        """Keeps the first documents only."""
        if num_documents < len(self.starts):
            del self.tokens[self.starts[num_documents] :]
            del self.starts[num_documents:]
            del self.name_ends[num_documents:]
            del self.names[self.name_ends[-1] if self.name_ends else 0 :]


def build_corpus(
    paths: Sequence[Path],
    output: Path,
    context: DrafterContext,
    *,
    suffixes: Collection[str] = (),
    progress: Progress = no_progress,
) -> BuildReport:
    """Builds a corpus of files, and of the files in folders and below them.

    Each text file is a document, and each line of a file of JSON lines (`cera_core.drafting.sources`). The output is
    replaced when all is done, and else stays as it was.

    Args:
        paths: Folders and files.
        output: The file to make or replace.
        context: The tokenizer.
        suffixes: In folders, take only files whose name ends in one of these; none stands for all.
        progress: Is told how far it is.

    Raises:
        InvalidInputError: Something cannot be read or written, there is nothing in it, or there is too much.
    """
    files, skipped = find_files(paths, suffixes)
    try:
        with replacing(output) as file:
            tables, num_files = _read(files, skipped, context, progress)
            if not tables.starts:
                places = ", ".join(f"'{path}'" for path in paths)
                raise InvalidInputError(
                    f"A corpus must have text, and none was found in {places}{_reasons(skipped)}. Check the folder and "
                    "'--suffix'."
                )
            header = write_tables(file, tables, context, progress)
    except OSError as error:
        raise InvalidInputError(f"'{output}' cannot be written: {error.strerror}. Check the path.") from error
    return BuildReport(header, num_files, +skipped)


def write_tables(
    file: BinaryIO, tables: CorpusTables, context: DrafterContext, progress: Progress = no_progress
) -> CorpusHeader:
    """Orders the places of a corpus and writes the whole file."""

    def show(done: int) -> None:
        progress(done, NUM_ROUNDS, "ordering")

    show(0)
    vocab_size = context.vocab_size or max(tables.tokens) + 1
    tokens = np.frombuffer(tables.tokens, dtype=np.int32)
    order = order_by_ends(tokens, show)
    contents = (
        tokens.data,
        order.data,
        bounds_by_token(tokens, vocab_size).data,
        memoryview(tables.starts),
        memoryview(tables.name_ends),
        memoryview(tables.names),
    )
    checksum = 0
    for content in contents:
        checksum = zlib.crc32(content, checksum)
    header = CorpusHeader(
        tokenizer=context.tokenizer_fingerprint or "",
        vocab_size=vocab_size,
        num_tokens=len(order),
        num_documents=len(tables.starts),
        num_name_bytes=len(tables.names),
        checksum=checksum,
    )
    file.write(header_bytes(header))
    for content in contents:
        file.write(content)
    return header


def _read(
    files: Sequence[DocumentFile], skipped: Counter[str], context: DrafterContext, progress: Progress
) -> tuple[CorpusTables, int]:
    """Reads and tokenises all files; returns them, and how many were of use."""
    tables = CorpusTables()
    total = sum(file.size for file in files)
    num_files = num_bytes = 0
    for file in files:
        progress(num_bytes, total, file.name)
        num_documents = len(tables.starts)
        try:
            for num_bytes_read in _read_file(file, tables, context):
                progress(num_bytes + min(num_bytes_read, file.size), total, file.name)
        except NotTextError as error:
            if file.is_named:
                raise InvalidInputError(f"'{file.path}' must be UTF-8 text, and is not. Convert it.") from error
            tables.cut(num_documents)
            skipped[NOT_TEXT] += 1
        else:
            is_used = len(tables.starts) > num_documents
            num_files += is_used
            skipped[EMPTY] += not is_used
        num_bytes += file.size
    return tables, num_files


def _read_file(file: DocumentFile, tables: CorpusTables, context: DrafterContext) -> Iterator[int]:
    """Adds the documents of a file; yields how many bytes of it are read."""
    document = None
    for piece in file.pieces():
        token_ids = piece.source.token_ids(context)
        if not token_ids:
            continue
        if piece.document != document:
            if document is not None:
                tables.end()
            document = piece.document
            tables.begin(document)
        tables.extend(token_ids)
        yield piece.num_bytes_read
    if document is not None:
        tables.end()


def _reasons(skipped: Counter[str]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted((+skipped).items()))
    return f" (skipped: {reasons})" if reasons else ""
