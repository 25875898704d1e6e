"""Sums up a measurement: a line for each category of tasks and each contestant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from cera_core.instruments.bench import Result, Sample
from cera_core.instruments.totals import total_stats
from cera_core.speculation.stats import SpecStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What a contestant did in a category.

    Attributes:
        category: Of the tasks.
        contestant: Its name.
        num_tasks: How many tasks.
        tokens_per_second: Median over the turns.
        speed_ups: Over plain, one for each turn: the tokens of all tasks by their time, plain and drafted in one turn.
        stats: Counts and times of the last turn, all tasks.
        equals_plain: Whether every answer was that of the plain contestant.
        waited: The largest share of a run in which a thread waited for a processor; None if the system does not say.
        states: The states the machine was in, as far as the backend names them.
    """

    category: str
    contestant: str
    num_tasks: int
    tokens_per_second: float
    speed_ups: tuple[float, ...]
    stats: SpecStats
    equals_plain: bool
    waited: float | None
    states: tuple[str, ...]

    @property
    def speed_up(self) -> float:
        """The median of the speed-ups."""
        return median(self.speed_ups)


def lines_of(results: Sequence[Result]) -> list[Line]:
    """Returns the lines, categories in the order of the tasks and contestants in theirs."""
    in_order = dict.fromkeys(result.task.category for result in results)
    return [line for category in in_order for line in _category_lines(category, results)]


def _category_lines(category: str, results: Sequence[Result]) -> Iterator[Line]:
    of_category = [result for result in results if result.task.category == category]
    by_contestant: dict[str, list[Result]] = {}
    for result in of_category:
        by_contestant.setdefault(result.contestant, []).append(result)
    speeds = {name: _speeds(own) for name, own in by_contestant.items()}
    for name, own in by_contestant.items():
        samples = [sample for result in own for sample in result.samples]
        waits = [sample.waited for sample in samples if sample.waited is not None]
        yield Line(
            category=category,
            contestant=name,
            num_tasks=len(own),
            tokens_per_second=median(speeds[name]),
            speed_ups=tuple(a / b if b else 0.0 for a, b in zip(speeds[name], speeds[own[0].plain], strict=True)),
            stats=total_stats(result.stats for result in own),
            equals_plain=all(result.equals_plain for result in own),
            waited=max(waits, default=None),
            states=tuple(sorted({sample.state for sample in samples if sample.state})),
        )


def _speeds(results: Iterable[Result]) -> list[float]:
    """Returns for each turn the tokens of all tasks by the seconds they took."""
    turns = zip(*(result.samples for result in results), strict=True)
    return [_per_second(samples) for samples in turns]


def _per_second(samples: Sequence[Sample]) -> float:
    seconds = sum(sample.seconds for sample in samples)
    return sum(len(sample.token_ids) for sample in samples) / seconds if seconds else 0.0
