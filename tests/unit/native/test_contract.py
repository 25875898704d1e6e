"""The backend keeps the contract of a model, as any other must."""

from __future__ import annotations

from pathlib import Path

import pytest

from cera_core.model import Model
from cera_core.testing import ModelSuite
from support.native import load, skip_without_extension
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

skip_without_extension()

pytestmark = pytest.mark.alone  # its threads wait for one another, and spin


@pytest.fixture(scope="module", params=["Q4_K", "F32"])
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("contract") / "tiny.gguf", quantisation=request.param)


class TestNativeModel(ModelSuite):
    @pytest.fixture
    def model(self, file: Path) -> Model:
        return load(file, threads=2)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
class TestEveryArchitecture(ModelSuite):
    @pytest.fixture
    def model(self, architecture: str, tmp_path: Path) -> Model:
        file = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture)
        return load(file, threads=2, rewind_headroom=5)
