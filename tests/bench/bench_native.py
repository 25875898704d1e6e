"""Prints what the native backend costs: t(n) for n rows at two depths, prefill, load time and peak memory.

    python tests/bench/bench_native.py MODEL.gguf ... [--shape-1b Q4_0 Q8_0 Q4_K] [--ik-python PYTHON]

With `--ik-python`, the Python of an environment where `ik-llama-cpp-python` is installed, the same is measured on
ik_llama.cpp in the same run. Each engine is a process of its own; samples alternate between them, and each is tagged
with the round trip of a cache line between two cores, by which the two states of a virtual machine are told apart.
Medians leave out samples whose threads had to wait for a core; the least of all samples is printed beside them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
DEPTHS = (64, 1024)
ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
PREFILL = 512
TWO_CACHES = 200.0  # nanoseconds; above it the cores share no last-level cache
BUSY_SHARE = 0.01
LEAST = "least of all samples"
PAUSE = 0.03  # seconds; until then an engine's threads may spin after their last sample

Samples = dict[tuple[str, object, str], list[float]]


class Engine:
    """A worker process with a model loaded; answers one command at a time."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.info = self._answer()

    def ask(self, **command: object) -> Mapping[str, float]:
        """Sends a command and returns the answer."""
        print(json.dumps(command), file=self._process.stdin, flush=True)
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()

    def _answer(self) -> Mapping[str, float]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"The engine {self.name!r} ended with status {self._process.wait()}.")
        return json.loads(line)


def machine_state() -> str:
    """Returns whether both cores share a cache now."""
    from cera_native._native import core_round_trip

    return "two caches" if core_round_trip() > TWO_CACHES else "one cache"


def take_sample(engine: Engine, samples: Samples, key: object, **command: object) -> None:
    """Measures once; the result counts for the median if no thread waited and the machine stayed in one state."""
    time.sleep(PAUSE)
    before = machine_state()
    answer = engine.ask(**command)
    samples[engine.name, key, LEAST].append(answer["seconds"] * 1e3)
    if machine_state() == before and answer["waited"] <= BUSY_SHARE * answer["seconds"]:
        samples[engine.name, key, before].append(answer["seconds"] * 1e3)


def measure(engines: Sequence[Engine], repeats: int) -> Samples:
    """Measures all engines, sample by sample in turn."""
    samples: Samples = defaultdict(list)
    for depth in DEPTHS:
        for engine in engines:
            engine.ask(do="fill", depth=depth)
        for _ in range(repeats):
            for rows in ROWS:
                for engine in engines:
                    take_sample(engine, samples, (depth, rows), do="rows", depth=depth, rows=rows)
    for _ in range(max(2, repeats // 4)):
        for engine in engines:
            take_sample(engine, samples, "prefill", do="prefill", length=PREFILL)
    return samples


def print_results(path: Path, engines: Sequence[Engine], samples: Samples) -> None:
    """Prints medians, spread and ratios, one table for each state of the machine."""
    for engine in engines:
        print(f"{path.name}, {engine.name}: " + ", ".join(f"{key} {value}" for key, value in engine.info.items()))
    for state in sorted({state for _, _, state in samples}):
        print(f"state: {state}")
        for depth in DEPTHS:
            for engine in engines:
                row = (cell(samples, engine.name, depth, rows, state) for rows in ROWS)
                print(f"  depth {depth:5} {engine.name:8} " + " ".join(row))
        for engine in engines:
            if times := samples.get((engine.name, "prefill", state)):
                print(f"  prefill {engine.name:8} {PREFILL / statistics.median(times) * 1e3:.0f} tokens/s")


def cell(samples: Samples, name: str, depth: int, rows: int, state: str) -> str:
    """Returns `rows: median ms (spread, ratio to one row)`, or only the least time and the ratio of least times."""
    times = samples.get((name, (depth, rows), state))
    if not times:
        return f"{rows}: -"
    if state == LEAST:
        return f"{rows}: {min(times):.1f} ({min(times) / min(samples[name, (depth, 1), state]):.2f}x)"
    median = statistics.median(times)
    spread = (max(times) - min(times)) / median
    single = samples.get((name, (depth, 1), state))
    ratio = f", {median / statistics.median(single):.2f}x" if single else ""
    return f"{rows}: {median:.1f} (n={len(times)} ±{spread / 2:.0%}{ratio})"


def write_1b_shape(directory: Path, quantisation: str) -> Path:
    """Writes a file with the shape of Llama-3.2-1B and seeded random weights."""
    sys.path.insert(0, str(TESTS))
    from support.tiny_gguf import write_tiny_gguf

    path = directory / f"1b-{quantisation}.gguf"
    if not path.exists():
        write_tiny_gguf(
            path, quantisation=quantisation, vocab_size=49152, num_layers=16, hidden_size=2048, num_heads=32,
            num_kv_heads=8, feed_forward_size=8192, context_length=4096, rope_freq_base=500_000.0,
        )  # fmt: skip
    return path


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--shape-1b", nargs="*", default=[], metavar="TYPE")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="for the files it writes")
    parser.add_argument("--ik-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=12)
    arguments = parser.parse_args()
    workers = {"native": [sys.executable, str(Path(__file__).with_name("native_worker.py"))]}
    if arguments.ik_python:
        workers["ik"] = [arguments.ik_python, str(Path(__file__).with_name("ik_worker.py"))]
    generated = [write_1b_shape(arguments.directory, name) for name in arguments.shape_1b]
    for path in [*arguments.models, *generated]:
        engines = [Engine(name, [*command, str(path), str(arguments.threads)]) for name, command in workers.items()]
        print_results(path, engines, measure(engines, arguments.repeats))
        for engine in engines:
            engine.close()


if __name__ == "__main__":
    main()
