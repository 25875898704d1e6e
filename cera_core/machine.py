"""What this machine is and how busy it is; every reading that the system does not give is None."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from time import perf_counter

import numpy as np

_BANDWIDTH_BYTES = 256 * 2**20  # beyond any cache
_BANDWIDTH_SECONDS = 1.0


def processor_name() -> str:
    """Returns the processor's name for people."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def num_usable_processors() -> int:
    """Returns how many logical processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seconds_waited() -> float | None:
    """Returns how long the threads of this process have waited for a processor so far (Linux: schedstat, field 2)."""
    try:
        files = list(Path("/proc/self/task").glob("*/schedstat"))
        return sum(int(file.read_text().split()[1]) for file in files) * 1e-9 if files else None
    except (OSError, IndexError, ValueError):
        return None  # a thread ended meanwhile


def memory_bandwidth() -> float:
    """Measures for a second how fast one thread reads memory, in bytes a second; the best of all passes."""
    block = np.ones(_BANDWIDTH_BYTES // 8, np.float64)
    best, end = 0.0, perf_counter() + _BANDWIDTH_SECONDS
    while perf_counter() < end:
        start = perf_counter()
        block.max()
        best = max(best, block.nbytes / (perf_counter() - start))
    return best
