"""Adds up what several generations counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from itertools import zip_longest
from typing import Any, TypeVar

from cera_core.speculation.stats import DrafterStats, SpecStats

Stats = TypeVar("Stats", SpecStats, DrafterStats)


def total_stats(parts: Iterable[SpecStats]) -> SpecStats:
    """Returns the sums of all counts and times, position by position and drafter by drafter."""
    return _total(SpecStats(), parts)


def total_drafter_stats(parts: Iterable[DrafterStats]) -> DrafterStats:
    """Returns the sums of all counts, position by position."""
    return _total(DrafterStats(), parts)


def _total(total: Stats, parts: Iterable[Stats]) -> Stats:
    for part in parts:
        _add(total, part)
    return total


def _add(total: Any, part: Any) -> None:
    for field in fields(total):
        setattr(total, field.name, _sum(getattr(total, field.name), getattr(part, field.name)))


def _sum(total: Any, value: Any) -> Any:
    """Adds two values of one kind: numbers, counters, counts by position, or the stats of drafters by name."""
    if isinstance(total, Counter):
        return total + value
    if isinstance(total, list):
        return [a + b for a, b in zip_longest(total, value, fillvalue=0)]
    if isinstance(total, dict):
        for name, stats in value.items():
            _add(total.setdefault(name, DrafterStats()), stats)
        return total
    return total + value
