from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from cera_core.errors import UnsupportedModelError
from cera_core.modelfile.gguf import ModelFile, open_model_file
from cera_numpy.execution import Execution
from cera_numpy.weights import MAX_TILE_DEPTH, TILE_WIDTH, Matrix, StoredTensor
from support.random_weights import WEIGHT_TYPES
from support.tiny_gguf import write_tiny_gguf


@pytest.fixture
def written(tmp_path: Path) -> ModelFile:
    """A file of float32 matrices: a (70 rows), b (5 rows), both of 48 columns, and one too deep for a tile."""
    writer = gguf.GGUFWriter(tmp_path / "written.gguf", "llama")
    rng = np.random.default_rng(1)
    for name, shape in {"a": (70, 48), "b": (5, 48), "deep": (40, 3 * MAX_TILE_DEPTH)}.items():
        writer.add_tensor(name, rng.standard_normal(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return open_model_file(tmp_path / "written.gguf")


def stored(model_file: ModelFile, *names: str) -> list[StoredTensor]:
    return [StoredTensor(model_file, model_file.tensor(name)) for name in names]


class TestMatrix:
    @pytest.mark.parametrize("keep", [True, False], ids=["kept", "from file"])
    @pytest.mark.parametrize("exact", [True, False], ids=["exact", "default"])
    @pytest.mark.parametrize("names", [("a",), ("b",), ("a", "b"), ("b", "a", "b"), ("deep",)], ids="+".join)
    @pytest.mark.parametrize("num_rows", [1, 2, 40])
    def test_product_is_that_of_the_dequantised_rows(
        self, written: ModelFile, names: tuple[str, ...], keep: bool, exact: bool, num_rows: int
    ) -> None:
        parts = stored(written, *names)
        matrix = Matrix(parts, Execution(exact, keep))
        x = np.random.default_rng(2).standard_normal((num_rows, matrix.num_columns), np.float32)
        weights = np.concatenate([part.rows(slice(None)) for part in parts]).astype(np.float64)
        product = matrix.product(x)
        assert product.dtype == np.float32
        np.testing.assert_allclose(product, x.astype(np.float64) @ weights.T, atol=2e-4)

    @pytest.mark.parametrize("exact", [True, False])
    def test_bits_do_not_depend_on_where_the_weights_are(self, written: ModelFile, exact: bool) -> None:
        parts = stored(written, "a", "b")
        x = np.random.default_rng(2).standard_normal((5, 48), np.float32)
        kept, from_file = (Matrix(parts, Execution(exact, keep)).product(x) for keep in (True, False))
        assert np.array_equal(kept, from_file)

    @pytest.mark.parametrize("name", ["a", "deep"])
    def test_exact_mode_gives_a_row_the_same_bits_in_any_company(self, written: ModelFile, name: str) -> None:
        matrix = Matrix(stored(written, name), Execution(True, True))
        x = np.random.default_rng(2).standard_normal((64, matrix.num_columns), np.float32)
        alone = np.concatenate([matrix.product(row[np.newaxis]) for row in x])
        for num_rows in range(1, 65):
            assert np.array_equal(matrix.product(x[:num_rows]), alone[:num_rows])

    def test_a_matrix_of_more_rows_than_are_dequantised_at_once(self, tmp_path: Path) -> None:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", vocab_size=20 * TILE_WIDTH + 3, quantisation="Q8_0")
        [head] = stored(open_model_file(path), "token_embd.weight")
        x = np.random.default_rng(2).standard_normal((2, 64), np.float32)
        for keep in (True, False):
            product = Matrix([head], Execution(False, keep)).product(x)
            np.testing.assert_allclose(product, x @ head.rows(slice(None)).T, atol=1e-4)


class TestStoredTensor:
    @pytest.mark.parametrize("weight_type", WEIGHT_TYPES, ids=lambda weight_type: weight_type.name)
    def test_some_rows_of_every_type(self, tmp_path: Path, weight_type: gguf.GGMLQuantizationType) -> None:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", quantisation=weight_type.name)
        model_file = open_model_file(path)
        [embedding] = stored(model_file, "token_embd.weight")
        every_row = gguf.dequantize(model_file.tensor_bytes("token_embd.weight"), weight_type)
        assert embedding.rows([3, 0, 3]).dtype == np.float32
        assert np.array_equal(embedding.rows([3, 0, 3]), every_row[[3, 0, 3]])

    def test_a_type_gguf_cannot_dequantise(self, written: ModelFile) -> None:
        info = replace(written.tensor("a"), type=gguf.GGMLQuantizationType.I32)
        with pytest.raises(UnsupportedModelError, match="'a' must be of a type that 'gguf' can dequantise, found I32"):
            StoredTensor(written, info)

    def test_weights_outlive_the_open_file(self, written: ModelFile) -> None:
        [tensor] = stored(written, "b")
        written.close()
        assert tensor.rows([4]).shape == (1, 48)
