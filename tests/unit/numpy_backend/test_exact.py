"""Exact mode: the bits of a row do not depend on its company."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cera_core.modelfile.gguf import open_model_file
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

TEXT = np.random.default_rng(3).integers(0, 320, 330).tolist()
SHAPES = {
    "llama": {"architecture": "llama", "rope_factors": True},
    "qwen2": {"architecture": "qwen2", "num_heads": 6, "num_kv_heads": 2, "head_dim": 32},
    "qwen3": {"architecture": "qwen3", "num_heads": 3, "num_kv_heads": 3, "head_dim": 10, "quantisation": "F16"},
    "gemma3, a window over two pages": {"architecture": "gemma3", "settings": {"attention.sliding_window": 140}},
    "granite": {"architecture": "granite"},
    "lfm2": {"architecture": "lfm2", "num_layers": 3},
    "lfm2moe": {"architecture": "lfm2moe", "num_layers": 3},
    "qwen3moe": {"architecture": "qwen3moe"},
    "several tiles deep": {"hidden_size": 672, "num_heads": 6, "num_kv_heads": 1, "head_dim": 64, "num_layers": 1},
}


@pytest.fixture(scope="module", params=sorted(SHAPES))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> NumpyModel:
    path = write_tiny_gguf(tmp_path_factory.mktemp("exact") / "tiny.gguf", **SHAPES[request.param])
    return NumpyModel(open_model_file(path), Execution(exact=True))


@pytest.fixture(scope="module")
def rows(model: NumpyModel) -> np.ndarray:
    """The logits of all positions of `TEXT`, fed token by token."""
    state = model.new_state()
    return np.array([model.forward([token_id], state) for token_id in TEXT])


def test_bits_for_1_to_64_rows(model: NumpyModel, rows: np.ndarray) -> None:
    for num_rows in range(1, 65):
        start = num_rows // 2
        state = model.new_state()
        if start:
            model.forward(TEXT[:start], state)
        found = model.forward_all(TEXT[start : start + num_rows], state)
        assert np.array_equal(found, rows[start : start + num_rows]), num_rows


@pytest.mark.parametrize("seed", range(2))
def test_bits_for_any_parts_and_after_going_back(model: NumpyModel, rows: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = model.new_state()
    while state.seq_len < len(TEXT):
        start = state.seq_len
        part = TEXT[start : start + int(rng.integers(1, 65))]
        assert np.array_equal(model.forward_all(part, state), rows[start : start + len(part)])
        if rng.random() < 0.5:
            model.forward(rng.integers(0, 320, 20).tolist(), state)  # a wrong turn
            num_back = 20 + int(rng.integers(0, len(part)))
            model.truncate(state, state.seq_len - min(num_back, model.rewind_headroom(state)))


def test_bits_of_a_copy(model: NumpyModel, rows: np.ndarray) -> None:
    state = model.new_state()
    model.forward(TEXT[:130], state)
    assert np.array_equal(model.forward_all(TEXT[130:140], model.copy_state(state)), rows[130:140])


def test_bits_on_threads_that_run_at_the_same_time(model: NumpyModel, rows: np.ndarray) -> None:
    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(lambda _: model.forward_all(TEXT[:150], model.new_state()), range(3)))
    assert all(np.array_equal(rows[:150], other) for other in found)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_exact_and_default_differ_by_rounding_only(load: Callable[..., NumpyModel], architecture: str) -> None:
    default, exact = load(architecture=architecture), load(architecture=architecture, exact=True)
    rows, exact_rows = (model.forward_all(TEXT[:40], model.new_state()) for model in (default, exact))
    np.testing.assert_allclose(rows, exact_rows, rtol=1e-4, atol=1e-4)
