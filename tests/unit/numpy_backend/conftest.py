from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cera_core.modelfile.gguf import open_model_file
from cera_numpy.model import NumpyModel
from support.tiny_gguf import write_tiny_gguf


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., NumpyModel]:
    """Makes a tiny model; the arguments beyond the first two are those of `write_tiny_gguf`."""

    def load_tiny(*, exact: bool = False, keep_weights: bool = True, **options: Any) -> NumpyModel:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", **options)
        return NumpyModel(open_model_file(path), exact=exact, keep_weights=keep_weights)

    return load_tiny
