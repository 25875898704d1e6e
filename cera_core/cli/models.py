"""`cera models`: the models known by name."""

from __future__ import annotations

import typer

from cera_core.cli.flags import JsonFlag
from cera_core.cli.output import write_json, write_table
from cera_core.modelfile.catalogue import CATALOGUE, cached_path

app = typer.Typer(add_completion=False)


@app.command()
def models(as_json: JsonFlag = False) -> None:
    """Lists the models that can be pulled, and those that are here."""
    entries = [(entry, cached_path(entry.name)) for entry in CATALOGUE.values()]
    if as_json:
        write_json(
            [
                {
                    "name": entry.name,
                    "description": entry.description,
                    "license": entry.license,
                    "terms": entry.terms,
                    "size": entry.size,
                    "sha256": entry.sha256,
                    "path": path and str(path),
                }
                for entry, path in entries
            ]
        )
        return
    write_table(
        ("name", "size", "here", "license", "description"),
        (
            (entry.name, f"{entry.size / 1e6:.0f} MB", "yes" if path else "no", entry.license, entry.description)
            for entry, path in entries
        ),
    )
