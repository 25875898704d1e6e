"""`cera tokenize`: a text as the model sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cera_core.cli.flags import MODEL_HELP, ConfigFlag, JsonFlag
from cera_core.cli.output import printable, say, write_json
from cera_core.cli.prompt import read_text
from cera_core.config import load_config
from cera_core.modelfile.catalogue import resolve
from cera_core.modelfile.gguf import open_model_file
from cera_core.modelfile.tokenizer import load_tokenizer

app = typer.Typer(add_completion=False)


@app.command()
def tokenize(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text; standard input if there is none, or for `-`.")
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the text from this file.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)] = None,
    special: Annotated[
        bool, typer.Option("--special/--no-special", help="Add the tokens the file asks for at the beginning and end.")
    ] = True,
    parse_special: Annotated[
        bool, typer.Option("--parse-special", help="Read the names of control tokens as those tokens.")
    ] = False,
    as_json: JsonFlag = False,
    config: ConfigFlag = None,
) -> None:
    """Shows the tokens of a text.

    Each line is an id and the text it stands for, in quotes, or the name of a control token.
    """
    settings = load_config(config, flags={"model": model} if model else {})
    with open_model_file(resolve(settings.model)) as model_file:
        tokenizer = load_tokenizer(model_file)
        names: list[str] = model_file.require("tokenizer.ggml.tokens", list)
    token_ids = tokenizer.encode(read_text(text, file), add_special=special, parse_special=parse_special)
    pieces = [tokenizer.token_bytes(token_id) for token_id in token_ids]
    if as_json:
        tokens = [
            {
                "id": token_id,
                "text": piece.decode("utf-8", "backslashreplace"),
                "control": _control(piece, names[token_id]),
            }
            for token_id, piece in zip(token_ids, pieces, strict=True)
        ]
        write_json({"model": settings.model, "num_tokens": len(token_ids), "tokens": tokens})
        return
    for token_id, piece in zip(token_ids, pieces, strict=True):
        typer.echo(f"{token_id:>7}  {_control(piece, names[token_id]) or _quoted(piece)}")
    say(f"tokens: {len(token_ids)}")


def _control(piece: bytes, name: str) -> str | None:
    """Returns the name of a token that stands for no text."""
    return None if piece else printable(name)


def _quoted(piece: bytes) -> str:
    """Returns the text in quotes, or the bytes of a part of a character as Python writes them."""
    try:
        return json.dumps(piece.decode("utf-8"), ensure_ascii=False)
    except UnicodeDecodeError:
        return repr(piece)
