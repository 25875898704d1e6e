"""Numbers from a model file's metadata, checked for sense, and the errors for those that make none.

Knows nothing of architectures: which keys there are and how numbers must fit together is said elsewhere.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

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
