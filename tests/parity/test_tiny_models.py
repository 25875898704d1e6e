"""Logits of tiny models, beside two implementations that share nothing with the backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cera_core.modelfile.gguf import ModelFile, open_model_file
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from support.naive_forward import NaiveModel
from support.tiny_gguf import write_tiny_gguf

RECORDED = json.loads(Path(__file__).with_name("tiny_models.json").read_text(encoding="utf-8"))
TEXT = [5, 80, 200, 33, 7, 7, 300, 12, 99, 150]
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {"architecture": "llama"},
    "llama with factors, in Q4_0": {"architecture": "llama", "rope_factors": True, "quantisation": "Q4_0"},
    "qwen2 with a head of its own, in Q8_0": {"architecture": "qwen2", "tied": False, "quantisation": "Q8_0"},
    "qwen3": {"architecture": "qwen3"},
    "qwen3, three heads a group": {"architecture": "qwen3", "num_heads": 6, "head_dim": 12},
}


def tiny(folder: Path, **options: Any) -> ModelFile:
    return open_model_file(write_tiny_gguf(folder / "tiny.gguf", **{"quantisation": "F32", **options}))


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "default"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_element_at_a_time_in_double_precision(tmp_path: Path, shape: str, exact: bool) -> None:
    model_file = tiny(tmp_path, **SHAPES[shape])
    model = NumpyModel(model_file, Execution(exact=exact))
    rows = model.forward_all(TEXT, model.new_state())
    # float32 has 24 bits; some 200 sums a logit, and logits around 10
    np.testing.assert_allclose(rows, NaiveModel(model_file).logits(TEXT), atol=2e-4)


def test_fewer_elements_turn_than_a_head_has(tmp_path: Path) -> None:
    model_file = tiny(tmp_path, architecture="qwen2")
    model_file.metadata = {**model_file.metadata, "qwen2.rope.dimension_count": 6}
    model = NumpyModel(model_file)
    rows = model.forward_all(TEXT, model.new_state())
    np.testing.assert_allclose(rows, NaiveModel(model_file).logits(TEXT), atol=2e-4)


@pytest.mark.parametrize("name", sorted(RECORDED["models"]))
def test_llama_cpp(tmp_path: Path, name: str) -> None:
    """Weights and caches were float32 there too, so what is left is rounding, of 0.0001 in the record itself.

    Its GELU, which Gemma has, is a table of half precision.
    """
    recorded = RECORDED["models"][name]
    model = NumpyModel(tiny(tmp_path, **recorded["options"]))
    rows = model.forward_all(RECORDED["token_ids"], model.new_state()).astype(np.float64)
    log_probabilities = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    tolerance = 3e-3 if "gemma" in name else 3e-4
    for position, candidates in recorded["candidates"].items():
        for token_id, log_probability in candidates:
            assert log_probabilities[int(position), token_id] == pytest.approx(log_probability, abs=tolerance)
    assert len(recorded["candidates"]) > 20
