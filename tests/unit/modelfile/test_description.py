from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest

from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.modelfile.architectures import ARCHITECTURES
from cera_core.modelfile.blocks import ConvolutionDescription
from cera_core.modelfile.description import describe
from cera_core.modelfile.gguf import ModelFile, open_model_file
from support.tiny_gguf import write_tiny_gguf

Open = Callable[..., ModelFile]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Open]:
    """Opens a tiny model; the arguments are those of `write_tiny_gguf`."""

    def open_tiny(**options: Any) -> ModelFile:
        return open_model_file(write_tiny_gguf(tmp_path / "tiny.gguf", **{"quantisation": "F32", **options}))

    return open_tiny


def with_metadata(model_file: ModelFile, **changes: Any) -> ModelFile:
    """Sets keys below the architecture's own, dots written as two underscores; None takes the key away."""
    metadata = dict(model_file.metadata)
    for name, value in changes.items():
        key = f"{model_file.architecture}.{name.replace('__', '.')}"
        metadata[key] = value
        if value is None:
            del metadata[key]
    model_file.metadata = metadata
    return model_file


def with_tensors(model_file: ModelFile, **changes: tuple[int, ...] | None) -> ModelFile:
    """Gives tensors another shape, adds new ones, or with None takes them away; dots written as two underscores."""
    tensors = dict(model_file.tensors)
    for written, shape in changes.items():
        name = written.replace("__", ".")
        if shape is None:
            del tensors[name]
        else:
            tensors[name] = replace(tensors.get(name, tensors["output_norm.weight"]), name=name, shape=shape)
    model_file.tensors = tensors
    return model_file


class TestDescribing:
    @pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
    def test_every_layer_has_the_tensors_of_its_architecture(self, tiny: Open, architecture: str) -> None:
        model = describe(tiny(architecture=architecture, num_layers=3))
        parts = ARCHITECTURES[architecture]
        for layer in model.layers:
            mixer = parts.convolution if isinstance(layer.mixer, ConvolutionDescription) else parts.attention
            feed_forward = parts.experts if layer.experts else parts.feed_forward
            assert set(layer.tensors) == {role.name for role in (*mixer, *feed_forward) if role.required}
        assert model.layers[2].tensors["ffn_norm.weight"].name == "blk.2.ffn_norm.weight"

    def test_numbers_come_from_the_file(self, tiny: Open) -> None:
        model = describe(
            tiny(num_heads=6, num_kv_heads=3, head_dim=8, hidden_size=32, feed_forward_size=96, context_length=77)
        )
        layer = model.layers[0]
        assert (layer.mixer.num_heads, layer.mixer.num_kv_heads, model.head_dim, layer.feed_forward_size) == (
            6,
            3,
            8,
            96,
        )
        assert (model.config.hidden_size, model.config.max_seq_len, model.config.num_layers) == (32, 77, 2)
        assert model.rms_eps == pytest.approx(1e-5)

    def test_size_of_a_head_is_an_equal_share_where_the_file_does_not_say(self, tiny: Open) -> None:
        model_file = with_metadata(tiny(), attention__key_length=None, attention__value_length=None)
        assert describe(model_file).head_dim == 64 // 4

    def test_every_query_head_has_its_own_keys_where_the_file_does_not_say(self, tiny: Open) -> None:
        model_file = with_metadata(tiny(num_kv_heads=4), attention__head_count_kv=None)
        assert describe(model_file).layers[0].mixer.num_kv_heads == 4

    def test_tied_head_is_the_embedding_and_is_counted_once(self, tiny: Open) -> None:
        tied, untied = describe(tiny(tied=True)), describe(tiny(tied=False))
        assert tied.tensors["output.weight"].name == "token_embd.weight"
        assert untied.tensors["output.weight"].name == "output.weight"
        assert untied.config.num_parameters - tied.config.num_parameters == 320 * 64

    def test_bytes_read_leave_out_an_embedding_that_is_only_looked_up(self, tiny: Open) -> None:
        assert describe(tiny(tied=True)).config.file_size == describe(tiny(tied=False)).config.file_size

    def test_optional_biases_are_found(self, tiny: Open) -> None:
        model_file = with_tensors(tiny(architecture="llama"), blk__0__attn_output__bias=(64,))
        first, second = describe(model_file).layers
        assert "attn_output.bias" in first.tensors
        assert "attn_output.bias" not in second.tensors


class TestRefusing:
    def test_an_unknown_architecture_with_the_nearest_known(self, tiny: Open) -> None:
        model_file = tiny()
        model_file.architecture = "lama"
        with pytest.raises(
            UnsupportedModelError, match=r"one of gemma3, .*, qwen3moe, found 'lama'.*Did you mean 'llama'"
        ):
            describe(model_file)

    def test_an_architecture_like_no_other(self, tiny: Open) -> None:
        model_file = tiny()
        model_file.architecture = "bert"
        with pytest.raises(UnsupportedModelError, match=r"found 'bert'\.$"):
            describe(model_file)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"block_count": 0}, "'llama.block_count' must be at least 1, found 0"),
            ({"block_count": 1 << 62}, "'blk.2.attn_norm.weight' of shape .* is required, but missing"),
            ({"block_count": "two"}, "'llama.block_count' must be of type int"),
            ({"context_length": -1}, "'llama.context_length' must be at least 1, found -1"),
            ({"context_length": None}, "'llama.context_length' .* is required"),
            ({"attention__head_count": 0}, "'llama.attention.head_count' must be at least 1"),
            ({"attention__head_count_kv": 3}, "must divide the number of heads, 4, found 3"),
            ({"attention__head_count_kv": 0}, "must divide the number of heads, 4, found 0"),
            ({"attention__key_length": 15}, "size of a head must be even and at least 2, found 15"),
            ({"attention__key_length": 0}, "size of a head must be even and at least 2, found 0"),
            (
                {"attention__key_length": None, "attention__head_count": 3},
                "must be a multiple of the number of heads, 3",
            ),
            ({"attention__layer_norm_rms_epsilon": float("nan")}, "must lie between 0 and 1, found nan"),
            ({"attention__layer_norm_rms_epsilon": 0.0}, "must lie between 0 and 1, found 0.0"),
            ({"attention__layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon' .* is required"),
            ({"embedding_length": 65}, "'token_embd.weight' must have the shape"),
            ({"feed_forward_length": 127}, "'blk.0.ffn_gate.weight' must have the shape"),
        ],
        ids=str,
    )
    def test_numbers_that_do_not_fit(self, tiny: Open, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ModelFileError, match=message) as caught:
            describe(with_metadata(tiny(), **changes))
        assert "tiny.gguf" in str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"blk__1__attn_k__weight": None}, "'blk.1.attn_k.weight' of shape .* is required, but missing"),
            ({"blk__1__attn_k__weight": (64, 32)}, r"must have the shape \(32, 64\), found \(64, 32\)"),
            ({"blk__0__attn_q__bias": (63,)}, r"'blk.0.attn_q.bias' must have the shape \(64,\)"),
            ({"token_embd__weight": (320,)}, "'token_embd.weight' must have two dimensions"),
            ({"token_embd__weight": (319, 64)}, "must have a row for each of the 320 tokens, found 319"),
        ],
        ids=str,
    )
    def test_tensors_that_do_not_fit(self, tiny: Open, changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ModelFileError, match=message):
            describe(with_tensors(tiny(), **changes))

    @pytest.mark.parametrize("setting", ["expert_count", "attention__scale", "final_logit_softcapping"])
    def test_a_setting_that_would_change_the_arithmetic(self, tiny: Open, setting: str) -> None:
        with pytest.raises(UnsupportedModelError, match=r"must be absent or 0, found 8"):
            describe(with_metadata(tiny(), **{setting: 8}))

    def test_a_tensor_nobody_would_read(self, tiny: Open) -> None:
        model_file = with_tensors(tiny(architecture="qwen3"), blk__0__post_attention_norm__weight=(64,))
        with pytest.raises(UnsupportedModelError, match=r"no place for 1 of its tensors.*post_attention_norm"):
            describe(model_file)

    def test_values_of_another_size_than_keys(self, tiny: Open) -> None:
        with pytest.raises(UnsupportedModelError, match="value_length' must equal the size of a key, 16, found 8"):
            describe(with_metadata(tiny(), attention__value_length=8))


class TestRotary:
    def test_layouts(self, tiny: Open) -> None:
        layouts = {name: describe(tiny(architecture=name)).layers[1].mixer.rotary.layout for name in ARCHITECTURES}
        assert {name for name, layout in layouts.items() if layout == "interleaved"} == {"granite", "llama"}

    def test_frequencies_are_a_geometric_series(self, tiny: Open) -> None:
        rotary = describe(tiny(head_dim=8, rope_freq_base=10_000.0)).layers[0].mixer.rotary
        assert rotary.frequencies() == pytest.approx([1.0, 0.1, 0.01, 0.001])

    def test_defaults_are_base_10000_and_the_whole_head(self, tiny: Open) -> None:
        model_file = with_metadata(tiny(head_dim=8), rope__freq_base=None, rope__dimension_count=None)
        assert describe(model_file).layers[0].mixer.rotary.frequencies() == pytest.approx([1.0, 0.1, 0.01, 0.001])

    @pytest.mark.parametrize(
        "settings",
        [
            {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0},
            {"rope__scaling__factor": 4.0},
            {"rope__scale_linear": 4.0},
        ],
        ids=str,
    )
    def test_linear_scaling_divides_every_frequency(self, tiny: Open, settings: dict[str, Any]) -> None:
        rotary = describe(with_metadata(tiny(head_dim=4), **settings)).layers[0].mixer.rotary
        assert rotary.frequencies() == pytest.approx([0.25, 0.0025])

    @pytest.mark.parametrize(
        "settings",
        [{"rope__scaling__type": "none", "rope__scaling__factor": 4.0}, {"rope__scaling__factor": 0.0}],
        ids=str,
    )
    def test_no_scaling(self, tiny: Open, settings: dict[str, Any]) -> None:
        rotary = describe(with_metadata(tiny(head_dim=4), **settings)).layers[0].mixer.rotary
        assert rotary.frequencies() == pytest.approx([1.0, 0.01])

    def test_frequency_factors_divide_one_frequency_each(self, tiny: Open) -> None:
        model_file = tiny(head_dim=4, rope_factors=True)
        factors = gguf.dequantize(model_file.tensor_bytes("rope_freqs.weight"), gguf.GGMLQuantizationType.F32)
        rotary = describe(model_file).layers[0].mixer.rotary
        assert rotary.frequencies() == pytest.approx([1.0 / factors[0, 0], 0.01 / factors[0, 1]])

    def test_frequency_factors_must_be_above_0(self, tiny: Open, tmp_path: Path) -> None:
        model_file = tiny(head_dim=4, rope_factors=True)
        info = model_file.tensor("rope_freqs.weight")
        path = tmp_path / "tiny.gguf"
        data = bytearray(path.read_bytes())
        data[info.offset : info.offset + 4] = b"\x00\x00\xc0\x7f"  # not a number
        path.write_bytes(data)
        with pytest.raises(ModelFileError, match=r"'rope_freqs.weight' must be finite and above 0, found nan"):
            describe(open_model_file(path))

    @pytest.mark.parametrize(
        ("changes", "error", "message"),
        [
            (
                {"rope__scaling__type": "longrope"},
                UnsupportedModelError,
                "'none', 'linear' or 'yarn', found 'longrope'",
            ),
            ({"rope__scaling__factor": -2.0}, ModelFileError, "must be finite and above 0, found -2.0"),
            ({"rope__freq_base": float("inf")}, ModelFileError, "'llama.rope.freq_base' must be finite"),
            ({"rope__dimension_count": 7}, ModelFileError, "must be even, at least 2 and at most"),
            ({"rope__dimension_count": 18}, ModelFileError, "must be even, at least 2 and at most"),
            ({"rope__dimension_count": 0}, ModelFileError, "must be even, at least 2 and at most"),
        ],
        ids=str,
    )
    def test_settings_that_make_no_sense(
        self, tiny: Open, changes: dict[str, Any], error: type[Exception], message: str
    ) -> None:
        with pytest.raises(error, match=message):
            describe(with_metadata(tiny(), **changes))
