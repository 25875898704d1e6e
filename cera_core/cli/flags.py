"""Flags that mean the same in several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

CONFIG_HELP = "The settings file to read in place of the nearest cera.toml."
MODEL_HELP = "A model file, or a name from `cera models`."

ConfigFlag: TypeAlias = Annotated[Path | None, typer.Option("--config", metavar="FILE", help=CONFIG_HELP)]
JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Write JSON.")]
