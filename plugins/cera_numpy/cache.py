"""The key/value cache of one session, in memory that grows with the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cera_core.model import InferenceState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cera_numpy.weights import Floats

PAGE_LENGTH = 128


class LayerCache:
    """Keys and values of one layer in pages, float32[kv_heads, pages, PAGE_LENGTH, head_dim] each.

    Values past the last token are finite, whatever was written there before: attention gives them no weight, and no
    weight times infinity would be undefined.
    """

    def __init__(self, num_kv_heads: int, head_dim: int) -> None:
        self._keys = np.zeros((num_kv_heads, 0, PAGE_LENGTH, head_dim), np.float32)
        self._values = self._keys
        self._num_written = 0

    def reserve(self, length: int, most: int) -> None:
        """Makes room for `length` tokens; where that means growing, for half as much again, but never beyond `most`."""
        if length > self._keys.shape[1] * PAGE_LENGTH:
            num_pages = min(max(_num_pages(length), self._keys.shape[1] * 3 // 2), _num_pages(most))
            keys, values = _with_pages(self._keys, num_pages), _with_pages(self._values, num_pages)
            self._keys, self._values = keys, values

    def write(self, start: int, keys: Floats, values: Floats) -> None:
        """Stores the keys and values of the tokens from position `start` on, float32[n, kv_heads, head_dim] each."""
        stop = start + len(keys)
        _flat(self._keys)[:, start:stop] = keys.transpose(1, 0, 2)
        flat_values = _flat(self._values)
        flat_values[:, start:stop] = values.transpose(1, 0, 2)
        flat_values[:, stop : self._num_written] = 0.0
        self._num_written = stop

    def pages(self, length: int) -> tuple[Floats, Floats]:
        """Returns the pages of keys and of values that the first `length` tokens are on."""
        num_pages = _num_pages(length)
        return self._keys[:, :num_pages], self._values[:, :num_pages]

    def copy(self) -> LayerCache:
        """Makes an independent cache with the same tokens."""
        num_kv_heads, _, _, head_dim = self._keys.shape
        new = LayerCache(num_kv_heads, head_dim)
        new._keys, new._values, new._num_written = self._keys.copy(), self._values.copy(), self._num_written
        return new


class NumpyState(InferenceState):
    """The caches of all layers. What they hold past `seq_len` tokens is left over and never seen."""

    def __init__(self, max_seq_len: int, layers: Sequence[LayerCache]) -> None:
        super().__init__(max_seq_len)
        self.layers = layers

    def reserve(self, length: int) -> None:
        """Makes room for `length` tokens in all."""
        for layer in self.layers:
            layer.reserve(length, self.max_seq_len)

    def copy(self) -> NumpyState:
        """Makes an independent state with the same tokens."""
        state = NumpyState(self.max_seq_len, [layer.copy() for layer in self.layers])
        state.seq_len = self.seq_len
        return state


def _num_pages(length: int) -> int:
    return -(-length // PAGE_LENGTH)


def _flat(pages: Floats) -> Floats:
    """Returns a view with the tokens of all pages in one row, [kv_heads, tokens, head_dim]."""
    num_kv_heads, _, _, head_dim = pages.shape
    return pages.reshape(num_kv_heads, -1, head_dim)


def _with_pages(pages: Floats, num_pages: int) -> Floats:
    """Returns a copy with more pages, the new ones zeros."""
    grown = np.zeros((pages.shape[0], num_pages, *pages.shape[2:]), np.float32)
    grown[:, : pages.shape[1]] = pages
    return grown
