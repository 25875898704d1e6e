"""Phrases as token ids: made from text, and saved and loaded with the name of their tokenizer.

A saved file has JSON on each line: a header, then the ids of a phrase. The automaton itself is not saved, for
pyahocorasick's own files are memory images: a damaged one ends the process. Building it again takes 2 us a token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from cera_core.drafting.sources import Source, parse_json_line, read_lines
from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext

FORMAT = "cera phrases"
FORMAT_VERSION = 1


def tokenise(source: Source, context: DrafterContext) -> list[list[int]]:
    """Returns the ids of a phrase; of a text with and without a leading space, as most tokenizers tell them apart.

    Raises:
        InvalidInputError: See `Source.token_ids`.
    """
    if not isinstance(source.content, str):
        return [source.token_ids(context)]
    bare = source.content.removeprefix(" ")
    variants = [source.content, f" {bare}" if bare == source.content else bare]
    return [source.token_ids(context, text=variant) for variant in variants if variant]


def save_phrases(path: Path, phrases: Iterable[Sequence[int]], tokenizer_fingerprint: str | None) -> None:
    """Writes phrases to a file for `load_phrases`.

    Raises:
        InvalidInputError: The file cannot be written.
    """
    header = {"format": FORMAT, "version": FORMAT_VERSION, "tokenizer": tokenizer_fingerprint}
    try:
        with path.open("w", encoding="utf-8") as file:
            file.write(json.dumps(header) + "\n")
            file.writelines(json.dumps(list(phrase)) + "\n" for phrase in phrases)
    except OSError as error:
        raise InvalidInputError(f"'{path}' cannot be written: {error.strerror}. Check the path.") from error


def load_phrases(path: Path, context: DrafterContext) -> list[list[int]]:
    """Reads a file that `save_phrases` wrote.

    Raises:
        InvalidInputError: It is no such file, was written by another version, or for another tokenizer.
    """
    lines = read_lines(path)
    place, header = next(lines, (f"{path}, line 1", ""))
    _check_header(header, place, context.tokenizer_fingerprint)
    return [parse_json_line(line, place).token_ids(context) for place, line in lines]


def _check_header(line: str, place: str, tokenizer_fingerprint: str | None) -> None:
    """Refuses what is no saved file, or not for this version or tokenizer; nobody knows of a None which that is."""
    try:
        header = json.loads(line)
    except json.JSONDecodeError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInputError(f"{place}: must be the header of saved phrases. Name a file a drafter has saved.")
    if header.get("version") != FORMAT_VERSION:
        raise InvalidInputError(
            f"{place}: must have format version {FORMAT_VERSION}, found {header.get('version')!r}. Save it anew."
        )
    saved_for = header.get("tokenizer")
    if tokenizer_fingerprint is not None and saved_for != tokenizer_fingerprint:
        raise InvalidInputError(
            f"{place}: must be saved for tokenizer {tokenizer_fingerprint!r}, found {saved_for!r}. Save the phrases "
            "with the model they are used with."
        )
