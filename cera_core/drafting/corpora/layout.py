"""How the file of a corpus is laid out, for those who write one and those who open one.

A file begins with 16 bytes that say what it is and then, as 32-bit integers, the format version, the length and the
checksum of the header, and zero. The header is JSON. The tables follow at the next multiple of 64 bytes, in the order
of `table_sizes`: little-endian 32-bit integers, and at last the names of the documents in UTF-8.
"""

from __future__ import annotations

import struct
import zlib

from pydantic import BaseModel, ConfigDict, Field, ValidationError

FORMAT_VERSION = 1
MAGIC = b"cera corpus\0\r\n\x1a\n"
MAX_PLACES = 2**31 - 1  # tokens and separators, as places are 32-bit integers
_START = struct.Struct("<16sIIII")
_TABLE_ALIGNMENT = 64
_MAX_HEADER_BYTES = 4096


class LayoutError(Exception):
    """What is wrong with a file, as the end of a sentence that began with its name."""


class CorpusHeader(BaseModel):
    """What a corpus says of itself.

    Attributes:
        tokenizer: The fingerprint of the tokenizer that made its tokens.
        vocab_size: Token ids are below it.
        num_tokens: How many tokens its documents have.
        num_documents: How many documents there are.
        num_name_bytes: The length of their names.
        checksum: CRC-32 of the tables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tokenizer: str = Field(max_length=256)
    vocab_size: int = Field(ge=1, le=MAX_PLACES)
    num_tokens: int = Field(ge=1, le=MAX_PLACES)
    num_documents: int = Field(ge=1, le=MAX_PLACES)
    num_name_bytes: int = Field(ge=0, le=MAX_PLACES)
    checksum: int = Field(ge=0, lt=2**32)

    @property
    def table_sizes(self) -> tuple[int, ...]:
        """The sizes in bytes of tokens, order, bounds, starts, ends of names, and names."""
        num_places = self.num_tokens + self.num_documents + 1  # a separator before, between and after the documents
        counts = (num_places, self.num_tokens, self.vocab_size + 1, self.num_documents, self.num_documents)
        return (*(4 * count for count in counts), self.num_name_bytes)


def header_bytes(header: CorpusHeader) -> bytes:
    """Returns what stands before the tables, padded to where they begin."""
    text = header.model_dump_json().encode()
    start = _START.pack(MAGIC, FORMAT_VERSION, len(text), zlib.crc32(text), 0)
    return start + text + bytes(-(len(start) + len(text)) % _TABLE_ALIGNMENT)


def parsed_header(content: memoryview) -> tuple[CorpusHeader, int]:
    """Reads the header of a file, whatever its bytes.

    Returns:
        The header, and where the tables begin.

    Raises:
        LayoutError: It is no corpus, of another version, or not of the size that the header says.
    """
    if content[: len(MAGIC)] != MAGIC:
        raise LayoutError("must be a file that 'cera corpus build' wrote, and is none")
    if len(content) < _START.size:
        raise LayoutError(f"is cut off after {len(content)} bytes")
    _, version, length, checksum, _ = _START.unpack_from(content)
    if version != FORMAT_VERSION:
        raise LayoutError(f"must have format version {FORMAT_VERSION}, found {version}")
    text = bytes(content[_START.size : _START.size + min(length, _MAX_HEADER_BYTES)])
    if len(text) != length or zlib.crc32(text) != checksum:
        raise LayoutError("has a damaged header")
    try:
        header = CorpusHeader.model_validate_json(text)
    except ValidationError as error:
        raise LayoutError("has a header that cannot be read") from error
    offset = len(header_bytes(header))
    if len(content) != offset + sum(header.table_sizes):
        raise LayoutError(f"must have {offset + sum(header.table_sizes)} bytes, found {len(content)}")
    return header, offset
