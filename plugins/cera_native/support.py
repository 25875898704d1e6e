"""What the native backend can run: the parts of an architecture and the weight types there are kernels for.

Needs no extension, so that a file can be judged where none was built, and reads no weights.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cera_core.modelfile.blocks import AttentionDescription, LayerDescription
from cera_core.modelfile.description import describe
from cera_core.modelfile.hyperparameters import unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cera_core.modelfile.description import ModelDescription
    from cera_core.modelfile.gguf import ModelFile, TensorInfo

FLOAT_TYPES = ("F32", "F16", "BF16")
MATRIX_TYPES = (*FLOAT_TYPES, "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")


def describe_supported(model_file: ModelFile) -> ModelDescription:
    """Fits a model file to its architecture, if there is a kernel for all of it.

    Raises:
        UnsupportedModelError: A part of the architecture or a type of weights is not there.
        ModelFileError: The file is damaged.
    """
    description = describe(model_file)
    missing = next(_missing_parts(description), None)
    if missing:
        raise unsupported(
            model_file,
            f"the native backend has no {missing} yet, which the architecture {model_file.architecture!r} needs. Use "
            "the backend 'numpy'.",
        )
    for tensors in (description.tensors, *(layer.tensors for layer in description.layers)):
        for info in tensors.values():
            _check_type(model_file, info)
    return description


def _missing_parts(description: ModelDescription) -> Iterator[str]:
    scales = (description.embedding_scale, description.residual_scale, description.logit_divisor)
    if scales != (1.0, 1.0, 1.0) or description.attention_scale != 1.0 / math.sqrt(description.head_dim):
        yield "factors of embeddings, residual sums, attention or logits"
    if description.architecture.activation != "silu":
        yield f"gate with {description.architecture.activation.upper()}"
    for layer in description.layers:
        yield from _missing_parts_of_block(layer)


def _missing_parts_of_block(layer: LayerDescription) -> Iterator[str]:
    if not isinstance(layer.mixer, AttentionDescription):
        yield "short convolution"
    elif layer.mixer.window is not None:
        yield "sliding window"
    elif layer.mixer.rotary.yarn is not None:
        yield "rotary scaling by YaRN"
    if layer.experts is not None:
        yield "experts"
    if "post_attention_norm.weight" in layer.tensors or "post_ffw_norm.weight" in layer.tensors:
        yield "norm after attention or feed-forward"


def _check_type(model_file: ModelFile, info: TensorInfo) -> None:
    allowed = FLOAT_TYPES if len(info.shape) == 1 else MATRIX_TYPES
    if info.type.name not in allowed:
        raise unsupported(
            model_file,
            f"the tensor {info.name!r} must be of one of the types {', '.join(allowed)} for the native backend, found "
            f"{info.type.name}. Use the backend 'numpy' or another file.",
        )
