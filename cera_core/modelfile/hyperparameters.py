"""Numbers from a model file's metadata, checked for sense, and the errors for those that make none.

Knows nothing of architectures: which keys there are and how numbers must fit together is said elsewhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import ModelFileError, UnsupportedModelError

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import ModelFile


def damaged(model_file: ModelFile, problem: str) -> ModelFileError:
    """Makes the error for a file that contradicts itself."""
    return ModelFileError(f"Model file {str(model_file.path)!r}: {problem} The file is damaged; fetch it again.")


def unsupported(model_file: ModelFile, problem: str) -> UnsupportedModelError:
    """Makes the error for a sound file that asks for something that is not there."""
    return UnsupportedModelError(f"Model file {str(model_file.path)!r}: {problem}")


def positive_int(model_file: ModelFile, key: str) -> int:
    """Returns the required value of `key`, at least 1."""
    value = model_file.require(key, int)
    if value < 1:
        raise damaged(model_file, f"the key {key!r} must be at least 1, found {value}.")
    return value


def positive_float(model_file: ModelFile, name: str, value: float) -> float:
    """Returns `value`, which `name` stands for, if it is finite and above 0."""
    if not (math.isfinite(value) and value > 0.0):
        raise damaged(model_file, f"{name!r} must be finite and above 0, found {value}.")
    return value


def int_of_block(model_file: ModelFile, key: str, block: int, default: int | None = None) -> int:
    """Returns the whole number `key` gives for a block: one for all of them, or a list with one for each.

    Args:
        model_file: An open model file.
        key: The full key.
        block: The block's number, from 0.
        default: What holds where the key is missing; None requires it.
    """
    values = model_file.metadata.get(key)
    if not isinstance(values, np.ndarray):
        return model_file.require(key, int) if default is None else model_file.get(key, int, default)
    if block >= len(values) or not (np.issubdtype(values.dtype, np.integer) or values.dtype == np.bool_):
        raise damaged(
            model_file,
            f"the key {key!r} must have a whole number for each block; it has {len(values)} of type {values.dtype}.",
        )
    return int(values[block])
