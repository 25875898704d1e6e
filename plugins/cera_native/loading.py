"""From a model file to a native model: hands over numbers and tensors, which the extension checks again and packs.

The packed weights are a copy, so the file is not needed once a model is loaded.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from cera_core.modelfile.blocks import AttentionDescription, ConvolutionDescription, LayerDescription
from cera_native._native import Model as Weights
from cera_native.backend import LARGEST_LENGTH, NativeModel
from cera_native.support import CONVOLUTION, describe_supported
from cera_native.threads import default_num_threads

if TYPE_CHECKING:
    from cera_core.modelfile.description import ModelDescription
    from cera_core.modelfile.gguf import ModelFile, TensorInfo
    from cera_native import NativeOptions

INSTRUCTION_SET_VARIABLE = "CERA_NATIVE_ISA"
OUTSIDE = -1  # in place of a layer's number


def load_model(model_file: ModelFile, options: NativeOptions) -> NativeModel:
    """Packs the weights of a file.

    Raises:
        InvalidInputError: The instruction set asked for is not there.
        UnsupportedModelError: There is no kernel for a part of it.
        ModelFileError: The file cannot be loaded.
        ModelError: There is not enough memory.
    """
    description = describe_supported(model_file)
    weights = _empty_weights(description, options)
    for layer in description.layers:
        _add_layer(weights, layer)
    for role, info in description.tensors.items():
        if role == "output.weight" and info.name == description.tensors["token_embd.weight"].name:
            continue  # a tied head is the embedding
        _set_tensor(weights, model_file, OUTSIDE, role, info)
    for index, layer in enumerate(description.layers):
        for role, info in layer.tensors.items():
            _set_tensor(weights, model_file, index, role, info)
    weights.finish()
    return NativeModel(description.config, weights)


def _empty_weights(description: ModelDescription, options: NativeOptions) -> Weights:
    is_default = description.attention_scale == 1.0 / math.sqrt(description.head_dim)
    return Weights(
        hidden_size=description.config.hidden_size,
        head_dim=description.head_dim,
        vocab_size=description.config.vocab_size,
        rms_eps=description.rms_eps,
        instruction_set=options.instruction_set or os.environ.get(INSTRUCTION_SET_VARIABLE, ""),
        num_threads=options.threads or default_num_threads(),
        half_cache=options.cache_type == "f16",
        embedding_scale=description.embedding_scale,
        residual_scale=description.residual_scale,
        attention_scale=0.0 if is_default else description.attention_scale,
        logit_divisor=description.logit_divisor,
        gelu=description.architecture.activation == "gelu",
        rewind_headroom=options.rewind_headroom,
    )


def _add_layer(weights: Weights, layer: LayerDescription) -> None:
    if isinstance(layer.mixer, ConvolutionDescription):
        weights.add_layer(
            num_heads=1,
            num_kv_heads=0,
            feed_forward_size=layer.feed_forward_size,
            frequencies=np.empty(0),
            interleaved=False,
        )
    else:
        _add_attention(weights, layer.mixer, layer.feed_forward_size)
    if layer.experts:
        weights.add_experts(
            num_experts=layer.experts.num_experts,
            num_used=layer.experts.num_used,
            sigmoid_gating=layer.experts.gating == "sigmoid",
        )


def _add_attention(weights: Weights, attention: AttentionDescription, feed_forward_size: int) -> None:
    weights.add_layer(
        num_heads=attention.num_heads,
        num_kv_heads=attention.num_kv_heads,
        feed_forward_size=feed_forward_size,
        frequencies=attention.rotary.frequencies(),
        interleaved=attention.rotary.layout == "interleaved",
        magnitude=attention.rotary.magnitude,
        window=min(attention.window or 0, LARGEST_LENGTH),
    )


def _set_tensor(weights: Weights, model_file: ModelFile, layer: int, role: str, info: TensorInfo) -> None:
    data, num_columns = model_file.tensor_bytes(info.name), info.shape[-1]
    if role == CONVOLUTION:  # read as one vector
        data, num_columns = data.reshape(1, -1), math.prod(info.shape)
    weights.set_tensor(
        layer=layer, role=role, name=info.name, gguf_type=int(info.type), num_columns=num_columns, data=data
    )
    model_file.release(info.name)
