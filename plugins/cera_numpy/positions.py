"""Where the rows of a forward stand in the text, and the rotary angles there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cera_core.modelfile.rotary import Rotary
    from cera_numpy.weights import Floats


class Positions:
    """The positions from `start` on, of `num_rows` rows; angles are computed once for all layers that turn alike."""

    def __init__(self, start: int, num_rows: int) -> None:
        self.start = start
        self.num_rows = num_rows
        self._turns: dict[Rotary, tuple[Floats, Floats]] = {}

    def turns(self, rotary: Rotary) -> tuple[Floats, Floats]:
        """Returns cosines and sines of the rotary angles, float32[n, 1, pairs] each.

        One position at a time, so that each element's bits depend on its position only.
        """
        if rotary not in self._turns:
            frequencies = rotary.frequencies()
            angles = [position * frequencies for position in range(self.start, self.start + self.num_rows)]
            cosines = np.array([np.cos(row) * rotary.magnitude for row in angles], np.float32)
            sines = np.array([np.sin(row) * rotary.magnitude for row in angles], np.float32)
            self._turns[rotary] = cosines[:, np.newaxis], sines[:, np.newaxis]
        return self._turns[rotary]
