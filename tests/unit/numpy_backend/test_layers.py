from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from cera_core.modelfile.rotary import RotaryLayout
from cera_numpy.layers import attend, gated, gating_weights, rms_norm, rotate

Floats = NDArray[np.float32]
PAGE_LENGTH = 4


def random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def turns(positions: list[int], num_pairs: int) -> tuple[Floats, Floats]:
    angles = np.outer(positions, 0.7 ** np.arange(num_pairs))[:, np.newaxis]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


class TestRmsNorm:
    def test_mean_square_becomes_one(self) -> None:
        normed = rms_norm(100 * random(3, 64), np.ones(64, np.float32), 1e-6)
        np.testing.assert_allclose(np.mean(normed**2, axis=-1), 1.0, rtol=1e-5)

    def test_epsilon_is_added_to_the_mean_square(self) -> None:
        normed = rms_norm(np.full((1, 4), 3.0, np.float32), np.full(4, 10.0, np.float32), 7.0)
        np.testing.assert_allclose(normed, 3.0 / np.sqrt(9.0 + 7.0) * 10.0)

    def test_zeros_stay_zeros(self) -> None:
        assert not rms_norm(np.zeros((2, 4), np.float32), np.ones(4, np.float32), 1e-6).any()


class TestRotate:
    @pytest.mark.parametrize("layout", ["interleaved", "half_split"])
    def test_is_a_product_of_complex_numbers(self, layout: RotaryLayout) -> None:
        heads = random(2, 3, 8)
        cosines, sines = turns([5, 6], 4)
        order = [0, 2, 4, 6, 1, 3, 5, 7] if layout == "interleaved" else range(8)
        real, imaginary = np.split(heads[..., list(order)], 2, axis=-1)
        product = (real + 1j * imaginary) * (cosines + 1j * sines)
        turned_real, turned_imaginary = np.split(rotate(heads, cosines, sines, layout)[..., list(order)], 2, axis=-1)
        np.testing.assert_allclose(turned_real + 1j * turned_imaginary, product, rtol=1e-5)

    @pytest.mark.parametrize("layout", ["interleaved", "half_split"])
    def test_a_score_depends_on_the_distance_only(self, layout: RotaryLayout) -> None:
        query, key = random(1, 1, 8), random(1, 1, 8, seed=1)

        def score(query_position: int, key_position: int) -> float:
            return float(
                np.vdot(
                    rotate(query, *turns([query_position], 4), layout), rotate(key, *turns([key_position], 4), layout)
                )
            )

        assert score(9, 4) == pytest.approx(score(105, 100), abs=1e-4)
        assert score(9, 4) != pytest.approx(score(9, 5), abs=1e-2)

    @pytest.mark.parametrize("layout", ["interleaved", "half_split"])
    def test_elements_beyond_the_pairs_stay(self, layout: RotaryLayout) -> None:
        heads = random(1, 2, 8)
        turned = rotate(heads, *turns([3], 2), layout)
        assert np.array_equal(turned[..., 4:], heads[..., 4:])
        assert not np.isclose(turned[..., :4], heads[..., :4]).any()


class TestAttend:
    @staticmethod
    def pages(length: int, seed: int) -> tuple[Floats, Floats]:
        """Returns 2 key/value heads of `length` tokens in a row, and the same in pages of 4 with zeros at the end."""
        flat = random(2, length, 6, seed=seed)
        num_pages = -(-length // PAGE_LENGTH)
        padded = np.zeros((2, num_pages * PAGE_LENGTH, 6), np.float32)
        padded[:, :length] = flat
        return flat, padded.reshape(2, num_pages, PAGE_LENGTH, 6)

    @pytest.mark.parametrize(("start", "num_rows"), [(0, 1), (0, 9), (3, 1), (3, 2), (4, 4), (2, 7), (7, 1), (8, 1)])
    def test_each_row_sees_the_keys_up_to_its_own(self, start: int, num_rows: int) -> None:
        queries = random(num_rows, 4, 6)
        (keys, key_pages), (values, value_pages) = self.pages(start + num_rows, 1), self.pages(start + num_rows, 2)
        mixed = attend(queries, key_pages, value_pages, start).reshape(num_rows, 4, 6)
        for row in range(num_rows):
            for head in range(4):
                seen = slice(0, start + row + 1)
                powers = np.exp(keys[head // 2, seen] @ queries[row, head])
                expected = powers / powers.sum() @ values[head // 2, seen]
                np.testing.assert_allclose(mixed[row, head], expected, rtol=1e-4, atol=1e-5)

    def test_keys_not_written_yet_may_be_anything(self) -> None:
        queries = random(2, 4, 6)
        (_, keys), (_, values) = self.pages(6, 1), self.pages(6, 2)
        clean = attend(queries, keys, values, 4)
        keys[:, 1, 2:] = np.nan
        assert np.array_equal(attend(queries, keys, values, 4), clean)

    def test_large_scores_do_not_overflow(self) -> None:
        (_, keys), (values, value_pages) = self.pages(4, 1), self.pages(4, 2)
        mixed = attend(1e4 * random(1, 2, 6), keys, value_pages, 3)
        assert np.abs(mixed).max() <= np.abs(values).max()


class TestGated:
    def test_the_first_half_is_the_gate(self) -> None:
        found = gated(np.array([[1.0, -2.0, 3.0, 5.0]], np.float32), "silu")
        np.testing.assert_allclose(found, [[3.0 / (1 + np.exp(-1)), -10.0 / (1 + np.exp(2))]], rtol=1e-6)

    def test_a_gate_far_below_zero_is_shut(self) -> None:
        with np.errstate(over="ignore"):
            assert gated(np.array([[-1e4, 7.0]], np.float32), "silu") == 0.0

    def test_gelu_by_a_hyperbolic_tangent(self) -> None:
        found = gated(np.array([[1.0, -2.0, 30.0, 5.0, 1.0, 1.0]], np.float32), "gelu")
        # the published values of GELU at 1 and -2 are 0.8413 and -0.0455; the approximation is that near
        np.testing.assert_allclose(found, [[5 * 0.84119, -0.045402, 30.0]], rtol=1e-4)


class TestGatingWeights:
    def test_softmax_sums_to_one(self) -> None:
        weights = gating_weights(np.array([[1.0, 2.0, 400.0], [0.0, 0.0, 0.0]], np.float32), "softmax")
        np.testing.assert_allclose(weights, [[0.0, 0.0, 1.0], [1 / 3] * 3], atol=1e-7)

    def test_sigmoid_judges_each_expert_by_itself(self) -> None:
        np.testing.assert_allclose(
            gating_weights(np.array([[0.0, 2.0]], np.float32), "sigmoid"), [[0.5, 0.880797]], rtol=1e-6
        )


class TestWindow:
    @pytest.mark.parametrize("window", [1, 2, 5, 8])
    def test_a_row_sees_the_last_keys_only(self, window: int) -> None:
        queries, keys, values = random(3, 2, 4), random(1, 3, 4, 4), random(1, 3, 4, 4)
        mixed = attend(queries, keys, values, 8, window).reshape(3, 2, 4)
        for row in range(3):
            seen = slice(max(0, 8 + row + 1 - window), 8 + row + 1)
            for head in range(2):
                powers = np.exp(keys.reshape(-1, 4)[seen] @ queries[row, head])
                expected = powers / powers.sum() @ values.reshape(-1, 4)[seen]
                np.testing.assert_allclose(mixed[row, head], expected, rtol=1e-4, atol=1e-5)
