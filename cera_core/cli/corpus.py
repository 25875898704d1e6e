"""`cera corpus`: makes documents ready to be drafted from, and shows what a corpus holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cera_core.cli.flags import MODEL_HELP, ConfigFlag, JsonFlag
from cera_core.cli.loading import context_without_model, tokenizer_of
from cera_core.cli.output import say, write_json, write_table
from cera_core.cli.progress import measured_progress

if TYPE_CHECKING:
    from cera_core.drafting.corpora.building import BuildReport

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def corpus(context: typer.Context) -> None:
    """Makes documents ready to be drafted from.

    The drafter `corpus` looks for the end of a text in them, and drafts what followed.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def build(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Folders of text files, and files that are taken whatever their name."),
    ],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The corpus to make or replace.")],
    suffix: Annotated[
        list[str] | None,
        typer.Option("--suffix", metavar="TEXT", help="Take only files whose name ends so; may be repeated."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="MODEL", help=f"{MODEL_HELP} Its tokenizer is used.")
    ] = None,
    config: ConfigFlag = None,
) -> None:
    """Makes a corpus of text files.

    Each file is a document, each line of a `.jsonl` file too: a string, a list of token ids, or an object with `text`
    or `token_ids`. Hidden files and files that are no UTF-8 text are skipped.
    """
    from cera_core.config import load_config  # noqa: PLC0415 - what the help of a command should not cost
    from cera_core.drafting.corpora.building import build_corpus  # noqa: PLC0415

    settings = load_config(config, flags={"model": model} if model else {})
    context = context_without_model(tokenizer_of(settings.model))
    with measured_progress() as show:
        report = build_corpus(paths, output, context, suffixes=suffix or (), progress=show)
    _say_report(report)
    typer.echo(output)


@app.command()
def info(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A corpus.")],
    as_json: JsonFlag = False,
) -> None:
    """Shows what a corpus holds, and checks that it is undamaged."""
    from cera_core.drafting.corpora.file import open_corpus  # noqa: PLC0415
    from cera_core.drafting.corpora.layout import FORMAT_VERSION  # noqa: PLC0415

    opened = open_corpus(file)
    opened.check_content()
    header = opened.header
    rows: dict[str, object] = {
        "file": str(file),
        "format_version": FORMAT_VERSION,
        "num_bytes": opened.num_mapped_bytes,
        "num_documents": header.num_documents,
        "num_tokens": header.num_tokens,
        "vocab_size": header.vocab_size,
        "tokenizer": header.tokenizer,
    }
    if as_json:
        write_json(rows)
    else:
        write_table(("property", "value"), [(name.replace("_", " "), value) for name, value in rows.items()])


def _say_report(report: BuildReport) -> None:
    """Says how much was read, and how many files were skipped for what reason."""
    header = report.header
    say(f"files: {report.num_files}, documents: {header.num_documents}, tokens: {header.num_tokens}")
    for reason, count in sorted(report.skipped.items()):
        say(f"skipped, {reason}: {count}")
