"""Whatever a state went through, its next rows have the bits of a fresh state that was fed the same tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cera_native
from cera_core.model import Model
from cera_core.modelfile.gguf import open_model_file
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from support.native import load as load_native
from support.state_walk import StateWalk
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

NUM_STEPS = 300
SETTINGS: dict[str, dict[str, Any]] = {"gemma3": {"attention.sliding_window": 13}, "lfm2": {"shortconv.l_cache": 3}}
TEXT = np.random.default_rng(5).integers(0, 320, 300).tolist()


def written(folder: Path, architecture: str, quantisation: str) -> Path:
    settings = SETTINGS.get(architecture)
    return write_tiny_gguf(
        folder / "tiny.gguf", architecture=architecture, quantisation=quantisation, settings=settings, num_layers=3
    )


def walk(model: Model, seed: int) -> None:
    states = StateWalk(model, TEXT, seed)
    for _ in range(NUM_STEPS):
        states.step()
    assert min(states.num_steps[name] for name in ("append", "verify", "truncate", "truncate_too_far", "fork")) > 20


@pytest.mark.parametrize("headroom", [1, 9])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_numpy(tmp_path: Path, architecture: str, headroom: int) -> None:
    path = written(tmp_path, architecture, "F16")
    walk(NumpyModel(open_model_file(path), Execution(exact=True), rewind_headroom=headroom), seed=headroom)


@pytest.mark.alone
@pytest.mark.skipif(cera_native.availability() is not None, reason="the extension was not built")
@pytest.mark.parametrize(("headroom", "quantisation", "threads"), [(1, "F32", 1), (9, "Q8_0", 2), (20, "Q4_K", 2)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_native(tmp_path: Path, architecture: str, headroom: int, quantisation: str, threads: int) -> None:
    path = written(tmp_path, architecture, quantisation)
    walk(load_native(path, rewind_headroom=headroom, threads=threads), seed=headroom)
