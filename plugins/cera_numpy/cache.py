"""What a session adds to a model: keys and values of each attention, what each short convolution still sees.

Nothing a forward writes here is seen before the state's length says so, and nothing the old length needs is overwritten
before, so that a forward that fails half-way changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import ModelError
from cera_core.model import InferenceState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cera_numpy.weights import Floats

PAGE_LENGTH = 128
_NEVER_WRITTEN = -1


class LayerCache:
    """Keys and values of one layer in pages, float32[kv_heads, pages, PAGE_LENGTH, head_dim] each.

    Values past the last token are finite, whatever was written there before: attention gives them no weight, and no
    weight times infinity would be undefined.
    """

    def __init__(self, num_kv_heads: int, head_dim: int, window: int | None = None) -> None:
        """Makes an empty cache; with a window, pages no token to come can see are given up when it grows."""
        self._keys = np.zeros((num_kv_heads, 0, PAGE_LENGTH, head_dim), np.float32)
        self._values = self._keys
        self._first_page = 0
        self._num_written = 0
        self._window = window

    def reserve(self, length: int, most: int, oldest: int = 0) -> None:
        """Makes room for `length` tokens; where that means growing, for half as much again, but never beyond `most`.

        The state is never cut below `oldest` tokens.
        """
        num_pages = self._keys.shape[1]
        if _num_pages(length) <= self._first_page + num_pages:
            return
        first = self._first_page
        if self._window is not None:
            first = max(first, (oldest + 1 - self._window) // PAGE_LENGTH)
        num_needed = _num_pages(length) - first
        num_more = num_pages if self._window is None else num_needed
        capacity = min(max(num_needed, num_more * 3 // 2), _num_pages(most) - first)
        keys, values = (_moved(old, first - self._first_page, capacity) for old in (self._keys, self._values))
        self._keys, self._values, self._first_page = keys, values, first

    def write(self, start: int, keys: Floats, values: Floats) -> None:
        """Stores the keys and values of the tokens from position `start` on, float32[n, kv_heads, head_dim] each."""
        offset = self._first_page * PAGE_LENGTH
        stop = start + len(keys)
        _flat(self._keys)[:, start - offset : stop - offset] = keys.transpose(1, 0, 2)
        flat_values = _flat(self._values)
        flat_values[:, start - offset : stop - offset] = values.transpose(1, 0, 2)
        flat_values[:, stop - offset : max(0, self._num_written - offset)] = 0.0
        self._num_written = stop

    def pages(self, length: int, start: int = 0) -> tuple[Floats, Floats]:
        """Returns the pages of keys and of values that the tokens from `start` to `length` are on.

        Raises:
            ModelError: Some of them were given up.
        """
        first = start // PAGE_LENGTH - self._first_page
        if first < 0:
            raise lost(f"the keys of position {start}")
        stop = _num_pages(length) - self._first_page
        return self._keys[:, first:stop], self._values[:, first:stop]

    def copy(self) -> LayerCache:
        """Makes an independent cache with the same tokens."""
        num_kv_heads, _, _, head_dim = self._keys.shape
        new = LayerCache(num_kv_heads, head_dim, self._window)
        new._keys, new._values = self._keys.copy(), self._values.copy()
        new._first_page, new._num_written = self._first_page, self._num_written
        return new


class ConvolutionCache:
    """What went into one short convolution lately, float32[hidden_size] a token, in a ring.

    Each entry is tagged with its position, and the convolution's state at any length is the entries just before it. A
    ring holds twice what can be asked for: what a forward writes displaces nothing the length before it needs.
    """

    def __init__(self, num_taps: int, hidden_size: int, headroom: int) -> None:
        """Makes an empty ring for a state that can go back by `headroom` tokens."""
        self._num_before = num_taps - 1
        self._num_kept = headroom + self._num_before
        self._entries = np.zeros((2 * self._num_kept, hidden_size), np.float32)
        self._positions = np.full(2 * self._num_kept, _NEVER_WRITTEN, np.int64)

    def before(self, length: int) -> Floats:
        """Returns the entries a token at position `length` sees, float32[num_taps - 1, hidden_size].

        Before the text there are zeros: the convolution was trained so.

        Raises:
            ModelError: Some of them are lost.
        """
        positions = np.arange(length - self._num_before, length)
        places = positions % len(self._positions)
        is_lost = (positions >= 0) & (self._positions[places] != positions)
        if is_lost.any():
            raise lost(f"the convolution at position {positions[is_lost][0]}")
        return np.where(positions[:, np.newaxis] >= 0, self._entries[places], np.float32(0.0))

    def write(self, start: int, entries: Floats) -> None:
        """Stores the last of the entries of the tokens from position `start` on, float32[n, hidden_size]."""
        entries, start = entries[-self._num_kept :], start + max(0, len(entries) - self._num_kept)
        positions = np.arange(start, start + len(entries))
        places = positions % len(self._positions)
        self._entries[places] = entries
        self._positions[places] = positions

    def copy(self) -> ConvolutionCache:
        """Makes an independent ring with the same entries."""
        new = object.__new__(ConvolutionCache)
        new._num_before, new._num_kept = self._num_before, self._num_kept
        new._entries, new._positions = self._entries.copy(), self._positions.copy()
        return new


class NumpyState(InferenceState):
    """The caches of all layers. What they hold past `seq_len` tokens is left over and never seen.

    Attributes:
        layers: One cache a layer.
        headroom: How far back the state can go from the longest it was; None for all the way.
        oldest: The smallest length it can be cut to.
    """

    def __init__(
        self, max_seq_len: int, layers: Sequence[LayerCache | ConvolutionCache], headroom: int | None = None
    ) -> None:
        super().__init__(max_seq_len)
        self.layers = layers
        self.headroom = headroom
        self.oldest = 0

    def reserve(self, length: int) -> None:
        """Makes room for `length` tokens in all."""
        for layer in self.layers:
            if isinstance(layer, LayerCache):
                layer.reserve(length, self.max_seq_len, self.oldest)

    def advance(self, entries: Sequence[Floats | None], num_tokens: int) -> None:
        """Makes a forward's tokens part of the state.

        Args:
            entries: What went into each layer's convolution; None for a layer without one.
            num_tokens: How many tokens.
        """
        length = self.seq_len + num_tokens
        layers = []
        for layer, new in zip(self.layers, entries, strict=True):
            if isinstance(layer, ConvolutionCache) and new is not None:
                # Only a long run, as in a prompt, may reach entries that are still needed should this be interrupted.
                layers.append(layer.copy() if self.headroom is None or num_tokens > self.headroom else layer)
                layers[-1].write(self.seq_len, new)
            else:
                layers.append(layer)
        oldest = self.oldest if self.headroom is None else max(self.oldest, length - self.headroom)
        self.layers, self.oldest, self.seq_len = layers, oldest, length

    def copy(self) -> NumpyState:
        """Makes an independent state with the same tokens."""
        state = NumpyState(self.max_seq_len, [layer.copy() for layer in self.layers], self.headroom)
        state.seq_len, state.oldest = self.seq_len, self.oldest
        return state


def lost(what: str) -> ModelError:
    """Makes the error for a state that no longer holds what it must."""
    return ModelError(f"The state has lost {what}, so what follows cannot be computed. Make a new state and feed it.")


def _num_pages(length: int) -> int:
    return -(-length // PAGE_LENGTH)


def _flat(pages: Floats) -> Floats:
    """Returns a view with the tokens of all pages in one row, [kv_heads, tokens, head_dim]."""
    num_kv_heads, _, _, head_dim = pages.shape
    return pages.reshape(num_kv_heads, -1, head_dim)


def _moved(pages: Floats, num_dropped: int, num_pages: int) -> Floats:
    """Returns a copy of so many pages without the first ones, those at the end zeros."""
    moved = np.zeros((pages.shape[0], num_pages, *pages.shape[2:]), np.float32)
    kept = pages[:, num_dropped:]
    moved[:, : kept.shape[1]] = kept
    return moved
