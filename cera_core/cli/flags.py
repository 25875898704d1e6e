"""Flags that mean the same in several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from cera_core.errors import UnknownNameError
from cera_core.near_match import did_you_mean

CONFIG_HELP = "The settings file to read in place of the nearest cera.toml."
MODEL_HELP = "A model file, or a name from `cera models`."

ConfigFlag: TypeAlias = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=CONFIG_HELP)]
JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Write JSON.")]

PLUGIN_KINDS = ("drafter", "backend")
KindArgument: TypeAlias = Annotated[str, typer.Argument(metavar="KIND", help="`drafter` or `backend`.")]


def checked_kind(kind: str) -> str:
    """Returns what kind of plugin a command is about.

    Raises:
        UnknownNameError: There is no such kind.
    """
    if kind not in PLUGIN_KINDS:
        hint = did_you_mean(kind, PLUGIN_KINDS)
        raise UnknownNameError(f"KIND must be {' or '.join(map(repr, PLUGIN_KINDS))}, but is {kind!r}.{hint}")
    return kind


PromptArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="PROMPT", help="The prompt; standard input if there is none, or for `-`.")
]
PromptFileFlag: TypeAlias = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the prompt from this file.")
]
TasksFlag: TypeAlias = Annotated[
    Path | None,
    typer.Option("--tasks", metavar="FILE", help="Tasks in the format of Spec-Bench, in place of cera's own."),
]
