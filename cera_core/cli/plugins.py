"""`cera plugins`: what is installed, where it comes from, and what stands in the way of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import typer

from cera_core.cli.flags import ConfigFlag, JsonFlag
from cera_core.cli.output import write_json, write_table
from cera_core.config import load_config
from cera_core.discovery import PluginRecord, Plugins, discover, unavailable_because

app = typer.Typer(add_completion=False)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the listing; `note` is a summary or the reason for the status."""

    kind: str
    name: str
    status: str
    package: str
    version: str
    note: str


@app.command()
def plugins(
    as_json: JsonFlag = False,
    config: ConfigFlag = None,
) -> None:
    """Lists drafters, backends and the packages they come from."""
    rows = list(listing(discover(load_config(config).disabled_plugins)))
    if as_json:
        write_json([asdict(row) for row in rows])
    else:
        write_table(
            ("kind", "name", "status", "package", "note"),
            ((row.kind, row.name, row.status, f"{row.package} {row.version}", row.note) for row in rows),
        )


def listing(found: Plugins) -> Iterator[Row]:
    """Lists drafters, then backends, then the plugins that brought neither."""
    for record in found.records:
        for name in record.drafters:
            yield _row("drafter", name, record, "available", found.drafters[name].summary)
    for record in found.records:
        for name in record.backends:
            reason = unavailable_because(found.backends[name])
            status, note = ("unavailable", reason) if reason else ("available", found.backends[name].summary)
            yield _row("backend", name, record, status, note)
    for record in found.records:
        if not (record.drafters or record.backends):
            yield _row("plugin", record.name, record, record.status, record.reason or "Observes or adds commands.")


def _row(kind: str, name: str, record: PluginRecord, status: str, note: str) -> Row:
    return Row(kind, name, status, record.distribution, record.version, note)
