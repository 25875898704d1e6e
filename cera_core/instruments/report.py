"""Writes a measurement as one page of HTML that needs nothing besides itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cera_core.instruments.pages import check_page_can_be_written, write_page
from cera_core.instruments.plots import (
    draw_acceptance,
    draw_round_costs,
    draw_speed_ups,
    draw_time_line,
    require_matplotlib,
)
from cera_core.instruments.summary import lines_of

if TYPE_CHECKING:
    from cera_core.instruments.bench import Result


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawing with the words under it."""

    caption: str
    svg: str


def check_report_can_be_written(path: Path) -> None:
    """Raises what `write_report` would for the file, and for a matplotlib that is not there."""
    require_matplotlib()
    check_page_can_be_written(path)


def write_report(path: Path, results: Sequence[Result], *, heading: str) -> None:
    """Writes table and plots.

    Args:
        path: The file to write.
        results: As `measure` returns them.
        heading: Model and machine in a line.

    Raises:
        PluginError: matplotlib is not installed.
        InvalidInputError: The file cannot be written.
    """
    lines = lines_of(results)
    plots = [
        Plot("Speed over plain decoding by category; the whisker spans the turns.", draw_speed_ups(lines)),
        Plot("Share of draft tokens accepted, by position in the draft.", draw_acceptance(lines)),
    ]
    with_rounds = [result for result in results if result.rounds]
    if with_rounds:
        task = with_rounds[0].task
        of_task = [result for result in with_rounds if result.task == task]
        plots += [
            Plot(
                "What a forward took by its rows: the median, and the middle half shaded.",
                draw_round_costs(with_rounds),
            ),
            Plot(f"Tokens by time: task {task.name}, {task.category}, in the last turn.", draw_time_line(of_task)),
        ]
    num_turns = len(results[0].samples)
    write_page(path, "report.html.jinja", heading=heading, lines=lines, plots=plots, num_turns=num_turns)
