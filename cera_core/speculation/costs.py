"""What a forward costs, by how many rows it has and how long the context is; measured while text is made."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

PRIOR_COST_OF_A_ROW = 0.12
"""What one more row costs, in single steps, until it was measured."""
_SHORTEST_LONG_CONTEXT = 512  # tokens; costs of shorter contexts are alike
_NUM_SAMPLES = 7
_MAX_SAMPLE_AGE = 512  # forwards; after that a cost is guessed from its neighbours again, so one bad sample cannot stay
_MAX_ROUNDS_WITHOUT_STEP = 64  # after that a plain step is due: a drift of its cost would go unnoticed while drafts pay


class RoundCosts:
    """Measured time of a forward; shared by the sessions of one model.

    Attention makes long contexts dearer, and rows in another measure than steps, so contexts are kept apart by powers
    of two. The cost of a row count is the median of its recent samples, in plain steps of that context; what was not
    measured there comes from the nearest context, then from `remembered`, then lies on the line between its neighbours.
    Past the last count known it rises as before it, but by no more than `PRIOR_COST_OF_A_ROW` of a step: two rows that
    cost much may be a stair, and more rows are tried once rather than never.

    Args:
        remembered: Costs of forwards in short contexts by their number of rows, in plain steps, as far as known.
    """

    def __init__(self, remembered: Mapping[int, float] | None = None) -> None:
        self._remembered = dict(remembered or {})
        self._contexts: dict[int, _Samples] = {}

    @property
    def remembered(self) -> dict[int, float]:
        """What was known beforehand, in plain steps by number of rows."""
        return dict(self._remembered)

    def observe(self, num_rows: int, seconds: float, position: int = 0) -> None:
        """Adds a sample, of a forward that began with `position` tokens in the cache."""
        self._contexts.setdefault(_context(position), _Samples()).add(num_rows, seconds)

    def table(self, position: int = 0) -> dict[int, float]:
        """Returns seconds by row count, of what was measured lately in such a context, in the order of the counts."""
        samples = self._contexts.get(_context(position))
        return samples.medians() if samples else {}

    def steps(self, max_rows: int, position: int = 0) -> list[float] | None:
        """Returns what forwards of 1 to `max_rows` rows cost, in plain steps; None while a plain step is due."""
        samples = self._contexts.get(_context(position))
        if samples is None or samples.num_rounds_without_step >= _MAX_ROUNDS_WITHOUT_STEP:
            return None
        own = samples.medians()
        if 1 not in own:
            return None
        known = {**self._remembered, **self._nearest_steps(position), **_in_steps(own)}
        table = dict(sorted(known.items()))
        return [_interpolated(num_rows, table) for num_rows in range(1, max_rows + 1)]

    def seconds_of_a_step(self, position: int = 0) -> float | None:
        """Returns what a plain step took lately; None if that was not measured in such a context."""
        samples = self._contexts.get(_context(position))
        return samples.median(1) if samples else None

    def _nearest_steps(self, position: int) -> dict[int, float]:
        """Returns the costs in the nearest other context that has any."""
        context = _context(position)
        tables = {other: samples.medians() for other, samples in self._contexts.items() if other != context}
        usable = [other for other, table in tables.items() if 1 in table]
        return _in_steps(tables[min(usable, key=lambda other: abs(other - context))]) if usable else {}


class _Samples:
    """The recent samples of one context."""

    def __init__(self) -> None:
        self.num_rounds_without_step = 0
        self._num_added = 0
        self._samples: dict[int, tuple[tuple[int, float], ...]] = {}
        self._medians: dict[int, tuple[int, float]] = {}

    def add(self, num_rows: int, seconds: float) -> None:
        self._num_added += 1
        self.num_rounds_without_step = 0 if num_rows == 1 else self.num_rounds_without_step + 1
        oldest = self._num_added - (2 * _MAX_ROUNDS_WITHOUT_STEP if num_rows == 1 else _MAX_SAMPLE_AGE)
        recent = [sample for sample in self._samples.get(num_rows, ()) if sample[0] >= oldest]
        samples = (*recent[1 - _NUM_SAMPLES :], (self._num_added, seconds))
        self._samples[num_rows] = samples
        self._medians[num_rows] = self._num_added, _median(sorted([seconds for _, seconds in samples]))

    def medians(self) -> dict[int, float]:
        oldest = self._num_added - _MAX_SAMPLE_AGE
        return {num_rows: seconds for num_rows, (when, seconds) in sorted(self._medians.items()) if when >= oldest}

    def median(self, num_rows: int) -> float | None:
        when, seconds = self._medians.get(num_rows, (-_MAX_SAMPLE_AGE, 0.0))
        return seconds if when >= self._num_added - _MAX_SAMPLE_AGE else None


def _median(values: list[float]) -> float:
    """Returns the middle of sorted values: a third of the time of `statistics.median`, for it is taken each round."""
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def _context(position: int) -> int:
    return (position // _SHORTEST_LONG_CONTEXT).bit_length()


def _in_steps(table: Mapping[int, float]) -> dict[int, float]:
    return {num_rows: seconds / table[1] for num_rows, seconds in table.items()}


def _interpolated(num_rows: int, table: Mapping[int, float]) -> float:
    """Returns the cost of a row count from those known, which begin with 1."""
    if num_rows in table:
        return table[num_rows]
    known = list(table)
    if len(known) == 1:
        return table[1] + PRIOR_COST_OF_A_ROW * (num_rows - 1)
    index = min(max(bisect_left(known, num_rows), 1), len(known) - 1)
    low, high = known[index - 1], known[index]
    per_row = max((table[high] - table[low]) / (high - low), 0.0)
    if num_rows > high:
        return table[high] + min(per_row, PRIOR_COST_OF_A_ROW) * (num_rows - high)
    return table[low] + per_row * (num_rows - low)
