"""What a piece of Python costs, counted and not timed: the same on every machine, however busy."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_executed(action: Callable[[], Any]) -> int:
    """Counts the lines of Python that run; a loop over a history shows here."""
    num_lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal num_lines
        num_lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return num_lines


def bytes_allocated(action: Callable[[], Any]) -> int:
    """Returns by how much memory grows at most while an action runs; a copy of a history shows here."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        action()
        _, peak = tracemalloc.get_traced_memory()
        return peak - before
    finally:
        if not was_tracing:
            tracemalloc.stop()
