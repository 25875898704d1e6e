"""Random weights in any storage type: quantised where `gguf` can quantise, else random blocks scaled to fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from numpy.typing import NDArray

QUANTISABLE = (
    Type.F32, Type.F16, Type.BF16, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.TQ1_0, Type.TQ2_0,
    Type.MXFP4,
)  # fmt: skip


@dataclass(frozen=True)
class BlockLayout:
    """Where a block keeps its float16 scale and minimum, and how many scales the minimum is worth."""

    scale: int
    minimum: int | None = None
    scales_per_minimum: float = 0.0


# The minimum is taken times half the largest quant, so that the weights are about 0 on average.
BLOCK_LAYOUTS: Mapping[Type, BlockLayout] = {
    Type.Q2_K: BlockLayout(scale=80, minimum=82, scales_per_minimum=1.5),
    Type.Q3_K: BlockLayout(scale=108),
    Type.Q4_K: BlockLayout(scale=0, minimum=2, scales_per_minimum=7.5),
    Type.Q5_K: BlockLayout(scale=0, minimum=2, scales_per_minimum=15.5),
    Type.Q6_K: BlockLayout(scale=208),
    Type.IQ1_S: BlockLayout(scale=0),
    Type.IQ2_XXS: BlockLayout(scale=0),
    Type.IQ2_XS: BlockLayout(scale=0),
    Type.IQ2_S: BlockLayout(scale=0),
    Type.IQ3_XXS: BlockLayout(scale=0),
    Type.IQ3_S: BlockLayout(scale=0),
    Type.IQ4_NL: BlockLayout(scale=0),
    Type.IQ4_XS: BlockLayout(scale=0),
}
# Rows of a larger tensor repeat: a file of a thousand million weights is written in seconds.
MOST_DISTINCT = 1 << 20
WEIGHT_TYPES = (*QUANTISABLE, *BLOCK_LAYOUTS, Type.IQ1_M, Type.NVFP4)


def block_length(weight_type: Type) -> int:
    """Returns the number a row length must be a multiple of."""
    return int(gguf.GGML_QUANT_SIZES[weight_type][0])


def random_weights(
    rng: np.random.Generator, shape: tuple[int, ...], weight_type: Type, deviation: float
) -> NDArray[Any]:
    """Makes a tensor of this shape whose weights, as stored, have about this standard deviation and mean 0."""
    if len(shape) == 2 and shape[0] * shape[1] > MOST_DISTINCT:
        distinct = random_weights(rng, (MOST_DISTINCT // shape[1], shape[1]), weight_type, deviation)
        return np.resize(distinct, (shape[0], distinct.shape[1]))
    if weight_type in QUANTISABLE:
        weights = rng.standard_normal(shape, np.float32) * np.float32(deviation)
        return gguf.quantize(weights, weight_type)
    return _random_blocks(rng, shape, weight_type, deviation)


def _random_blocks(
    rng: np.random.Generator, shape: tuple[int, ...], weight_type: Type, deviation: float
) -> NDArray[np.uint8]:
    length, num_bytes = gguf.GGML_QUANT_SIZES[weight_type]
    num_blocks = int(np.prod(shape)) // length
    blocks = rng.integers(0, 256, (num_blocks, num_bytes), np.uint8)
    if weight_type in (Type.Q4_K, Type.Q5_K):
        blocks[:, 4:12] |= 0xA0  # every 6-bit scale and minimum is at least 32
    relative_scales = rng.uniform(0.5, 1.5, num_blocks)
    _set_scales(blocks, weight_type, relative_scales)
    scale = deviation / gguf.dequantize(blocks, weight_type).std()
    _set_scales(blocks, weight_type, relative_scales * scale)
    return blocks.reshape(*shape[:-1], -1)


def _set_scales(blocks: NDArray[np.uint8], weight_type: Type, scales: NDArray[np.float64]) -> None:
    if weight_type is Type.IQ1_M:
        _set_scattered_scales(blocks, scales)
    elif weight_type is Type.NVFP4:
        blocks[:, :4] = gguf.quants.NVFP4.fp32_to_ue4m3(2 * scales)[:, np.newaxis]  # stored twice as large
    else:
        layout = BLOCK_LAYOUTS[weight_type]
        blocks[:, layout.scale : layout.scale + 2] = _as_bytes(scales)
        if layout.minimum is not None:
            blocks[:, layout.minimum : layout.minimum + 2] = _as_bytes(scales * layout.scales_per_minimum)


def _set_scattered_scales(blocks: NDArray[np.uint8], scales: NDArray[np.float64]) -> None:
    """Puts the four nibbles of a float16, the lowest first, at the top of the block's last four 16-bit words."""
    bits = scales.astype("<f2").view("<u2")
    for nibble, byte in enumerate(range(49, 56, 2)):
        top = (bits >> (4 * nibble) & 0xF).astype(np.uint8) << 4
        blocks[:, byte] = blocks[:, byte] & 0x0F | top


def _as_bytes(values: NDArray[np.float64]) -> NDArray[np.uint8]:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)
