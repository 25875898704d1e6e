"""The backend keeps the contract of a model, as any other must."""

from __future__ import annotations

from pathlib import Path

import pytest

from cera_core.modelfile.gguf import open_model_file
from cera_core.testing import ModelSuite
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from support.tiny_blocks import ARCHITECTURES, LIMITED
from support.tiny_gguf import write_tiny_gguf


@pytest.fixture(scope="module", params=ARCHITECTURES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("contract") / "tiny.gguf", architecture=request.param)


@pytest.fixture(scope="module", params=[False, True], ids=["default", "exact"])
def loaded(request: pytest.FixtureRequest, file: Path) -> NumpyModel:
    return NumpyModel(open_model_file(file), Execution(exact=request.param))


class TestNumpyModel(ModelSuite):
    @pytest.fixture
    def model(self, loaded: NumpyModel) -> NumpyModel:
        return loaded


@pytest.mark.parametrize("architecture", LIMITED)
class TestStatesThatGoBackAFewTokensOnly(ModelSuite):
    @pytest.fixture
    def model(self, architecture: str, tmp_path: Path) -> NumpyModel:
        file = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture)
        return NumpyModel(open_model_file(file), Execution(exact=True), rewind_headroom=5)
