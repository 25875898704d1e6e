"""`cera config`: the effective settings, and where each came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import typer

from cera_core.cli.engine_flags import EngineFlags, takes_engine_flags
from cera_core.cli.flags import JsonFlag
from cera_core.cli.output import write_json, write_table
from cera_core.config import Config

app = typer.Typer(add_completion=False)


@app.command()
@takes_engine_flags
def config(
    engine_flags: EngineFlags,
    as_json: JsonFlag = False,
) -> None:
    """Shows the effective settings and where each came from.

    Options of the drafter and the backend are then checked as a run would.
    """
    effective = engine_flags.load_config()
    settings = list(effective_settings(effective))
    for kind, options in (("backend", engine_flags.backend_options), ("drafter", engine_flags.drafter_options)):
        settings += [(f"{kind}_options.{name}", value, f"--{kind}-option") for name, value in options.items()]
    if as_json:
        write_json([{"name": name, "value": value, "origin": origin} for name, value, origin in settings])
    else:
        write_table(
            ("setting", "value", "origin"), ((name, text_of(value), origin) for name, value, origin in settings)
        )
    sys.stdout.flush()  # what is wrong comes after
    _check_options(engine_flags, effective)


def _check_options(flags: EngineFlags, config: Config) -> None:
    from cera_core.assembly import check_options, options_with, warn_of_unused  # noqa: PLC0415 - imports NumPy
    from cera_core.discovery import discover  # noqa: PLC0415

    with_flags = config.updated(
        {
            "backends": options_with(config.backends, config.backend, flags.backend_options),
            "drafters": options_with(config.drafters, config.drafter, flags.drafter_options),
        }
    )
    plugins = discover(config.disabled_plugins)
    warn_of_unused(config, plugins)
    check_options(with_flags, plugins)


def effective_settings(config: Config) -> Iterator[tuple[str, Any, str]]:
    """Lists every setting by dotted path, the options of plugins only where they are set."""
    values = config.model_dump(mode="json")
    tables = {name: values.pop(name) for name in ("generation", "backends", "drafters")}
    flat = values | {f"generation.{name}": value for name, value in tables["generation"].items()}
    for kind in ("backends", "drafters"):
        for plugin, options in tables[kind].items():
            flat |= {f"{kind}.{plugin}.{name}": value for name, value in options.items()}
    for path, value in flat.items():
        yield path, value, config.origin_of(path)


def text_of(value: Any) -> str:
    """Returns a value as a person would write it in a setting."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
