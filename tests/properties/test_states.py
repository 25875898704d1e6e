"""Whatever a state went through, its next rows have the bits of a fresh state that was fed the same tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cera_core.modelfile.gguf import open_model_file
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from support.state_walk import StateWalk
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

NUM_STEPS = 300
SETTINGS: dict[str, dict[str, Any]] = {"gemma3": {"attention.sliding_window": 13}, "lfm2": {"shortconv.l_cache": 3}}
TEXT = np.random.default_rng(5).integers(0, 320, 300).tolist()


@pytest.mark.parametrize("headroom", [1, 9])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_numpy(tmp_path: Path, architecture: str, headroom: int) -> None:
    path = write_tiny_gguf(
        tmp_path / "tiny.gguf", architecture=architecture, quantisation="F16", settings=SETTINGS.get(architecture)
    )
    model = NumpyModel(open_model_file(path), Execution(exact=True), rewind_headroom=headroom)
    walk = StateWalk(model, TEXT, seed=headroom)
    for _ in range(NUM_STEPS):
        walk.step()
    assert min(walk.num_steps[name] for name in ("append", "verify", "truncate", "truncate_too_far", "fork")) > 20
