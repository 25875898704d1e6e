"""Reads values one after the other from a file nobody vouches for.

Every length and count is compared with the bytes that are really there before anything is allocated or looped over.
With the limit on the header's length, the worst file costs some 600 MB and two seconds (64 MiB of three-letter
strings). This module knows how numbers and strings are written, not what they stand for.
"""

from __future__ import annotations

import reprlib
from pathlib import Path
from struct import Struct
from typing import Any, Protocol

from cera_core.errors import ModelFileError, UnsupportedModelError

MAX_HEADER_BYTES = 64 << 20  # the largest header seen, half a million merges, takes about 12 MB
MAX_NAME_BYTES = 65_535

UINT32 = Struct("<I")
UINT64 = Struct("<Q")

_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 100
shorten = _REPR.repr


class Buffer(Protocol):
    """Bytes that can be sliced: `bytes` or a memory map."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: slice, /) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...


class Cursor:
    """Reads one value after the other, and never past the end.

    `what` names the value in messages. All methods raise `ModelFileError` for what cannot be true.

    Attributes:
        data: The whole file.
        file_size: Its length in bytes.
        end: Where the header must end at the latest.
        position: The next byte to read.
    """

    def __init__(self, data: Buffer, path: Path) -> None:
        self.data = data
        self.file_size = len(data)
        self.end = min(self.file_size, MAX_HEADER_BYTES)
        self.position = 0
        self._path = path

    def error(self, problem: str) -> ModelFileError:
        """Makes an error that names the file."""
        return ModelFileError(f"Model file {str(self._path)!r}: {problem}")

    def unsupported(self, problem: str) -> UnsupportedModelError:
        """Makes an error for a sound file cera cannot read."""
        return UnsupportedModelError(f"Model file {str(self._path)!r}: {problem}")

    def take(self, num_bytes: int, what: str) -> int:
        """Claims the next bytes and returns where they begin."""
        start = self.position
        if num_bytes > self.end - start:
            raise self._past_the_end(start, num_bytes, what)
        self.position = start + num_bytes
        return start

    def number(self, layout: Struct, what: str) -> Any:
        """Reads one number."""
        return layout.unpack_from(self.data, self.take(layout.size, what))[0]

    def string(self, what: str) -> bytes:
        """Reads a length and as many bytes."""
        length = self.number(UINT64, what)
        start = self.take(length, what)
        return self.data[start : start + length]

    def strings(self, count: int, what: str) -> list[str]:
        """Reads `count` strings; those that are no UTF-8 keep their bytes as lone surrogates.

        Vocabularies have some 150,000 of them, hence one flat loop: 0.3 us a string.
        """
        self.check_count(count, UINT64.size, f"strings in {what}")
        data, end, position = self.data, self.end, self.position
        unpack_length = UINT64.unpack_from
        strings = []
        for _ in range(count):
            start = position + 8
            if start > end:
                raise self._past_the_end(position, 8, what)
            position = start + unpack_length(data, position)[0]
            if position > end:
                raise self._past_the_end(start, position - start, what)
            strings.append(data[start:position].decode("utf-8", "surrogateescape"))
        self.position = position
        return strings

    def name(self, what: str) -> str:
        """Reads the name of a key or tensor, which must be UTF-8."""
        raw = self.string(what)
        if len(raw) > MAX_NAME_BYTES:
            raise self.error(f"{what} must have at most {MAX_NAME_BYTES} bytes, found {len(raw)}.")
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"{what} must be UTF-8, found {shorten(raw)}.") from error

    def check_count(self, count: int, min_bytes: int, what: str, most: int = MAX_HEADER_BYTES) -> None:
        """Refuses a count that cannot be true in the bytes that are left, or is above `most`."""
        room = (self.end - self.position) // min_bytes
        if count > room:
            raise self.error(f"it claims {count} {what}, but {self._limit()} leaves room for at most {room}.")
        if count > most:
            raise self.error(f"it claims {count} {what}, but cera reads at most {most}.")

    def _past_the_end(self, start: int, num_bytes: int, what: str) -> ModelFileError:
        return self.error(
            f"{what} takes {num_bytes} bytes from byte {start} on, which is past {self._limit()}. "
            "The file is truncated or damaged; fetch it again."
        )

    def _limit(self) -> str:
        if self.file_size > self.end:
            return f"the longest header cera reads ({MAX_HEADER_BYTES} bytes)"
        return f"the end of the file ({self.file_size} bytes)"
