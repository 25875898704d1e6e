"""How many threads to compute with: one for each physical core this process may use.

Two threads on one physical core share its arithmetic units, so a second one gains nothing in code that keeps them busy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

CPU_DIRECTORY = Path("/sys/devices/system/cpu")


def default_num_threads() -> int:
    """Returns the number of physical cores in the process's affinity mask, at least 1."""
    return max(1, num_physical_cores(_allowed_cpus(), CPU_DIRECTORY))


def num_physical_cores(cpus: Iterable[int], cpu_directory: Path) -> int:
    """Counts the physical cores that some logical ones belong to; a logical one of unknown kind counts as one.

    Args:
        cpus: Numbers of logical processors.
        cpu_directory: Where Linux describes them, `/sys/devices/system/cpu`.
    """
    return len({_siblings(cpu, cpu_directory) for cpu in cpus})


def _allowed_cpus() -> Iterable[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def _siblings(cpu: int, cpu_directory: Path) -> str:
    """Returns what the logical processors of one physical core have in common."""
    try:
        return (cpu_directory / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text().strip()
    except OSError:
        return f"cpu{cpu}"
