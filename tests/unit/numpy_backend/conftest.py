from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cera_core.modelfile.gguf import open_model_file
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from cera_numpy.workers import Workers
from support.tiny_gguf import write_tiny_gguf


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., NumpyModel]:
    """Makes a tiny model; the other arguments are those of `write_tiny_gguf`."""

    def load_tiny(*, exact: bool = False, keep_weights: bool = True, threads: int = 1, **options: Any) -> NumpyModel:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", **options)
        return NumpyModel(open_model_file(path), Execution(exact, keep_weights, Workers(threads)))

    return load_tiny
