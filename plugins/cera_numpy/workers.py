"""Threads that share the pieces of one product. NumPy lets other threads run while it multiplies."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

MAX_DEFAULT_THREADS = 4  # reading weights is bound by memory, which a few cores keep busy


def default_num_threads() -> int:
    """Returns how many threads to use where nobody says: one for each processor this process may use, within reason."""
    num_usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(num_usable, MAX_DEFAULT_THREADS)


class Workers:
    """The calling thread and some helpers.

    A helper that is late, because the machine is busy, holds nothing up: the others do its share.
    """

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        # NumPy's handling of overflow is set for each thread; the caller sets its own.
        ignore = partial(np.seterr, all="ignore")
        self._pool = ThreadPoolExecutor(num_threads - 1, "cera-numpy", ignore) if num_threads > 1 else None

    def for_each(self, function: Callable[[int], None], pieces: Iterable[int]) -> None:
        """Calls `function` for each piece, on any thread and in any order; returns when all are done."""
        waiting = deque(pieces)
        if self._pool is None or len(waiting) == 1:
            for piece in waiting:
                function(piece)
            return

        def work() -> None:
            while True:
                try:
                    piece = waiting.popleft()
                except IndexError:
                    return
                function(piece)

        helpers = [self._pool.submit(work) for _ in range(min(self.num_threads, len(waiting)) - 1)]
        work()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
