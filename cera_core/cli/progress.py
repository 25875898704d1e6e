"""Shows in a terminal how far a long command is and how long the rest will take; elsewhere nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cera_core.cli.output import console, printable


@contextmanager
def progress(num_steps: int) -> Iterator[Callable[[str], None]]:
    """Gives a function that is told, before each step, what the step is."""
    if not sys.stderr.isatty():
        yield lambda description: None
        return
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        steps = bar.add_task("", total=num_steps)
        num_begun = 0

        def show(description: str) -> None:
            nonlocal num_begun
            bar.update(steps, completed=num_begun, description=escape(printable(description)))
            num_begun += 1

        yield show


@contextmanager
def measured_progress() -> Iterator[Callable[[int, int, str], None]]:
    """Gives a function that is told how much is done of how much, and what; another amount begins the bar anew."""
    if not sys.stderr.isatty():
        yield lambda done, total, description: None
        return
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=None)
        amount = -1

        def show(done: int, total: int, description: str) -> None:
            nonlocal amount
            if total != amount:
                amount = total
                bar.reset(task, total=total)
            bar.update(task, completed=done, description=escape(printable(description)))

        yield show
