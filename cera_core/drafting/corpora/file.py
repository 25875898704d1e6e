"""An open corpus: the header is read and checked, the tables are read where they lie.

What a search does not touch is not read, and processes that use one corpus share its memory. This module does not know
how a corpus is searched.
"""

from __future__ import annotations

import mmap
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from cera_core.drafting.corpora.layout import CorpusHeader, LayoutError, parsed_header
from cera_core.errors import InvalidInputError

REMEDY = "Build it with 'cera corpus build'."


class Corpus:
    """A corpus, read-only and shared by all sessions; made by `open_corpus`.

    The tables are not checked when it is opened, as that would read all of them. So each value in them must be taken
    as any 32-bit integer; an index outside a table raises `IndexError`, as in a list.

    Attributes:
        path: Where the file is.
        header: What it says of itself.
        tokens: All documents, with a separator (-1) before, between and after them.
        order: The places of all tokens, sorted by the tokens that end there, read backwards.
        bounds: For each token where its places begin in `order`, and at last where they end.
    """

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self.path = path
        self._mapped = mapped
        self.header: CorpusHeader
        self.header, offset = parsed_header(memoryview(mapped))
        self._tables = memoryview(mapped)[offset:]
        *numbers, self._names = _split(self._tables, self.header.table_sizes)
        self.tokens, self.order, self.bounds, self._starts, self._name_ends = (table.cast("i") for table in numbers)

    @property
    def num_mapped_bytes(self) -> int:
        """The size of the file: memory that the system gives where it is read, and takes back as it needs."""
        return len(self._mapped)

    def is_whole(self) -> bool:
        """Returns whether the file still has the size it was opened with; costs a system call.

        A file whose place another took is whole, as it stays there for those who have it open. One that is written
        over is not, and to read a page that is no longer there would end the process (SIGBUS).
        """
        return self._mapped.size() == len(self._mapped)

    def source(self, start: int, stop: int) -> str:
        """Says, for people, where a span of `tokens` stands: `NAME[12:20]`, counted from the start of the document."""
        document = bisect_right(self._starts, start) - 1
        name = self._name(document)
        return f"{name}[{start - self._starts[document]}:{stop - self._starts[document]}]"

    def check_content(self) -> None:
        """Reads the whole file and compares it with its checksum.

        Raises:
            InvalidInputError: It is damaged.
        """
        checksum = zlib.crc32(self._tables)
        if checksum != self.header.checksum:
            raise InvalidInputError(
                f"Corpus '{self.path}' must have the checksum {self.header.checksum:08x}, found {checksum:08x}: it is "
                f"damaged. {REMEDY}"
            )

    def _name(self, document: int) -> str:
        start = self._name_ends[document - 1] if document > 0 else 0
        return bytes(self._names[start : self._name_ends[document]]).decode("utf-8", "replace")


def open_corpus(path: Path, tokenizer_fingerprint: str | None = None) -> Corpus:
    """Opens a corpus; takes a millisecond, whatever its size.

    Args:
        path: The file.
        tokenizer_fingerprint: The tokenizer it must have been built with; None if nobody knows.

    Raises:
        InvalidInputError: It cannot be read, is no corpus of this version or cut off, or was built with another
            tokenizer.
    """
    try:
        with path.open("rb") as file:
            if not path.is_file() or not os.fstat(file.fileno()).st_size:
                raise LayoutError("must be a file with something in it, and is none")
            corpus = Corpus(path, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise InvalidInputError(f"Corpus '{path}' cannot be read: {error.strerror}. Check the path.") from error
    except LayoutError as error:
        raise InvalidInputError(f"Corpus '{path}' {error}. {REMEDY}") from error
    built_with = corpus.header.tokenizer
    if tokenizer_fingerprint is not None and built_with != tokenizer_fingerprint:
        raise InvalidInputError(
            f"Corpus '{path}' must be built with the tokenizer {tokenizer_fingerprint[:12]}, found one built with "
            f"{built_with[:12]}. Build it anew with '--model' and the model it is used with."
        )
    return corpus


def _split(tables: memoryview, sizes: Sequence[int]) -> Iterator[memoryview]:
    for size in sizes:
        yield tables[:size]
        tables = tables[size:]
