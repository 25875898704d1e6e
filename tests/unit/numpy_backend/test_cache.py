from __future__ import annotations

import numpy as np
import pytest

from cera_numpy.cache import PAGE_LENGTH, LayerCache, NumpyState


def tokens(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((length, 2, 4), np.float32)


def read(cache: LayerCache, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns keys and values in the order they were written in."""
    keys, values = (pages.reshape(2, -1, 4)[:, :length].transpose(1, 0, 2) for pages in cache.pages(length))
    return keys, values


class TestLayerCache:
    @pytest.mark.parametrize("lengths", [[1, 1, 1], [PAGE_LENGTH, 1], [3 * PAGE_LENGTH + 5, 2, 900]], ids=str)
    def test_what_is_written_is_read_however_it_grew(self, lengths: list[int]) -> None:
        cache = LayerCache(2, 4)
        keys, values = tokens(sum(lengths), 1), tokens(sum(lengths), 2)
        start = 0
        for length in lengths:
            stop = start + length
            cache.reserve(stop, 2000)
            cache.write(start, keys[start:stop], values[start:stop])
            start = stop
            for found, written in zip(read(cache, stop), (keys, values), strict=True):
                assert np.array_equal(found, written[:stop])

    def test_reading_takes_no_more_pages_than_hold_the_tokens(self) -> None:
        cache = LayerCache(2, 4)
        cache.reserve(5 * PAGE_LENGTH, 10_000)
        assert [cache.pages(length)[0].shape[1] for length in (1, PAGE_LENGTH, PAGE_LENGTH + 1)] == [1, 1, 2]

    def test_memory_follows_the_text_and_ends_at_the_limit(self) -> None:
        cache = LayerCache(2, 4)
        cache.reserve(1, 32_768)
        assert cache.pages(32_768)[0].shape[1] == 1
        for length in range(1, 601):
            cache.reserve(length, 600)
        assert cache.pages(32_768)[0].shape[1] == -(-600 // PAGE_LENGTH)

    def test_growing_step_by_step_copies_each_token_a_few_times_only(self) -> None:
        cache, capacities = LayerCache(2, 4), set()
        for length in range(1, 20_000, 50):
            cache.reserve(length, 32_768)
            capacities.add(cache.pages(32_768)[0].shape[1])
        assert len(capacities) < 20

    def test_values_left_over_past_the_end_are_finite(self) -> None:
        cache = LayerCache(2, 4)
        cache.reserve(8, 100)
        cache.write(0, tokens(8), np.full((8, 2, 4), np.inf, np.float32))
        cache.write(0, tokens(3), tokens(3))
        assert np.isfinite(cache.pages(3)[1]).all()


class TestNumpyState:
    def test_a_copy_shares_nothing(self) -> None:
        state = NumpyState(100, [LayerCache(2, 4)])
        state.reserve(2)
        state.layers[0].write(0, tokens(2, 1), tokens(2, 2))
        state.seq_len = 2
        copy = state.copy()
        state.layers[0].write(0, tokens(2, 3), tokens(2, 4))
        assert (copy.seq_len, copy.max_seq_len) == (2, 100)
        assert np.array_equal(read(copy.layers[0], 2), (tokens(2, 1), tokens(2, 2)))
