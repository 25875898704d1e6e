"""What the checks of a model are made of: texts to feed it, and comparisons of what comes out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import CeraError
from cera_core.foreign_errors import error_line
from cera_core.testing.checking import CheckError, DoesNotApplyError, require

if TYPE_CHECKING:
    from cera_core.model import InferenceState, Logits, Model

NUM_TOKENS = 24
CLOSE = 0.1
"""How far two computations of a logit may lie apart, in standard deviations of their row; rounding is far below."""


def seeded_ids(model: Model, num_tokens: int = NUM_TOKENS, seed: int = 0) -> list[int]:
    """Returns seeded token ids."""
    rng = random.Random(seed)
    return [rng.randrange(model.config.vocab_size) for _ in range(num_tokens)]


def fed(model: Model, ids: Sequence[int], length: int) -> tuple[InferenceState, Logits]:
    """Feeds a new state in chunks; returns it and the last row."""
    state = model.new_state()
    for start in range(0, len(ids), length):
        row = model.forward(list(ids[start : start + length]), state)
    return state, np.array(row)


def all_rows(model: Model, ids: Sequence[int], length: int) -> Logits:
    """Feeds a new state in chunks; returns every row."""
    state = model.new_state()
    chunks = (list(ids[start : start + length]) for start in range(0, len(ids), length))
    return np.concatenate([np.array(model.forward_all(chunk, state)) for chunk in chunks])


def needs(holds: bool, otherwise: str) -> None:
    """Ends a check that is about what the model says it cannot do."""
    if not holds:
        raise DoesNotApplyError(otherwise)


def require_close(found: Logits, expected: Logits, what: str) -> None:
    """Raises unless two rows are the same up to rounding; equal infinities and NaNs are."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    require(found.shape == expected.shape, f"{what}, of shape {expected.shape}", f"shape {found.shape}")
    finite = expected[np.isfinite(expected)]
    tolerance = CLOSE * float(finite.std()) + 1e-6 if finite.size else 1e-6
    is_close = np.isclose(found, expected, rtol=0, atol=tolerance, equal_nan=True)
    require(is_close.all(), what, f"{int((~is_close).sum())} of {found.size} logits further off than {tolerance:.3g}")


def require_refused(error_type: type[CeraError], what: str, method: Callable[..., object], *arguments: object) -> None:
    """Raises unless a call is refused with an error of a type."""
    try:
        method(*arguments)
    except error_type:
        return
    except Exception as error:
        raise CheckError(f"{what} to be a {error_type.__name__}", error_line(error)) from error
    raise CheckError(f"{what} to be refused with a {error_type.__name__}", "no error")
