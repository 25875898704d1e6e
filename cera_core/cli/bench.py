"""`cera bench`: what drafting brings, measured side by side on this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cera_core.cli.engine_flags import EngineFlags, names_in, takes_engine_flags
from cera_core.cli.flags import TasksFlag
from cera_core.cli.loading import PullFlag, load_engine
from cera_core.cli.output import say, write_json, write_table
from cera_core.cli.progress import progress
from cera_core.errors import InvalidInputError
from cera_core.registry import AUTO, NONE

if TYPE_CHECKING:
    from cera_core.engine import Engine
    from cera_core.instruments.bench import CeraContestant, Contestant, Result
    from cera_core.instruments.summary import Line

app = typer.Typer(add_completion=False)


@app.command()
@takes_engine_flags
def bench(
    engine_flags: EngineFlags,
    *,
    tasks: TasksFlag = None,
    category: Annotated[
        list[str] | None, typer.Option("--category", metavar="NAME", help="Only tasks of this kind; may be repeated.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="INTEGER", help="The most tasks of each category.")
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, metavar="INTEGER", help="Turns that count, after one that does not.")
    ] = 3,
    warm: Annotated[
        bool, typer.Option("--warm", help="Draft from the memory of answers, those of the runs before included.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write every sample as JSON instead of the table.")] = False,
    against: Annotated[
        str | None,
        typer.Option("--against", metavar="ENGINE", help="Run the prompts through another engine too: llama.cpp."),
    ] = None,
    against_python: Annotated[
        list[str] | None,
        typer.Option(
            "--against-python",
            metavar="PYTHON",
            help="The Python that has a binding of that engine, if not this one; may be repeated.",
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with plots as well: one file.")
    ] = None,
    pull: PullFlag = False,
) -> None:
    """Compares plain decoding with drafters on this machine.

    Every contestant runs each task once a turn. `--drafter` and `--backend` take several names with commas between
    them; NAME@K is a drafter whose drafts have K tokens and are all verified. Speeds are of decoding alone. A warning
    or a fault on the way ends the measurement.

    An engine given by `--against` decodes plainly and with each of its kinds of n-gram speculation; its speed-ups are
    over its own plain decoding.
    """
    from cera_core.instruments.against import find_peer, peer_contestants  # noqa: PLC0415
    from cera_core.instruments.bench import measure  # noqa: PLC0415
    from cera_core.instruments.summary import lines_of  # noqa: PLC0415
    from cera_core.instruments.tasks import chosen_tasks, tasks_in  # noqa: PLC0415

    chosen = chosen_tasks(tasks_in(tasks), category or (), limit)
    if html is not None:
        from cera_core.instruments.report import check_report_can_be_written  # noqa: PLC0415

        check_report_can_be_written(html)
    if against_python and against is None:
        raise InvalidInputError(
            "'--against-python' says where the engine of '--against' is. Add '--against llama.cpp'."
        )
    peers = [find_peer(against, python) for python in against_python or [sys.executable]] if against else []
    engines = _engines(engine_flags, may_pull=pull, warm=warm)
    with peer_contestants(peers, next(iter(engines.values()))) as others, ExitStack() as stack:
        own = _contestants(engines, engine_flags, explain=html is not None)  # the page draws single rounds
        contestants: list[Contestant] = [*own, *others]
        on_step = stack.enter_context(progress(len(chosen) * len(contestants) * (repeats + 1)))
        results = measure(
            contestants,
            chosen,
            repeats=repeats,
            machine_state=_state_of(next(iter(engines.values()))),
            on_run=lambda contestant, task: on_step(f"{task.name}: {contestant}"),
        )
    if html is not None:
        from cera_core.instruments.report import write_report  # noqa: PLC0415

        write_report(html, results, heading=_heading(engines))
        say(f"Wrote {html}.")
    if as_json:
        write_json(_as_dict(engines, results))
    else:
        lines = lines_of(results)
        say(_heading(engines))
        write_table(HEADERS, [list(_cells(line)) for line in lines])
        say(LEGEND)
        say(_machine(lines))


HEADERS = ("category", "contestant", "tokens/s", "speed-up", "round", "kept of drafted", "draft+verify", "equal")
LEGEND = (
    "speed-up: over plain decoding, in brackets the lowest and highest turn; round: mean acceptance length; "
    "kept: accepted, the rest was rejected; draft+verify: milliseconds."
)


def _cells(line: Line) -> Iterator[str]:
    stats = line.stats
    yield f"{line.category} ({line.num_tasks})"
    yield line.contestant
    yield f"{line.tokens_per_second:.1f}"
    yield f"{line.speed_up:.2f} ({min(line.speed_ups):.2f}-{max(line.speed_ups):.2f})"
    yield f"{stats.mean_acceptance_length:.2f}" if stats.num_rounds else "-"
    yield f"{stats.num_accepted} of {stats.num_drafted}, {stats.acceptance_rate:.0%}" if stats.num_drafted else "-"
    yield f"{1e3 * stats.draft_seconds:.1f} + {1e3 * stats.verify_seconds:.0f}" if stats.num_rounds else "-"
    yield "yes" if line.equals_plain else "NO"


def _machine(lines: Sequence[Line]) -> str:
    """Says what the machine did meanwhile."""
    states = sorted({state for line in lines for state in line.states})
    waits = [line.waited for line in lines if line.waited is not None]
    waited = f"waited for a processor for at most {max(waits):.1%} of a run" if waits else "waiting not known"
    return f"machine: {', '.join(states) or 'state not known'}; {waited}."


def _engines(flags: EngineFlags, *, may_pull: bool, warm: bool) -> dict[str, Engine]:
    """Loads an engine for each backend, by the backend's name.

    A memory of answers would have each turn drafted from the turn before, so there is none unless that is asked for.
    """
    if "memory" in flags.settings and not warm:
        raise InvalidInputError(
            "'--memory' drafts from the answers of the turns before, which is no measurement of the drafters. Leave it "
            "out, or add '--warm' to measure just that."
        )
    drafters = [_drafter_and_k(text)[0] for text in names_in(flags, "drafter")]
    engines = {}
    for name in names_in(flags, "backend"):
        settings = {**flags.settings, "backend": name, "drafter": drafters[0] if len(drafters) == 1 else AUTO}
        if not warm:
            settings["memory"] = "none"
        engines[name] = load_engine(replace(flags, settings=settings), may_pull=may_pull)
    return engines


def _contestants(engines: dict[str, Engine], flags: EngineFlags, *, explain: bool) -> Iterator[CeraContestant]:
    """Yields for each engine plain decoding, then each drafter."""
    from cera_core.instruments.bench import CeraContestant  # noqa: PLC0415

    for backend, engine in engines.items():
        prefix = f"{backend} " if len(engines) > 1 else ""
        plain = f"{prefix}plain"
        yield CeraContestant(plain, plain, engine, None, explain=explain)
        for text in names_in(flags, "drafter"):
            drafter, k = _drafter_and_k(text)
            options: dict[str, Any] = {} if k is None else {"adaptive": False, "max_draft_tokens": k}
            if drafter != NONE:
                yield CeraContestant(f"{prefix}{text}", plain, engine, drafter, explain=explain, **options)


def _drafter_and_k(text: str) -> tuple[str, int | None]:
    """Reads NAME or NAME@K.

    Raises:
        InvalidInputError: K is no number of tokens.
    """
    drafter, at, k = text.partition("@")
    if at and not (k.isdecimal() and int(k) > 0):
        raise InvalidInputError(
            f"'--drafter' must be NAME, or NAME@K with K tokens to draft, at least 1, and is {text!r}."
        )
    return drafter, int(k) if at else None


def _state_of(engine: Engine) -> Callable[[], str | None]:
    return lambda: engine.model.facts().get("machine state")


def _heading(engines: dict[str, Engine]) -> str:
    from cera_core.machine import num_usable_processors, processor_name  # noqa: PLC0415

    engine = next(iter(engines.values()))
    model = engine.model.config.name or engine.config.model
    facts = "; ".join(
        f"{name}: {', '.join(f'{key} {value}' for key, value in other.model.facts().items()) or 'no facts'}"
        for name, other in engines.items()
    )
    return f"{model} on {processor_name()}, {num_usable_processors()} processors; {facts}"


def _as_dict(engines: dict[str, Engine], results: Sequence[Result]) -> dict[str, Any]:
    from cera_core.instruments.summary import lines_of  # noqa: PLC0415

    return {
        "heading": _heading(engines),
        "lines": [
            {
                "category": line.category,
                "contestant": line.contestant,
                "num_tasks": line.num_tasks,
                "tokens_per_second": line.tokens_per_second,
                "speed_up": line.speed_up,
                "speed_ups": line.speed_ups,
                "equals_plain": line.equals_plain,
                "waited": line.waited,
                "states": line.states,
                "stats": line.stats.as_dict(),
            }
            for line in lines_of(results)
        ],
        "results": results,
    }
