from __future__ import annotations

import numpy as np
import pytest

from cera_core.errors import ModelError
from cera_numpy.cache import PAGE_LENGTH, ConvolutionCache, LayerCache, NumpyState


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


class TestWindow:
    def test_pages_no_token_to_come_can_see_are_given_up(self) -> None:
        cache = LayerCache(2, 4, window=100)
        for length in range(1, 3000):
            cache.reserve(length, 4000, oldest=max(0, length - 10))
            cache.write(length - 1, tokens(1, length), tokens(1, length))
        assert cache._keys.shape[1] <= 5
        keys, _ = cache.pages(2999, 2899)
        first = 2899 // PAGE_LENGTH * PAGE_LENGTH
        assert np.array_equal(keys.reshape(2, -1, 4)[:, 2899 - first], tokens(1, 2900)[0])

    def test_a_page_that_was_given_up_is_an_error(self) -> None:
        cache = LayerCache(2, 4, window=1)
        for length in range(1, 600):
            cache.reserve(length, 4000, oldest=length)
            cache.write(length - 1, tokens(1), tokens(1))
        with pytest.raises(ModelError, match="lost the keys of position 5"):
            cache.pages(599, 5)


class TestConvolutionCache:
    @pytest.mark.parametrize("num_taps", [2, 3, 4])
    def test_every_state_inside_the_headroom_is_exact(self, num_taps: int) -> None:
        cache, entries = (
            ConvolutionCache(num_taps, 3, headroom=7),
            np.arange(1.0, 301.0, dtype=np.float32).reshape(100, 3),
        )
        padded = np.concatenate([np.zeros((num_taps - 1, 3), np.float32), entries])
        start = 0
        for num_rows in (1, 2, 30, 5, 1, 7, 40):
            cache.write(start, entries[start : start + num_rows])
            start += num_rows
            for length in range(max(0, start - 7), start + 1):
                assert np.array_equal(cache.before(length), padded[length : length + num_taps - 1])

    def test_a_lost_entry_is_an_error_and_no_zeros(self) -> None:
        cache = ConvolutionCache(3, 3, headroom=4)
        cache.write(0, np.ones((50, 3), np.float32))
        with pytest.raises(ModelError, match="lost the convolution at position 28"):
            cache.before(30)

    def test_a_forward_that_fails_before_its_length_is_set_spoils_nothing(self) -> None:
        cache = ConvolutionCache(3, 3, headroom=4)
        cache.write(0, np.arange(30.0, dtype=np.float32).reshape(10, 3))
        before = cache.before(10)
        cache.write(10, np.full((6, 3), np.nan, np.float32))
        assert np.array_equal(cache.before(10), before)


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
