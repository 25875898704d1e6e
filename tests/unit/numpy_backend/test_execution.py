from __future__ import annotations

import numpy as np
import pytest

from cera_numpy.execution import Execution


@pytest.mark.parametrize(("exact", "shapes"), [(False, [(3, 2)]), (True, [(1, 2)] * 3)], ids=["default", "exact"])
def test_rows_share_a_call_or_have_one_each(exact: bool, shapes: list[tuple[int, int]]) -> None:
    seen = []

    def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.append(x.shape)
        return x + y

    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert np.array_equal(Execution(exact=exact).apply(add, x, x), 2 * x)
    assert seen == shapes
