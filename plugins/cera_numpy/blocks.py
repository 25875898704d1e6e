"""One transformer block: norm, mixer, residual sum, norm, feed-forward, residual sum.

The block is the same for every architecture of the table; what an architecture lacks (norms after mixer and
feed-forward) is left out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cera_core.modelfile.blocks import ConvolutionDescription
from cera_numpy.attention import Attention
from cera_numpy.cache import ConvolutionCache, LayerCache
from cera_numpy.convolution import ShortConvolution
from cera_numpy.feed_forward import Experts, FeedForward
from cera_numpy.layers import rms_norm
from cera_numpy.weights import StoredTensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from cera_core.modelfile.blocks import LayerDescription
    from cera_core.modelfile.description import ModelDescription
    from cera_core.modelfile.gguf import ModelFile
    from cera_numpy.execution import Execution
    from cera_numpy.positions import Positions
    from cera_numpy.weights import Floats

    Norm: TypeAlias = Callable[[Floats], Floats]


class Block:
    """Computes one block."""

    def __init__(
        self, model_file: ModelFile, model: ModelDescription, layer: LayerDescription, execution: Execution
    ) -> None:
        """Reads the weights of one of the layers of `model`."""
        self._residual_scale = np.float32(model.residual_scale)
        stored = {role: StoredTensor(model_file, info) for role, info in layer.tensors.items()}

        def norm(name: str) -> Norm:
            if f"{name}.weight" not in stored:
                return lambda x: x
            scale = partial(rms_norm, weight=stored[f"{name}.weight"].vector(), eps=model.rms_eps)
            return partial(execution.apply, scale)

        self._norm_before_mixer, self._norm_after_mixer = norm("attn_norm"), norm("post_attention_norm")
        self._norm_before_feed_forward, self._norm_after_feed_forward = norm("ffn_norm"), norm("post_ffw_norm")
        self._mixer: Attention | ShortConvolution
        if isinstance(layer.mixer, ConvolutionDescription):
            self._mixer = ShortConvolution(stored, execution)
        else:
            self._mixer = Attention(stored, model, layer.mixer, execution)
        activation = model.architecture.activation
        self._feed_forward: Experts | FeedForward
        if layer.experts:
            self._feed_forward = Experts(stored, layer.experts, activation, execution)
        else:
            three = (stored[f"ffn_{name}.weight"] for name in ("gate", "up", "down"))
            self._feed_forward = FeedForward(*three, activation, execution)

    def forward(
        self, x: Floats, positions: Positions, cache: LayerCache | ConvolutionCache
    ) -> tuple[Floats, Floats | None]:
        """Sends rows through the block; keys and values are written to the cache.

        Args:
            x: float32[n, hidden_size], the residual stream.
            positions: Where the rows stand.
            cache: This layer's; the tokens before are in it, and there is room for n more.

        Returns:
            float32[n, hidden_size], and what went into a convolution, to be written when the forward has succeeded.
        """
        entries = None
        normed = self._norm_before_mixer(x)
        if isinstance(self._mixer, ShortConvolution) and isinstance(cache, ConvolutionCache):
            mixed, entries = self._mixer.forward(normed, cache.before(positions.start))
        else:
            mixed = self._mixer.forward(normed, positions, cache)
        x = x + self._norm_after_mixer(mixed) * self._residual_scale
        fed = self._feed_forward.forward(self._norm_before_feed_forward(x))
        return x + self._norm_after_feed_forward(fed) * self._residual_scale, entries
