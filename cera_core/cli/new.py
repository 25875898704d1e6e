"""`cera new`: the beginning of a plugin of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from cera_core.cli.flags import ConfigFlag, KindArgument, checked_kind
from cera_core.config import load_config

app = typer.Typer(add_completion=False)


@app.command()
def new(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called, in kebab-case.")],
    *,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", metavar="FOLDER", help="The folder to make; `cera-NAME` in this one by default."),
    ] = None,
    licence: Annotated[
        str, typer.Option("--licence", metavar="LICENCE", help="Apache-2.0, BSD-3-Clause or MIT.")
    ] = "Apache-2.0",
    config: ConfigFlag = None,
) -> None:
    """Writes a small drafter or backend as a package that works.

    Install it, run its tests, and put your idea in the place of its own.
    """
    from cera_core.discovery import discover  # noqa: PLC0415 - imports every plugin
    from cera_core.scaffolding.distribution import new_distribution  # noqa: PLC0415

    plugins = discover(load_config(config).disabled_plugins)
    is_drafter = checked_kind(kind) == "drafter"
    registry: Any = plugins.drafters if is_drafter else plugins.backends
    distribution = new_distribution(
        "drafter" if is_drafter else "backend", name, licence, [*registry, *registry.reserved]
    )
    folder = directory or Path(distribution.package)
    for path in distribution.write(folder):
        typer.echo(path)
    typer.echo(f"\nNext:\n  cd {folder}\n  pip install -e '.[test]'\n  pytest\n  cera plugins")
