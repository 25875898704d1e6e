"""Rotary position embedding as a model file describes it: which elements of a head turn, and how fast.

Both backends read their angles from here, so that they cannot disagree. How an angle is applied to a head is theirs.
Formulas: Su et al., "RoFormer" (arXiv:2104.09864); Peng et al., "YaRN" (arXiv:2309.00071). Factors per frequency:
Llama 3.1, in GGUF the tensor `rope_freqs.weight`.
"""

from __future__ import annotations

import math
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
class Yarn:
    """Scaling that leaves fast pairs as they were trained and slows the others down, with a ramp between (YaRN).

    Attributes:
        original_length: The context length in tokens before scaling.
        fast_turns: A pair that turns so often within the original length stays as it is.
        slow_turns: One that turns no more often than this is slowed down by the whole factor.
        attention_factor: Turned queries and keys are multiplied by it, beside what the factor of scaling asks for.
    """

    original_length: int
    fast_turns: float = 32.0
    slow_turns: float = 1.0
    attention_factor: float = 1.0

    def shares_kept(self, num_dimensions: int, base: float) -> NDArray[np.float64]:
        """Returns how much of each pair's trained frequency stays, 0 to 1, float64[num_dimensions / 2]."""
        low = max(0.0, math.floor(self._pair_turning(self.fast_turns, num_dimensions, base)))
        high = min(num_dimensions - 1.0, math.ceil(self._pair_turning(self.slow_turns, num_dimensions, base)))
        ramp = (np.arange(num_dimensions // 2) - low) / max(0.001, high - low)
        shares: NDArray[np.float64] = 1.0 - np.clip(ramp, 0.0, 1.0)
        return shares

    def _pair_turning(self, turns: float, num_dimensions: int, base: float) -> float:
        """Returns which pair turns so often within the original length; a fraction stands between two."""
        return num_dimensions * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(base))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotary:
    """How the heads of a layer turn with the position.

    Pair i of a head turns by `position * frequencies()[i]` radians, and is multiplied by `magnitude`.

    Attributes:
        layout: Pair i is made of the elements 2i and 2i + 1 ("interleaved"), or i and i + num_dimensions / 2
            ("half_split").
        num_dimensions: How many leading elements of a head turn; the rest stay as they are.
        base: The base of the geometric series of frequencies.
        scaling_factor: Every frequency is divided by it (position interpolation), or with `yarn` the slow ones; 1
            changes nothing.
        frequency_factors: Frequency i is divided by the i-th of them; None changes nothing.
        yarn: Which frequencies the factor of scaling is for; None for all.
    """

    layout: RotaryLayout
    num_dimensions: int
    base: float
    scaling_factor: float = 1.0
    frequency_factors: tuple[float, ...] | None = None
    yarn: Yarn | None = None

    def frequencies(self) -> NDArray[np.float64]:
        """Returns the radians per position of each pair, float64[num_dimensions / 2]."""
        exponents = np.arange(0, self.num_dimensions, 2, dtype=np.float64) / self.num_dimensions
        frequencies = np.power(self.base, -exponents)
        if self.frequency_factors is not None:
            frequencies /= np.asarray(self.frequency_factors, dtype=np.float64)
        if self.yarn is None:
            return frequencies / self.scaling_factor
        kept = self.yarn.shares_kept(self.num_dimensions, self.base)
        return frequencies * (kept + (1.0 - kept) / self.scaling_factor)

    @property
    def magnitude(self) -> float:
        """What turned elements are multiplied by (YaRN's temperature, equation 22)."""
        if self.yarn is None:
            return 1.0
        return self.yarn.attention_factor * (1.0 + 0.1 * math.log(self.scaling_factor))


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
    kind = _scaling_kind(model_file, prefix)
    base = positive_float(model_file, base_key, model_file.get(base_key, float, 10_000.0))
    return Rotary(
        layout=layout,
        num_dimensions=num_dimensions,
        base=base,
        scaling_factor=1.0 if kind == "none" else _scaling_factor(model_file, prefix),
        frequency_factors=_frequency_factors(model_file, num_dimensions // 2),
        yarn=_yarn(model_file, prefix, base) if kind == "yarn" else None,
    )


def _scaling_kind(model_file: ModelFile, prefix: str) -> str:
    """Returns how frequencies are scaled; a file that does not say has a factor for all of them, or none."""
    kind = model_file.get(f"{prefix}scaling.type", str, "linear")
    if kind not in ("none", "linear", "yarn"):
        raise unsupported(
            model_file,
            f"the key '{prefix}scaling.type' must be 'none', 'linear' or 'yarn', found {kind!r}. "
            "Use a file of the model without an extended context.",
        )
    return kind


def _scaling_factor(model_file: ModelFile, prefix: str) -> float:
    """Returns what frequencies are divided by; a missing factor, or 0, stands for none."""
    old_key = f"{prefix}scale_linear"
    key = f"{prefix}scaling.factor" if f"{prefix}scaling.factor" in model_file.metadata else old_key
    factor = model_file.get(key, float, 0.0)
    return 1.0 if factor == 0.0 else positive_float(model_file, key, factor)


def _yarn(model_file: ModelFile, prefix: str, base: float) -> Yarn:
    """Reads YaRN's settings; what is assumed where a key is missing is what llama.cpp assumes."""
    if base <= 1.0:
        raise damaged(model_file, f"the key '{prefix}freq_base' must be above 1 for YaRN, found {base}.")
    for key in (f"{prefix}scaling.yarn_ext_factor", f"{prefix}scaling.yarn_attn_factor"):
        if model_file.get(key, float, 1.0) != 1.0:
            raise unsupported(
                model_file, f"the key {key!r} must be absent or 1, found {model_file.get(key, float, 1.0):g}."
            )
    length_key = f"{prefix}scaling.original_context_length"
    context_length = model_file.require(f"{model_file.architecture}.context_length", int)
    length = model_file.get(length_key, int, context_length)

    def number(name: str, default: float) -> float:
        return positive_float(model_file, prefix + name, model_file.get(prefix + name, float, default))

    return Yarn(
        original_length=int(positive_float(model_file, length_key, length)),
        fast_turns=number("scaling.yarn_beta_fast", 32.0),
        slow_turns=number("scaling.yarn_beta_slow", 1.0),
        attention_factor=number("scaling.attn_factor", 1.0),
    )


def _frequency_factors(model_file: ModelFile, num_pairs: int) -> tuple[float, ...] | None:
    """Returns the divisors of the frequencies, if the file has any."""
    if FREQUENCY_FACTORS not in model_file.tensors:
        return None
    info = model_file.tensor(FREQUENCY_FACTORS, (num_pairs,))
    if info.type.name != "F32":
        raise unsupported(model_file, f"the tensor {FREQUENCY_FACTORS!r} must be of type F32, found {info.type.name}.")
    values = model_file.tensor_bytes(FREQUENCY_FACTORS).reshape(-1).view("<f4").tolist()
    return tuple(positive_float(model_file, FREQUENCY_FACTORS, value) for value in values)
