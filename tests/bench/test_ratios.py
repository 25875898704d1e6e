"""A guard against changes that make cera slower, run by hand on an idle machine:

    pytest -m bench tests/bench/test_ratios.py -s

It compares ratios with those in ratios.toml, each taken side by side, sample by sample, of SmolLM2-135M:

* rows: the time of a forward of 4, 8 and 16 rows, by that of one row. This is what verifying a draft costs.
* depth: one row after 1,024 tokens, by one row after 64. This is attention, and the cache.
* native: one row of the native backend, by one of the NumPy backend.
* drafted: the time of an answer with `auto`, by that without drafts: of copying a text, where it should be small, and
  of a story, where it should be 1.

What is worse than `tolerance` allows fails with both values. The line printed for each is what ratios.toml takes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import pytest

import cera_core
from cera_core.instruments.bench import CeraContestant, measure
from cera_core.instruments.summary import lines_of
from cera_core.instruments.tasks import built_in_tasks
from cera_core.model import Model

STORED = tomllib.loads(Path(__file__).with_name("ratios.toml").read_text())
NUM_SAMPLES = 25
NUM_TURNS = 5
pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]


def test_every_stored_ratio_is_measured() -> None:
    assert set(STORED["lower_is_better"]) == set(MEASUREMENTS)


def forward(model: Model, num_rows: int, depth: int) -> Callable[[], float]:
    """Makes what times one forward after `depth` tokens."""
    state = model.new_state(depth + num_rows)
    for start in range(0, depth, model.max_batch):
        model.forward([1] * min(model.max_batch, depth - start), state)

    def seconds() -> float:
        start = perf_counter()
        model.forward_all(list(range(num_rows)), state)
        taken = perf_counter() - start
        model.truncate(state, depth)
        return taken

    return seconds


def ratio(first: Callable[[], float], second: Callable[[], float]) -> float:
    """Returns the median of one by that of the other, which take turns; the first turn does not count."""
    samples = [(first(), second()) for _ in range(NUM_SAMPLES + 1)][1:]
    return median(one for one, _ in samples) / median(other for _, other in samples)


def rows(path: Path, num_rows: int) -> float:
    model = cera_core.load_model(path, "native")
    return ratio(forward(model, num_rows, 64), forward(model, 1, 64))


def depth(path: Path) -> float:
    model = cera_core.load_model(path, "native")
    return ratio(forward(model, 1, 1024), forward(model, 1, 64))


def backends(path: Path) -> float:
    native, numpy = (cera_core.load_model(path, name) for name in ("native", "numpy"))
    return ratio(forward(native, 1, 64), forward(numpy, 1, 64))


def plain(path: Path, category: str) -> float:
    engine = cera_core.load(path, backend="native", max_tokens=60)
    contestants = [CeraContestant("plain", "plain", engine, None), CeraContestant("auto", "plain", engine, "auto")]
    tasks = [task for task in built_in_tasks() if task.category == category][:1]
    return 1 / lines_of(measure(contestants, tasks, repeats=NUM_TURNS))[1].speed_up


MEASUREMENTS: dict[str, Callable[[Path], float]] = {
    "rows 4 by 1": lambda path: rows(path, 4),
    "rows 8 by 1": lambda path: rows(path, 8),
    "rows 16 by 1": lambda path: rows(path, 16),
    "depth 1024 by 64": depth,
    "native by numpy": backends,
    "drafted by plain, copy": lambda path: plain(path, "copy"),
    "drafted by plain, prose": lambda path: plain(path, "prose"),
}


@pytest.mark.parametrize("name", MEASUREMENTS)
def test_no_ratio_got_worse(name: str, model_path: Callable[[str], Path]) -> None:
    measured = MEASUREMENTS[name](model_path("smollm2-135m"))
    print(f'\n"{name}" = {measured:.3f}')
    stored = STORED["lower_is_better"][name]
    limit = stored * (1 + STORED["tolerance"])
    assert measured <= limit, f"{name} was {stored:.3f} and may be {limit:.3f}; it is {measured:.3f}"
