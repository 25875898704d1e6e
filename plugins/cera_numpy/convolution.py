"""The gated short convolution of one block (LFM2, https://arxiv.org/abs/2511.23404)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cera_numpy.weights import Matrix, StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cera_numpy.execution import Execution
    from cera_numpy.weights import Floats


class ShortConvolution:
    """Mixes each channel of a token with the same channel of the few tokens before it."""

    def __init__(self, stored: Mapping[str, StoredTensor], execution: Execution) -> None:
        self._in = Matrix([stored["shortconv.in_proj.weight"]], execution)
        self._out = Matrix([stored["shortconv.out_proj.weight"]], execution)
        self._taps = np.ascontiguousarray(stored["shortconv.conv.weight"].rows(slice(None)).T)  # the newest last

    def forward(self, x: Floats, before: Floats) -> tuple[Floats, Floats]:
        """Mixes rows with those before them.

        The convolution is a sum over taps of whole rows, so that a row's bits do not depend on how many there are.

        Args:
            x: float32[n, hidden_size].
            before: float32[taps - 1, hidden_size], what went into the convolution before.

        Returns:
            float32[n, hidden_size], and what went into the convolution, float32[n, hidden_size].
        """
        gate_before, gate_after, value = np.split(self._in.product(x), 3, axis=1)
        entries = gate_before * value
        seen = np.concatenate([before, entries])
        mixed = seen[: len(x)] * self._taps[0]
        for age, tap in enumerate(self._taps[1:], start=1):
            mixed += seen[age : age + len(x)] * tap
        return self._out.product(gate_after * mixed), entries
