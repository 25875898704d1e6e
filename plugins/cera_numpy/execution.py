"""How a model computes: which rows share a computation, where weights are, on how many threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cera_numpy.workers import Workers

if TYPE_CHECKING:
    from cera_numpy.weights import Floats


@dataclass(frozen=True, slots=True)
class Execution:
    """What all parts of a model agree on.

    Attributes:
        exact: Compute each row by itself, so that its bits do not depend on the others.
        keep_weights: Hold dequantised matrices in memory; else they are dequantised anew in every product.
        workers: Who computes products.
    """

    exact: bool = False
    keep_weights: bool = True
    workers: Workers = field(default_factory=lambda: Workers(1))

    def apply(self, function: Callable[..., Floats], *rows: Floats) -> Floats:
        """Applies to rows a function that treats each by itself: in one call, or in exact mode one call a row."""
        if not self.exact:
            return function(*rows)
        return np.concatenate([function(*(x[i : i + 1] for x in rows)) for i in range(len(rows[0]))])
