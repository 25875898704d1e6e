"""What a forward of several rows costs on the NumPy backend, beside one of one row.

    python tests/bench/numpy_rows.py MODEL.gguf [--exact] [--threads N] [--depth 64] [--rows 1 2 4 8 16]

The row counts take turns, sample by sample, so that other load on the machine falls on all alike; medians are shown.
Which kernels OpenBLAS chose is printed, as much depends on it: OPENBLAS_CORETYPE and the like should not be set.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
from pathlib import Path
from time import perf_counter

import numpy as np

from cera_core.modelfile.gguf import open_model_file
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from cera_numpy.workers import Workers, default_num_threads


def openblas_kernels() -> str:
    """Returns the name of the processor family OpenBLAS chose kernels for, if NumPy carries OpenBLAS."""
    for library in sorted((Path(np.__file__).parent.parent / "numpy.libs").glob("*openblas*")):
        for function in ("scipy_openblas_get_corename64_", "openblas_get_corename64_"):
            name = getattr(ctypes.CDLL(str(library)), function, None)
            if name is not None:
                name.restype = ctypes.c_char_p
                return name().decode()
    return "unknown"


def measure(model: NumpyModel, row_counts: list[int], depth: int, num_samples: int) -> dict[int, float]:
    """Returns median seconds of a forward with logits for all rows, after `depth` tokens."""
    token_ids = np.random.default_rng(0).integers(0, model.config.vocab_size, depth + max(row_counts)).tolist()
    state = model.new_state()
    for start in range(0, depth, model.max_batch):
        model.forward(token_ids[start : min(start + model.max_batch, depth)], state)
    samples: dict[int, list[float]] = {num_rows: [] for num_rows in row_counts}
    for sample in range(num_samples + 1):
        for num_rows in row_counts:
            start = perf_counter()
            model.forward_all(token_ids[depth : depth + num_rows], state)
            if sample:  # the first warms up
                samples[num_rows].append(perf_counter() - start)
            model.truncate(state, depth)
    return {num_rows: statistics.median(seconds) for num_rows, seconds in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--threads", type=int, default=default_num_threads())
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--samples", type=int, default=15)
    arguments = parser.parse_args()
    with open_model_file(arguments.model) as model_file:
        model = NumpyModel(model_file, Execution(arguments.exact, workers=Workers(arguments.threads)))
    settings = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}
    print(f"NumPy {np.__version__}, OpenBLAS kernels: {openblas_kernels()}, {settings or 'no settings of OpenBLAS'}")
    print(f"{model.config.name}, {arguments.threads} threads, exact={arguments.exact}, depth {arguments.depth}")
    medians = measure(model, arguments.rows, arguments.depth, arguments.samples)
    for num_rows, seconds in medians.items():
        print(f"{num_rows:4} rows {1e3 * seconds:8.1f} ms  {seconds / medians[arguments.rows[0]]:5.2f}")


if __name__ == "__main__":
    main()
