"""Prints what the native backend costs: t(n) for n rows at two depths, prefill, load time and peak memory.

    python tests/bench/bench_native.py MODEL.gguf ... [--shape-1b Q4_0 Q8_0 Q4_K lfm2:Q4_0 qwen3moe:Q4_0]
        [--ik-python PYTHON] [--llama-python PYTHON]

With `--ik-python` and `--llama-python`, the Pythons of environments where `ik-llama-cpp-python` and `llama-cpp-python`
are installed, the same is measured on those engines in the same run, and each figure is compared with the better of
them. Each engine is a process of its own; samples alternate between them, and each is tagged with the round trip of a
cache line between two cores, by which the two states of a virtual machine are told apart. Medians leave out samples
whose threads had to wait for a core; the least of all samples is printed beside them.
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
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
DEPTHS = (64, 1024)
PREFILL = 512
TWO_CACHES = 200.0  # nanoseconds; above it the cores share no last-level cache
BUSY_SHARE, BUSY_FLOOR = 0.01, 0.5e-3  # of the sample, and seconds that starting and ending a sample cost anyhow
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
    if machine_state() == before and answer["waited"] <= BUSY_FLOOR + BUSY_SHARE * answer["seconds"]:
        samples[engine.name, key, before].append(answer["seconds"] * 1e3)


def measure(engines: Sequence[Engine], row_counts: Sequence[int], repeats: int) -> Samples:
    """Measures all engines, sample by sample in turn."""
    samples: Samples = defaultdict(list)
    for depth in DEPTHS:
        for engine in engines:
            engine.ask(do="fill", depth=depth)
        for _ in range(repeats):
            for rows in row_counts:
                for engine in engines:
                    take_sample(engine, samples, (depth, rows), do="rows", depth=depth, rows=rows)
    for _ in range(max(2, repeats // 4)):
        for engine in engines:
            take_sample(engine, samples, "prefill", do="prefill", length=PREFILL)
    return samples


def print_results(path: Path, engines: Sequence[Engine], row_counts: Sequence[int], samples: Samples) -> None:
    """Prints medians, spread and ratios, one table for each state of the machine."""
    for engine in engines:
        print(f"{path.name}, {engine.name}: " + ", ".join(f"{key} {value}" for key, value in engine.info.items()))
    for state in sorted({state for _, _, state in samples}):
        print(f"state: {state}")
        for depth in DEPTHS:
            for engine in engines:
                row = (cell(samples, engine.name, depth, rows, state) for rows in row_counts)
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


def print_ratios(path: Path, engines: Sequence[Engine], samples: Samples) -> None:
    """Prints the first engine's figures beside the best of the others, and what depth adds to its own."""
    own, *peers = engines
    for state in sorted({state for _, _, state in samples}):
        times = {(name, key): middle(values, state) for (name, key, of), values in samples.items() if of == state}
        rows = [rows for depth, rows in sorted({key for _, key in times if key != "prefill"}) if depth == DEPTHS[0]]
        print(f"ratios, {state}: time of the best other engine / time of {own.name}")
        for key in [*((depth, count) for depth in DEPTHS for count in rows), "prefill"]:
            others = {peer.name: times[peer.name, key] for peer in peers if (peer.name, key) in times}
            if others and (own.name, key) in times:
                best = min(others, key=others.__getitem__)
                print(f"  {key}: {others[best] / times[own.name, key]:.2f} ({best})")
        for count in rows:
            near, far = (times.get((own.name, (depth, count))) for depth in DEPTHS)
            if near and far:
                print(f"  {own.name}, {count} rows: depth {DEPTHS[1]} adds {far / near - 1:.0%}")
    for engine in engines:
        share = engine.info["peak MB"] * 2**20 / path.stat().st_size
        print(f"  {engine.name}: load {engine.info['load s']} s, peak memory {share:.2f} of the file")


def middle(values: Sequence[float], state: str) -> float:
    """Returns the median, of all samples the least."""
    return min(values) if state == LEAST else statistics.median(values)


SHAPES: dict[str, dict[str, Any]] = {
    "llama": {
        "vocab_size": 128_256, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8, "feed_forward_size": 8192,
        "rope_freq_base": 500_000.0, "rope_factors": True,
    },
    "lfm2": {
        "vocab_size": 65_536, "hidden_size": 2048, "num_heads": 32, "num_kv_heads": 8, "feed_forward_size": 8192,
        "rope_freq_base": 1_000_000.0,
    },
    "qwen3moe": {
        "vocab_size": 65_536, "hidden_size": 1536, "num_heads": 24, "num_kv_heads": 4, "feed_forward_size": 4096,
        "head_dim": 64, "rope_freq_base": 1_000_000.0,
    },
}  # fmt: skip
"""Shapes of about a billion weights in 16 layers: Llama-3.2-1B; LFM2-1.2B, with eight short convolutions; six experts
of 2,048, of which two are chosen."""


def write_1b_shape(directory: Path, kind: str) -> Path:
    """Writes a file with seeded random weights, types mixed as llama.cpp's tool does.

    The embedding, which is the head too, is Q6_K in 4-bit files; `Q4_K` is the mixture called Q4_K_M.

    Args:
        directory: Where to write.
        kind: A type of weights, for the shape of Llama, or ARCHITECTURE:TYPE.
    """
    sys.path.insert(0, str(TESTS))
    from support.tiny_gguf import write_tiny_gguf

    architecture, quantisation = kind.split(":") if ":" in kind else ("llama", kind)
    path = directory / f"1b-{architecture}-{quantisation}.gguf"
    if not path.exists():
        write_tiny_gguf(
            path, architecture=architecture, quantisation=quantisation, quantisation_of=mixture(quantisation),
            num_layers=16, context_length=4096, **SHAPES[architecture],
        )  # fmt: skip
    return path


def mixture(quantisation: str, num_layers: int = 16) -> dict[str, str]:
    """Returns which tensors have another type than the rest."""
    if not quantisation.startswith("Q4"):
        return {}
    finer = {"token_embd.weight": "Q6_K"}
    if quantisation == "Q4_K":
        eighth = num_layers // 8
        for layer in range(num_layers):
            if layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2:
                finer |= {f"blk.{layer}.{name}.weight": "Q6_K" for name in ("attn_v", "ffn_down")}
    return finer


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--shape-1b", nargs="*", default=[], metavar="[ARCHITECTURE:]TYPE")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()), help="for the files it writes")
    parser.add_argument("--ik-python")
    parser.add_argument("--llama-python")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--rows", nargs="*", type=int, default=[1, 2, 3, 4, 5, 6, 8, 12, 16])
    arguments = parser.parse_args()
    generated = [write_1b_shape(arguments.directory, name) for name in arguments.shape_1b]
    for path in [*arguments.models, *generated]:
        engines = [
            Engine(name, [python, str(TESTS / "bench" / worker), str(path), str(arguments.threads), *options])
            for name, (python, worker, *options) in contestants(arguments).items()
        ]
        samples = measure(engines, arguments.rows, arguments.repeats)
        print_results(path, engines, arguments.rows, samples)
        print_ratios(path, engines, samples)
        for engine in engines:
            engine.close()


def contestants(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Returns for each engine the Python it runs on, its worker and the worker's options."""
    found = {"native": [sys.executable, "native_worker.py"]}
    if arguments.ik_python:
        found["ik"] = [arguments.ik_python, "ik_worker.py"]
    if arguments.llama_python:
        found["llama"] = [arguments.llama_python, "llama_cpp_worker.py", "plain"]
        found["llama-fa"] = [arguments.llama_python, "llama_cpp_worker.py", "flash"]
    return found


if __name__ == "__main__":
    main()
