"""The token buffer that a session and its drafters share; knows nothing of models or text."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np

_INITIAL_CAPACITY = 1024


class TokenView(Sequence[int]):
    """A read-only look at the first tokens of a history, made in constant time; it never changes.

    A slice is a new list; `numpy.asarray` makes an int32 array without copying.
    """

    __slots__ = ("_tokens", "lineage")

    def __init__(self, tokens: memoryview[int], lineage: object) -> None:
        self._tokens = tokens
        self.lineage = lineage
        """Of two views with the same lineage, the shorter is the beginning of the longer."""

    def __len__(self) -> int:
        return len(self._tokens)

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> list[int]: ...
    def __getitem__(self, key: int | slice) -> int | list[int]:
        if isinstance(key, slice):
            return self._tokens[key].tolist()
        return self._tokens[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return self._tokens.tolist() == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._tokens, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"TokenView({self._tokens.tolist()!r})"


class History:
    """The committed tokens of a session: prompt and emitted.

    What is appended is written behind the views that were lent, never into them; after a truncate that would not hold,
    so there a new buffer begins, at the cost of one copy.
    """

    def __init__(self, token_ids: Iterable[int] = ()) -> None:
        self._buffer = array("i", token_ids)
        self._length = len(self._buffer)
        self._lineage = object()
        self._longest_lent = 0
        self._reserve(_INITIAL_CAPACITY)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> int:
        return self.view()[position]

    def append(self, token_id: int) -> None:
        """Adds one token; constant time on average."""
        if self._length == len(self._buffer):
            self._reserve(2 * self._length)
        self._buffer[self._length] = token_id
        self._length += 1

    def extend(self, token_ids: Sequence[int]) -> None:
        """Adds tokens, all or, if one is no 32-bit integer, none."""
        new_tokens = array("i", token_ids)
        if not new_tokens:
            return  # an array that is lent takes not even nothing
        length = self._length + len(new_tokens)
        if length > len(self._buffer):
            self._reserve(max(length, 2 * self._length))
        self._buffer[self._length : length] = new_tokens
        self._length = length

    def truncate(self, length: int) -> None:
        """Keeps the first `length` tokens."""
        if self._longest_lent > length:
            capacity = len(self._buffer)
            self._buffer = self._buffer[:length]
            self._length = length
            self._reserve(capacity)
            self._lineage = object()
            self._longest_lent = 0
        self._length = length

    def view(self) -> TokenView:
        """Lends all tokens; constant time."""
        self._longest_lent = max(self._longest_lent, self._length)
        return TokenView(self._readonly[: self._length], self._lineage)

    def _reserve(self, capacity: int) -> None:
        """Moves to a new buffer; views of the old one stay as they are."""
        kept = self._buffer[: self._length]
        self._buffer = kept + array("i", bytes(kept.itemsize * max(capacity - self._length, 0)))
        self._readonly: memoryview[int] = memoryview(self._buffer).toreadonly()
