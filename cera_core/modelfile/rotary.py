"""Rotary position embedding as a model file describes it: which elements of a head turn, and how fast.

Both backends read their angles from here, so that they cannot disagree. How an angle is applied to a head is theirs.
Formula: Su et al., "RoFormer" (arXiv:2104.09864). Factors per frequency: Llama 3.1, in GGUF the tensor
`rope_freqs.weight`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from cera_core.modelfile.hyperparameters import damaged, positive_float, unsupported

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cera_core.modelfile.gguf import ModelFile

RotaryLayout: TypeAlias = Literal["interleaved", "half_split"]

FREQUENCY_FACTORS = "rope_freqs.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """How the heads of a layer turn with the position.

    Pair i of a head turns by `position * frequencies()[i]` radians.

    Attributes:
        layout: Pair i is made of the elements 2i and 2i + 1 ("interleaved"), or i and i + num_dimensions / 2
            ("half_split").
        num_dimensions: How many leading elements of a head turn; the rest stay as they are.
        base: The base of the geometric series of frequencies.
        linear_factor: Every frequency is divided by it (position interpolation); 1 changes nothing.
        frequency_factors: Frequency i is divided by the i-th of them; None changes nothing.
    """

    layout: RotaryLayout
    num_dimensions: int
    base: float
    linear_factor: float = 1.0
    frequency_factors: tuple[float, ...] | None = None

    def frequencies(self) -> NDArray[np.float64]:
        """Returns the radians per position of each pair, float64[num_dimensions / 2]."""
        exponents = np.arange(0, self.num_dimensions, 2, dtype=np.float64) / self.num_dimensions
        frequencies = np.power(self.base, -exponents) / self.linear_factor
        if self.frequency_factors is not None:
            frequencies /= np.asarray(self.frequency_factors, dtype=np.float64)
        return frequencies


def read_rotary(model_file: ModelFile, layout: RotaryLayout, head_dim: int) -> Rotary:
    """Reads the rotary settings of a model file.

    Raises:
        ModelFileError: A setting makes no sense.
        UnsupportedModelError: The file asks for a kind of scaling that is not there.
    """
    prefix = f"{model_file.architecture}.rope."
    count_key, base_key = f"{prefix}dimension_count", f"{prefix}freq_base"
    num_dimensions = model_file.get(count_key, int, head_dim)
    if not 0 < num_dimensions <= head_dim or num_dimensions % 2:
        raise damaged(
            model_file,
            f"the key {count_key!r} must be even, at least 2 and at most the size of a head, {head_dim}, "
            f"found {num_dimensions}.",
        )
    return Rotary(
        layout=layout,
        num_dimensions=num_dimensions,
        base=positive_float(model_file, base_key, model_file.get(base_key, float, 10_000.0)),
        linear_factor=_linear_factor(model_file, prefix),
        frequency_factors=_frequency_factors(model_file, num_dimensions // 2),
    )


def _linear_factor(model_file: ModelFile, prefix: str) -> float:
    """Returns what positions are divided by; a missing factor, or 0, stands for none."""
    kind = model_file.get(f"{prefix}scaling.type", str, "linear")
    if kind == "none":
        return 1.0
    if kind != "linear":
        raise unsupported(
            model_file,
            f"the key '{prefix}scaling.type' must be 'none' or 'linear', found {kind!r}. "
            "Use a file of the model without an extended context.",
        )
    old_key = f"{prefix}scale_linear"
    key = f"{prefix}scaling.factor" if f"{prefix}scaling.factor" in model_file.metadata else old_key
    factor = model_file.get(key, float, 0.0)
    return 1.0 if factor == 0.0 else positive_float(model_file, key, factor)


def _frequency_factors(model_file: ModelFile, num_pairs: int) -> tuple[float, ...] | None:
    """Returns the divisors of the frequencies, if the file has any."""
    if FREQUENCY_FACTORS not in model_file.tensors:
        return None
    info = model_file.tensor(FREQUENCY_FACTORS, (num_pairs,))
    if info.type.name != "F32":
        raise unsupported(model_file, f"the tensor {FREQUENCY_FACTORS!r} must be of type F32, found {info.type.name}.")
    values = model_file.tensor_bytes(FREQUENCY_FACTORS).reshape(-1).view("<f4").tolist()
    return tuple(positive_float(model_file, FREQUENCY_FACTORS, value) for value in values)
