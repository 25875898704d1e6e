from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from struct import pack

import gguf
import numpy as np
import pytest

from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.modelfile.gguf import ModelFile, open_model_file
from support import gguf_bytes as raw
from support.gguf_bytes import ARCHITECTURE, array, gguf_bytes, key, tensor
from support.random_weights import WEIGHT_TYPES
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf


@pytest.fixture
def tiny(tmp_path: Path) -> ModelFile:
    return open_model_file(write_tiny_gguf(tmp_path / "tiny.gguf"))


@pytest.fixture
def written(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(data: bytes) -> Path:
        path = tmp_path / "written.gguf"
        path.write_bytes(data)
        return path

    return write


class TestOpening:
    @pytest.mark.parametrize("as_type", [Path, str])
    def test_takes_a_path_or_text(self, tmp_path: Path, as_type: type) -> None:
        path = write_tiny_gguf(tmp_path / "tiny.gguf")
        with open_model_file(as_type(path)) as file:
            assert file.path == path
            assert file.version == 3
            assert file.architecture == "llama"

    @pytest.mark.parametrize("architecture", ARCHITECTURES)
    def test_agrees_with_the_gguf_package(self, tmp_path: Path, architecture: str) -> None:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture, tied=False, rope_factors=True)
        assert_agrees_with_gguf_package(path)

    @pytest.mark.parametrize("weight_type", WEIGHT_TYPES, ids=lambda weight_type: weight_type.name)
    def test_every_weight_type(self, tmp_path: Path, weight_type: gguf.GGMLQuantizationType) -> None:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", quantisation=weight_type.name)
        with open_model_file(path) as file:
            assert file.tensor("blk.1.ffn_down.weight").type is weight_type
            weights = gguf.dequantize(file.tensor_bytes("blk.1.ffn_down.weight"), weight_type)
            assert weights.shape == file.tensor("blk.1.ffn_down.weight").shape
            assert weights.std() == pytest.approx(1.5 / weights.shape[1] ** 0.5, rel=0.15)

    @pytest.mark.model
    def test_agrees_with_the_gguf_package_on_a_real_file(self, model_path: Callable[[str], Path]) -> None:
        assert_agrees_with_gguf_package(model_path("smollm2-135m"))

    @pytest.mark.model
    def test_a_real_header_is_read_fast(self, model_path: Callable[[str], Path]) -> None:
        """0.03 s were measured for these 49,152 words, so even a busy machine passes; the gguf package takes 2 s."""
        path = model_path("smollm2-135m")
        times = []
        for _ in range(5):
            start = time.perf_counter()
            open_model_file(path).close()
            times.append(time.perf_counter() - start)
        assert min(times) < 0.3

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match=r"absent\.gguf' cannot be read: No such file"):
            open_model_file(tmp_path / "absent.gguf")

    def test_directory(self, tmp_path: Path) -> None:
        with pytest.raises(ModelFileError, match="a regular file is required, found a directory"):
            open_model_file(tmp_path)

    def test_empty_file(self, written: Callable[[bytes], Path]) -> None:
        with pytest.raises(ModelFileError, match="a GGUF file is required, found an empty one"):
            open_model_file(written(b""))

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes need POSIX")
    def test_a_named_pipe_is_not_waited_for(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFileError, match="found a special file"):
            open_model_file(tmp_path / "pipe")

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
    def test_unreadable_file(self, written: Callable[[bytes], Path]) -> None:
        path = written(gguf_bytes())
        path.chmod(0)
        with pytest.raises(ModelFileError, match="Permission denied"):
            open_model_file(path)

    @pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
    def test_impossible_paths(self, name: str) -> None:
        with pytest.raises(ModelFileError, match="cannot be read"):
            open_model_file(name)

    def test_missing_architecture(self, written: Callable[[bytes], Path]) -> None:
        with pytest.raises(ModelFileError, match=r"key 'general\.architecture' \(str\) is required, but missing"):
            open_model_file(written(gguf_bytes([])))

    def test_part_of_a_split_model(self, written: Callable[[bytes], Path]) -> None:
        split = key("split.count", raw.UINT16, pack("<H", 3))
        with pytest.raises(UnsupportedModelError, match="one of 3 parts"):
            open_model_file(written(gguf_bytes([ARCHITECTURE, split])))

    def test_a_huge_file_of_zeros_costs_nothing(self, written: Callable[[bytes], Path]) -> None:
        path = written(gguf_bytes([ARCHITECTURE, key("k", raw.ARRAY, array(raw.STRING, 1 << 30, b""))]))
        os.truncate(path, 8 << 30)
        with pytest.raises(ModelFileError, match="claims 1073741824 strings"):
            open_model_file(path)

    def test_importing_leaves_gguf_alone(self) -> None:
        code = "import sys, cera_core.modelfile.gguf; sys.exit('gguf' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestMetadata:
    def test_require(self, tiny: ModelFile) -> None:
        assert tiny.require("llama.block_count", int) == 2
        assert tiny.require("llama.rope.freq_base", float) == 10_000.0
        assert tiny.require("tokenizer.ggml.add_bos_token", bool) is False
        assert tiny.require("tokenizer.ggml.pre", str) == "gpt-2"
        assert len(tiny.require("tokenizer.ggml.tokens", list)) == 320
        assert len(tiny.require("tokenizer.ggml.token_type", np.ndarray)) == 320

    def test_an_integer_will_do_for_a_float(self, tiny: ModelFile) -> None:
        value = tiny.require("llama.block_count", float)
        assert type(value) is float
        assert value == 2.0

    def test_missing_key(self, tiny: ModelFile) -> None:
        with pytest.raises(ModelFileError, match=r"tiny\.gguf': the key 'llama\.x' \(int\) is required, but missing"):
            tiny.require("llama.x", int)

    @pytest.mark.parametrize(
        ("name", "kind", "found"),
        [
            ("general.architecture", int, r"'llama' \(str\)"),
            ("llama.rope.freq_base", int, r"10000\.0 \(float\)"),
            ("llama.block_count", bool, r"2 \(int\)"),
            ("llama.block_count", str, r"2 \(int\)"),
            ("tokenizer.ggml.add_bos_token", int, r"False \(bool\)"),
            ("tokenizer.ggml.add_bos_token", float, r"False \(bool\)"),
            ("tokenizer.ggml.tokens", str, r"\['<\|endoftext\|>', .*\] \(list\)"),
            ("tokenizer.ggml.token_type", list, r"array\(.*\) \(ndarray\)"),
        ],
    )
    def test_value_of_another_kind(self, tiny: ModelFile, name: str, kind: type, found: str) -> None:
        with pytest.raises(ModelFileError, match=f"the key '{name}' must be of type {kind.__name__}, found {found}"):
            tiny.require(name, kind)
        with pytest.raises(ModelFileError):
            tiny.get(name, kind, kind())

    def test_get(self, tiny: ModelFile) -> None:
        assert tiny.get("llama.block_count", int, 7) == 2
        assert tiny.get("llama.x", int, 7) == 7

    def test_cannot_be_changed(self, tiny: ModelFile) -> None:
        with pytest.raises(TypeError):
            tiny.metadata["general.architecture"] = "other"  # type: ignore[index]
        with pytest.raises(TypeError):
            del tiny.tensors["output_norm.weight"]  # type: ignore[attr-defined]


class TestTensors:
    def test_tensor(self, tiny: ModelFile) -> None:
        info = tiny.tensor("blk.0.attn_k.weight", (32, 64))
        assert info.type is gguf.GGMLQuantizationType.Q4_0
        assert info.num_bytes == 32 * 2 * 18
        assert tiny.tensor("blk.0.attn_k.weight") is info

    def test_missing_tensor(self, tiny: ModelFile) -> None:
        with pytest.raises(ModelFileError, match=r"the tensor 'output\.weight' of shape \(320, 64\) is required, but"):
            tiny.tensor("output.weight", (320, 64))

    def test_wrong_shape(self, tiny: ModelFile) -> None:
        wanted = r"tensor 'output_norm\.weight' must have the shape \(65,\), found \(64,\)"
        with pytest.raises(ModelFileError, match=wanted):
            tiny.tensor("output_norm.weight", (65,))

    def test_bytes_are_a_read_only_view_of_rows(self, tiny: ModelFile) -> None:
        rows = tiny.tensor_bytes("blk.0.attn_k.weight")
        assert rows.shape == (32, 2 * 18)
        assert rows.dtype == np.uint8
        assert not rows.flags.writeable
        assert not rows.flags.owndata
        info = tiny.tensor("blk.0.attn_k.weight")
        assert rows.tobytes() == tiny.path.read_bytes()[info.offset : info.offset + info.num_bytes]
        assert tiny.tensor_bytes("output_norm.weight").shape == (1, 64 * 4)

    def test_rows_of_three_dimensions(self, written: Callable[[bytes], Path]) -> None:
        data = bytes(range(96))
        with open_model_file(written(gguf_bytes(tensors=[tensor("t", (2, 3, 4))], data=data))) as file:
            assert file.tensor("t").shape == (4, 3, 2)
            assert file.tensor_bytes("t").shape == (12, 8)
            assert file.tensor_bytes("t")[11].tolist() == list(range(88, 96))

    def test_views_outlive_the_file(self, tiny: ModelFile) -> None:
        rows = tiny.tensor_bytes("output_norm.weight")
        before = rows.copy()
        tiny.close()
        tiny.close()
        assert (rows == before).all()
        with pytest.raises(ModelFileError, match="it is closed"):
            tiny.tensor_bytes("output_norm.weight")

    @pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of maps")
    def test_the_map_goes_with_the_last_view(self, tiny: ModelFile) -> None:
        def is_mapped() -> bool:
            return str(tiny.path) in Path("/proc/self/maps").read_text()

        rows = tiny.tensor_bytes("output_norm.weight")
        tiny.close()
        assert is_mapped()
        del rows
        assert not is_mapped()


def assert_agrees_with_gguf_package(path: Path) -> None:
    reader = gguf.GGUFReader(path)
    with open_model_file(path) as file:
        fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
        assert list(file.metadata) == list(fields)
        for name, field in fields.items():
            found = file.metadata[name]
            assert (found.tolist() if isinstance(found, np.ndarray) else found) == field.contents()
        assert list(file.tensors) == [tensor.name for tensor in reader.tensors]
        for other in reader.tensors:
            info = file.tensors[other.name]
            assert info.shape == tuple(reversed(other.shape.tolist()))
            assert (info.type, info.offset, info.num_bytes) == (other.tensor_type, other.data_offset, other.n_bytes)
            assert file.tensor_bytes(other.name).tobytes() == other.data.tobytes()


def test_released_bytes_are_read_again(tmp_path):
    path = write_tiny_gguf(tmp_path / "tiny.gguf", quantisation="F32", vocab_size=2000)
    with open_model_file(path) as model_file:
        before = model_file.tensor_bytes("token_embd.weight").copy()
        for name in model_file.tensors:
            model_file.release(name)
        assert (model_file.tensor_bytes("token_embd.weight") == before).all()
    model_file.release("token_embd.weight")
