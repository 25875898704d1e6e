"""What the tests of the native backend share: tiny models, and all logits of a text in one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import cera_native
from cera_core.model import Model
from cera_core.modelfile.gguf import open_model_file
from support.tiny_gguf import write_tiny_gguf

WEIGHT_TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


def skip_without_extension() -> None:
    """Skips where the extension was not built, unless CERA_REQUIRE_NATIVE=1 asks for it."""
    import os

    reason = cera_native.availability()
    if reason is None:
        return
    if os.environ.get("CERA_REQUIRE_NATIVE") == "1":
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def load(path: Path, **options: Any) -> Model:
    """Loads a file with the native backend."""
    with open_model_file(path) as model_file:
        return cera_native.load(model_file, cera_native.NativeOptions(**options))


def tiny_model_file(directory: Path) -> Callable[..., Path]:
    """Returns a function that writes a tiny model once for each set of arguments."""

    def write(**arguments: Any) -> Path:
        name = "-".join(f"{key}={value}" for key, value in sorted(arguments.items())).translate(
            {ord(c): "_" for c in "*/ "}
        )
        path = directory / f"{name}.gguf"
        return path if path.exists() else write_tiny_gguf(path, **arguments)

    return write


def random_ids(model: Model, count: int, seed: int = 0) -> list[int]:
    """Returns seeded token ids."""
    return np.random.default_rng(seed).integers(0, model.config.vocab_size, count).tolist()


def all_logits(model: Model, ids: Sequence[int], chunk_lengths: Sequence[int]) -> NDArray[np.float32]:
    """Returns the logits after each id, the ids going in chunks of these lengths, the last length over and over."""
    state, rows, start = model.new_state(), [], 0
    lengths = list(chunk_lengths)
    while start < len(ids):
        length = lengths.pop(0) if len(lengths) > 1 else lengths[0]
        rows.append(model.forward_all(ids[start : start + length], state).copy())
        start += length
    return np.concatenate(rows)


def same_bits(a: NDArray[np.float32], b: NDArray[np.float32]) -> bool:
    """Says whether two arrays hold the same bits; unlike ==, 0 and -0 differ, and NaN equals itself."""
    return a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32))
