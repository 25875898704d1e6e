"""`cera verify`: is the text with drafts the text without?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from cera_core.cli.engine_flags import EngineFlags, names_in, takes_engine_flags
from cera_core.cli.flags import TasksFlag
from cera_core.cli.loading import PullFlag, load_engine
from cera_core.cli.main import EXIT_FAILURE
from cera_core.cli.output import say, write_json, write_table
from cera_core.cli.progress import progress
from cera_core.registry import NONE

if TYPE_CHECKING:
    from cera_core.engine import Engine
    from cera_core.instruments.equality import Comparison
    from cera_core.instruments.tasks import Task
    from cera_core.session_drafters import DrafterChoice

app = typer.Typer(add_completion=False)

RANDOM_IDS = "random ids"


@dataclass(slots=True)
class Row:
    """What was found of one drafter in one sampling, over tasks and budgets."""

    drafter: str
    sampling: str
    num_runs: int = 0
    num_tokens: int = 0
    num_accepted: int = 0
    num_rejected: int = 0
    differing: list[tuple[str, Comparison]] = field(default_factory=list)

    def add(self, task: str, comparison: Comparison) -> None:
        """Adds a run."""
        self.num_runs += 1
        self.num_tokens += comparison.num_tokens
        self.num_accepted += comparison.num_accepted
        self.num_rejected += comparison.num_rejected
        if comparison.divergence is not None:
            self.differing.append((task, comparison))


@app.command()
@takes_engine_flags
def verify(
    engine_flags: EngineFlags,
    *,
    tasks: TasksFlag = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="INTEGER", help="The most prompts of each category.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Write every run as JSON.")] = False,
    pull: PullFlag = False,
) -> None:
    """Compares texts with and without drafts, token for token.

    Each prompt is answered greedily and sampled, plainly and with each drafter of `--drafter` and one of random ids,
    drafting 1, 8 and 15 tokens a round and as many as pay. Log-probabilities are compared bit for bit. The exit code
    is 1 if anything differs.
    """
    from cera_core.instruments.tasks import chosen_tasks, tasks_in  # noqa: PLC0415

    chosen = chosen_tasks(tasks_in(tasks), limit=limit)
    engine = load_engine(engine_flags, may_pull=pull)
    names = [name for name in names_in(engine_flags, "drafter") if name != NONE]
    rows: dict[tuple[str, str], Row] = {}
    runs = []
    with progress(len(chosen)) as on_step:
        for task in chosen:
            on_step(task.name)
            for comparison in _compared(engine, task, names):
                runs.append({"task": task.name, "run": comparison})
                key = comparison.drafter, comparison.sampling
                rows.setdefault(key, Row(*key)).add(task.name, comparison)
    if as_json:
        write_json({"batch_invariant": engine.model.batch_invariant, "runs": runs})
    else:
        write_table(HEADERS, [_cells(row) for row in rows.values()])
        _say_what_differs(engine, list(rows.values()))
    if any(row.differing for row in rows.values()):
        raise typer.Exit(EXIT_FAILURE)


HEADERS = ("drafter", "sampling", "runs", "equal to plain", "tokens", "accepted", "rejected")


def _cells(row: Row) -> tuple[object, ...]:
    num_equal = row.num_runs - len(row.differing)
    return row.drafter, row.sampling, row.num_runs, num_equal, row.num_tokens, row.num_accepted, row.num_rejected


def _compared(engine: Engine, task: Task, names: list[str]) -> Iterator[Comparison]:
    from cera_core.instruments.bench import prompt_ids  # noqa: PLC0415
    from cera_core.instruments.equality import compare  # noqa: PLC0415
    from cera_core.testing.drafters import RandomDrafter  # noqa: PLC0415

    drafters: dict[str, DrafterChoice] = {name: name for name in names}
    drafters[RANDOM_IDS] = RandomDrafter(engine.model.config.vocab_size, share_of_history=0.5)
    yield from compare(engine, prompt_ids(engine, [{"role": "user", "content": task.turns[0]}]), drafters)


def _say_what_differs(engine: Engine, rows: list[Row]) -> None:
    """Says where texts differ, and which equality proves nothing as nothing was verified or nothing was wrong."""
    for row in rows:
        for task, run in row.differing:
            divergence = run.divergence
            if divergence is None:
                continue
            gap = "unknown" if divergence.gap is None else f"{divergence.gap:.2g}"
            say(
                f"{task}, {row.drafter}, {row.sampling}, budget {run.budget}: differs from token {divergence.position} "
                f"on, {divergence.plain} without and {divergence.drafted} with drafts; gap of their logits: {gap}."
            )
        if not (row.num_accepted and row.num_rejected):
            say(
                f"Note: {row.drafter}, {row.sampling}: {row.num_accepted} draft tokens accepted and {row.num_rejected} "
                "rejected, so its equality proves little. Give it prompts that suit it with '--tasks'."
            )
    if not engine.model.batch_invariant:
        say("Note: this backend does not promise the same bits for any batch, so near ties may be decided otherwise.")
