"""`cera doctor`: what this machine and this install can do, and where the settings come from."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from cera_core.cli.config import effective_settings, text_of
from cera_core.cli.engine_flags import EngineFlags, takes_engine_flags
from cera_core.cli.flags import JsonFlag
from cera_core.cli.output import write_json, write_table
from cera_core.cli.plugins import listing
from cera_core.errors import CeraError

if TYPE_CHECKING:
    from cera_core.config import Config
    from cera_core.discovery import Plugins
    from cera_core.engine import Engine

app = typer.Typer(add_completion=False)


@app.command()
@takes_engine_flags
def doctor(engine_flags: EngineFlags, *, as_json: JsonFlag = False) -> None:
    """Shows what this machine and install can do.

    Reads memory for a second to measure it. Nothing is fetched; a model that is not here is said to be missing.
    """
    config = engine_flags.load_config()
    sections = {
        "machine": dict(_machine()),
        "plugins": {f"{row.kind} {row.name}": f"{row.status}: {row.note}" for row in listing(_plugins(config))},
        "model": dict(_model(engine_flags, config.model)),
        "cache": dict(_cache()),
        "settings": {
            name: f"{text_of(value)} ({origin})"
            for name, value, origin in effective_settings(config)
            if origin != "default"
        },
    }
    if as_json:
        write_json(sections)
        return
    for name, facts in sections.items():
        write_table((name, ""), facts.items() if facts else [("all", "default")])
        typer.echo()


def _machine() -> Iterator[tuple[str, str]]:
    from cera_core import __version__, machine  # noqa: PLC0415

    yield "cera", __version__
    yield "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield "processor", machine.processor_name()
    yield "processors this process may use", str(machine.num_usable_processors())
    yield "memory read by one thread", f"{machine.memory_bandwidth() / 1e9:.1f} GB/s"


def _plugins(config: Config) -> Plugins:
    from cera_core.discovery import discover  # noqa: PLC0415

    return discover(config.disabled_plugins)


def _model(flags: EngineFlags, name: str) -> Iterator[tuple[str, str]]:
    """Yields what the model can do here, or why it cannot be run."""
    from cera_core.cli.loading import load_engine  # noqa: PLC0415

    yield "name or file", name
    try:
        engine = load_engine(flags, may_pull=False)
    except CeraError as error:
        yield "cannot be run", str(error)
        return
    yield from _capabilities(engine)
    yield from engine.model.facts().items()
    steps = engine.calibrated_steps()
    yield "cost of a round", ", ".join(f"{rows} rows {cost:.2f}" for rows, cost in steps.items()) or "not measured"


def _capabilities(engine: Engine) -> Iterator[tuple[str, str]]:
    model = engine.model
    state = model.new_state()
    yield "description", f"{model.config.name or 'unnamed'}, {model.config.architecture}"
    yield "context", f"{state.max_seq_len} tokens"
    yield "largest batch", f"{model.max_batch} tokens a forward"
    yield "same text with and without drafts", "yes" if model.batch_invariant else "yes, but for near ties"
    yield "drafts can be verified", "yes" if model.supports_all_logits and model.supports_rewind else "no"
    yield "sessions can fork", "yes" if model.supports_copy else "no"
    yield "chat template", "yes" if engine.chat_template is not None else "no"


def _cache() -> Iterator[tuple[str, str]]:
    from cera_core.files import cache_folder  # noqa: PLC0415

    folder = cache_folder()
    files = [file for file in folder.rglob("*") if file.is_file()] if folder.is_dir() else []
    yield "folder", str(folder)
    yield "size", f"{sum(file.stat().st_size for file in files) / 1e6:.0f} MB in {len(files)} files"
