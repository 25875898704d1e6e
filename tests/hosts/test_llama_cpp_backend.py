"""The backend over llama.cpp keeps the contract of a model, and says what it does not promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cera_core
import cera_llama_cpp
from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.model import Model
from cera_core.modelfile.gguf import open_model_file
from cera_core.testing import ModelSuite
from support.hosts import skip_without
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

skip_without("llama_cpp")
pytestmark = pytest.mark.hosts


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


class TestLlamaCppModel(ModelSuite):
    @pytest.fixture
    def model(self, file: Path) -> Model:
        return cera_core.load_model(file, "llama-cpp", threads=1)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_logits_are_those_of_the_reference(architecture: str, tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture, quantisation="F32")
    token_ids = list(range(3, 35))
    rows = []
    for backend in ("llama-cpp", "numpy"):
        model = cera_core.load_model(file, backend)
        rows.append(model.forward_all(token_ids, model.new_state()))
    cosines = [np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(*rows, strict=True)]
    assert min(cosines) > 0.999


def test_drafts_are_verified_and_what_is_not_promised_is_said(file: Path) -> None:
    engine = cera_core.load(file, backend="llama-cpp", max_tokens=40, ignore_eos=True, adaptive=False)
    generation = engine.generate("the text of the model and the text of the model")
    assert len(generation.token_ids) == 40
    assert not engine.model.batch_invariant
    assert generation.stats.num_rounds > 0


def test_a_model_with_convolutions_decodes_plainly(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf", architecture="lfm2")
    engine = cera_core.load(file, backend="llama-cpp", max_tokens=10, ignore_eos=True)
    stats = engine.generate("the text of the text of the text").stats
    assert (stats.num_rounds, stats.num_plain_steps) == (0, 10)


def test_an_architecture_that_llama_cpp_does_not_know_is_said_before_loading(tmp_path: Path) -> None:
    file = tmp_path / "other.gguf"
    file.write_bytes(write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes().replace(b"llama", b"lxama"))
    with open_model_file(file) as model_file, pytest.raises(UnsupportedModelError, match="found 'lxama'"):
        cera_llama_cpp.check_file(model_file)
    with open_model_file(tmp_path / "tiny.gguf") as model_file:
        cera_llama_cpp.check_file(model_file)


def test_a_file_that_llama_cpp_refuses_is_named(tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf")
    data = file.read_bytes().replace(b"llama.block_count", b"llama.block_cound")
    file.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"tiny\.gguf"):
        cera_core.load_model(file, "llama-cpp")
