"""`cera pull`: fetches a model, checks it, and says where it is."""

from __future__ import annotations

from typing import Annotated

import typer

from cera_core.cli.fetching import fetch
from cera_core.modelfile.catalogue import CATALOGUE

app = typer.Typer(add_completion=False)


@app.command()
def pull(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name from `cera models`.", autocompletion=lambda: list(CATALOGUE))
    ],
    accept_terms: Annotated[
        bool, typer.Option("--accept-terms", help="Accept the model's terms of use, where it has any.")
    ] = False,
) -> None:
    """Fetches a model into the cache of this machine.

    The checksum is always checked, of a file that is here already as well. Prints the file's path.
    """
    typer.echo(fetch(name, accept_terms=accept_terms))
