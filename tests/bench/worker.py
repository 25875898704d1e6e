"""The part of a benchmark's worker process that does not depend on the engine: commands in, measurements out."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Protocol

CHUNK = 512


class Contestant(Protocol):
    """An engine with one session."""

    def run(self, num_tokens: int, *, all_rows: bool) -> None:
        """Appends tokens and computes the logits of the last, or of each."""

    def cut(self, length: int) -> None:
        """Cuts the session to a length."""


def run_delay() -> float:
    """Returns the seconds this process's threads have waited for a core so far."""
    tasks = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[1]) for task in tasks) * 1e-9


def timed(action) -> dict[str, float]:
    waited, start = run_delay(), time.perf_counter()
    action()
    return {"seconds": time.perf_counter() - start, "waited": run_delay() - waited}


def obey(contestant: Contestant, command: dict) -> dict[str, float]:
    """Carries out a command."""
    if command["do"] == "rows":
        contestant.cut(command["depth"])
        return timed(lambda: contestant.run(command["rows"], all_rows=True))
    contestant.cut(0)
    if command["do"] == "prefill":
        return timed(lambda: contestant.run(command["length"], all_rows=False))
    for start in range(0, command["depth"], CHUNK):
        contestant.run(min(CHUNK, command["depth"] - start), all_rows=False)
    return {}


def serve(load) -> None:
    """Loads the model named on the command line and answers commands until the input ends."""
    start = time.perf_counter()
    contestant = load(sys.argv[1], int(sys.argv[2]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"load s": round(time.perf_counter() - start, 2), "peak MB": peak // 1024}), flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(contestant, json.loads(line))), flush=True)
