"""Exact mode: the bits of a row do not depend on its company."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cera_numpy.model import NumpyModel
from support.tiny_gguf import ARCHITECTURES

Load = Callable[..., NumpyModel]

TEXT = np.random.default_rng(3).integers(0, 320, 330).tolist()
SHAPES = {
    "llama": {"architecture": "llama", "rope_factors": True},
    "qwen2": {"architecture": "qwen2", "num_heads": 6, "num_kv_heads": 2, "head_dim": 32},
    "qwen3": {"architecture": "qwen3", "num_heads": 3, "num_kv_heads": 3, "head_dim": 10, "quantisation": "F16"},
    "large": {"hidden_size": 672, "feed_forward_size": 1344, "num_heads": 6, "num_kv_heads": 1, "num_layers": 1},
}


def one_by_one(model: NumpyModel, text: list[int]) -> np.ndarray:
    state = model.new_state()
    return np.array([model.forward([token_id], state) for token_id in text])


@pytest.mark.parametrize("shape", sorted(SHAPES))
class TestBits:
    def test_for_1_to_64_rows(self, load: Load, shape: str) -> None:
        model = load(exact=True, **SHAPES[shape])
        text = TEXT[:100]
        rows = one_by_one(model, text)
        state = model.new_state()
        for num_rows in range(1, 65):
            start = num_rows // 2
            model.truncate(state, 0)
            if start:
                model.forward(text[:start], state)
            found = model.forward_all(text[start : start + num_rows], state)
            assert np.array_equal(found, rows[start : start + num_rows]), num_rows

    @pytest.mark.parametrize("seed", range(3))
    def test_for_any_parts_and_after_going_back(self, load: Load, shape: str, seed: int) -> None:
        model = load(exact=True, **SHAPES[shape])
        rows = one_by_one(model, TEXT)
        rng = np.random.default_rng(seed)
        state = model.new_state()
        while state.seq_len < len(TEXT):
            start = state.seq_len
            part = TEXT[start : start + int(rng.integers(1, 65))]
            assert np.array_equal(model.forward_all(part, state), rows[start : start + len(part)])
            if rng.random() < 0.5:
                model.forward(rng.integers(0, 320, 20).tolist(), state)  # a wrong turn
                model.truncate(state, state.seq_len - 20 - int(rng.integers(0, len(part))))

    def test_on_threads_that_run_at_the_same_time(self, load: Load, shape: str) -> None:
        model = load(exact=True, **SHAPES[shape])
        text = TEXT[:150]
        rows = one_by_one(model, text)
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: model.forward_all(text, model.new_state()), range(8)))
        assert all(np.array_equal(rows, other) for other in found)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_exact_and_default_differ_by_rounding_only(load: Load, architecture: str) -> None:
    model, exact = load(architecture=architecture), load(architecture=architecture, exact=True)
    rows, exact_rows = (m.forward_all(TEXT[:40], m.new_state()) for m in (model, exact))
    np.testing.assert_allclose(rows, exact_rows, rtol=1e-4, atol=1e-4)
