"""What the native backend can run: the weight types there are kernels for.

Needs no extension, so that a file can be judged where none was built, and reads no weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cera_core.modelfile.description import describe
from cera_core.modelfile.hyperparameters import unsupported

if TYPE_CHECKING:
    from cera_core.modelfile.description import ModelDescription
    from cera_core.modelfile.gguf import ModelFile, TensorInfo

FLOAT_TYPES = ("F32", "F16", "BF16")
MATRIX_TYPES = (*FLOAT_TYPES, "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")

CONVOLUTION = "shortconv.conv.weight"
"""The weights of a short convolution, of which the kernel reads floats only."""


def describe_supported(model_file: ModelFile) -> ModelDescription:
    """Fits a model file to its architecture, if there is a kernel for each of its tensors.

    Raises:
        UnsupportedModelError: The architecture or a type of weights is not there.
        ModelFileError: The file is damaged.
    """
    description = describe(model_file)
    for tensors in (description.tensors, *(layer.tensors for layer in description.layers)):
        for info in tensors.values():
            _check_type(model_file, info)
    return description


def _check_type(model_file: ModelFile, info: TensorInfo) -> None:
    allowed = FLOAT_TYPES if len(info.shape) == 1 or info.name.endswith(CONVOLUTION) else MATRIX_TYPES
    if info.type.name not in allowed:
        raise unsupported(
            model_file,
            f"the tensor {info.name!r} must be of one of the types {', '.join(allowed)} for the native backend, found "
            f"{info.type.name}. Use the backend 'numpy' or another file.",
        )
