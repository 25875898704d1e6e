"""Fetches a model of the catalogue and shows how far it is."""

from __future__ import annotations

import sys
from pathlib import Path

from cera_core.cli.output import console, say
from cera_core.modelfile.catalogue import cached_path, entry_of, pull


def fetch(name: str, *, accept_terms: bool = False) -> Path:
    """Returns the file of a model, fetched if need be; in a terminal a bar shows how far it is.

    Raises:
        UnknownNameError: There is no model of that name.
        InvalidInputError: It has terms of use that were not accepted.
        DownloadError: No source delivered it.
    """
    entry = entry_of(name)
    if cached_path(name) is None:
        say(f"Fetching {name} ({entry.size / 1e6:.0f} MB, {entry.license}).")
    if not sys.stderr.isatty():
        return pull(name, accept_terms=accept_terms)
    return _pull_with_bar(name, accept_terms=accept_terms)


def _pull_with_bar(name: str, *, accept_terms: bool) -> Path:
    from rich.progress import (  # noqa: PLC0415 - only where somebody looks
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(name, total=None, visible=False)

        def show(done_bytes: int, total_bytes: int, step: str) -> None:
            bar.update(task, completed=done_bytes, total=total_bytes, description=step, visible=True)

        return pull(name, show, accept_terms=accept_terms)
