"""`cera replay`: what drafters would have brought on recorded texts, without a model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cera_core.cli.engine_flags import EngineFlags, names_in, takes_engine_flags
from cera_core.cli.loading import context_without_model, load_engine, tokenizer_of
from cera_core.cli.output import say, write_json, write_table
from cera_core.cli.progress import progress
from cera_core.errors import InvalidInputError, MissingModelError

if TYPE_CHECKING:
    from cera_core.config import Config
    from cera_core.drafter import Drafter
    from cera_core.instruments.replay import Replayed
    from cera_core.modelfile.tokenizer import ModelTokenizer

app = typer.Typer(add_completion=False)

MEASURED = "measured"
DEFAULT_COSTS = "1:1,4:1.1,8:1.6,16:2.9"


@app.command()
@takes_engine_flags
def replay(
    engine_flags: EngineFlags,
    *,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON lines of prompts and answers or of conversations, or any text."),
    ],
    costs: Annotated[
        str,
        typer.Option(
            "--costs",
            metavar="LIST",
            help="What a forward takes by its rows, ROWS:COST,..., relative to one row, or `measured`: what this "
            "machine takes with the model.",
        ),
    ] = DEFAULT_COSTS,
    step_ms: Annotated[
        float, typer.Option("--step-ms", min=0.001, metavar="NUMBER", help="Milliseconds of a forward of one row.")
    ] = 20.0,
    as_json: Annotated[bool, typer.Option("--json", help="Write all that was counted as JSON.")] = False,
) -> None:
    """Predicts from recorded texts what drafters would have brought.

    No model runs: what a forward takes comes from a table, and a draft is accepted as far as the record agrees with it.
    `--drafter` takes several names with commas between them. Text is turned into tokens by the model's tokenizer.
    """
    from cera_core.instruments.replay import CostTable, Replay  # noqa: PLC0415
    from cera_core.instruments.transcripts import read_transcripts  # noqa: PLC0415

    config = engine_flags.load_config()
    if config.memory is not None:
        say(f"Note: 'memory' has no effect in a replay ({config.origin_of('memory')}).")
    points = _measured_points(engine_flags) if costs == MEASURED else _points(costs)
    table = CostTable(points, step_ms * 1e-3)
    tokenizer = _Tokenizer(config.model)
    texts = [transcript for path in files for transcript in read_transcripts(path, tokenizer.encode)]
    if not texts:
        raise InvalidInputError("There is nothing to replay: no file has an answer of one token or more.")
    replays = [
        Replay(name, drafter, table, config.generation) for name, drafter in _drafters(engine_flags, config, tokenizer)
    ]
    with progress(len(replays) * len(texts)) as on_step:
        for run in replays:
            for transcript in texts:
                on_step(f"{run.name}: {transcript.category}")
                run.add(transcript)
    rows = [row for run in replays for row in (*run.results, run.total)]
    if as_json:
        write_json([{"speed_up": row.speed_up, **_as_dict(row)} for row in rows])
    else:
        write_table(HEADERS, (list(_cells(row)) for row in rows))


HEADERS = (
    "drafter", "category", "texts", "tokens", "predicted speed-up", "mean acceptance length", "accepted", "drafted",
    "drafting a token", "memory",
)  # fmt: skip


def _cells(row: Replayed) -> Iterator[str]:
    stats = row.stats
    yield from (row.drafter, row.category, str(row.num_transcripts), str(stats.num_emitted), f"{row.speed_up:.2f}")
    yield from (f"{stats.mean_acceptance_length:.2f}", f"{stats.acceptance_rate:.0%}", str(stats.num_drafted))
    yield f"{1e6 * stats.draft_seconds / stats.num_emitted:.1f} us"
    yield f"{row.memory_bytes / 1e6:.1f} MB"


def _as_dict(row: Replayed) -> dict[str, Any]:
    return {
        "drafter": row.drafter,
        "category": row.category,
        "num_transcripts": row.num_transcripts,
        "num_steps": row.num_steps,
        "seconds_of_a_step": row.seconds_of_a_step,
        "memory_bytes": row.memory_bytes,
        "stats": row.stats.as_dict(),
    }


class _Tokenizer:
    """The tokenizer of a model, read when a text must be encoded: transcripts of token ids need no model."""

    def __init__(self, model: str) -> None:
        self._model = model

    @cached_property
    def loaded(self) -> ModelTokenizer:
        """The tokenizer itself.

        Raises:
            MissingModelError: The model is not on this machine.
        """
        return tokenizer_of(self._model)

    def encode(self, text: str) -> list[int]:
        """Turns text into ids, the names of control tokens into those tokens, as a recorded chat has them."""
        return self.loaded.encode(text, add_special=False, parse_special=True)


def _drafters(flags: EngineFlags, config: Config, tokenizer: _Tokenizer) -> Iterator[tuple[str, Drafter]]:
    """Makes the drafters that were named, with their options; they get a tokenizer if the model is here."""
    from cera_core.assembly import make_drafter, options_with  # noqa: PLC0415
    from cera_core.discovery import discover  # noqa: PLC0415
    from cera_core.specs import DrafterContext  # noqa: PLC0415

    try:
        context = context_without_model(tokenizer.loaded)
    except MissingModelError:
        context = DrafterContext()
    plugins = discover(config.disabled_plugins)
    for name in names_in(flags, "drafter"):
        options = options_with(config.drafters, name, flags.drafter_options)
        drafter = make_drafter(name, plugins, options, context)
        if drafter is not None:
            yield name, drafter


def _measured_points(flags: EngineFlags) -> dict[int, float]:
    """Returns what the calibration of the model knows; loads the model.

    Raises:
        InvalidInputError: It knows nothing.
    """
    points = load_engine(flags, may_pull=False).calibrated_steps()
    if not points:
        raise InvalidInputError(
            "'--costs measured' needs a model that drafts can be verified on, and 'calibrate' on. Give ROWS:COST,... "
            "instead."
        )
    return points


def _points(text: str) -> dict[int, float]:
    try:
        return {int(rows): float(cost) for rows, cost in (point.split(":") for point in text.split(","))}
    except ValueError as error:
        raise InvalidInputError(f"'--costs' must be ROWS:COST,ROWS:COST,..., and is {text!r}.") from error
