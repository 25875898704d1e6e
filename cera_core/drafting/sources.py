"""Texts and lists of token ids that are given to a drafter, in its options or in files.

It knows nothing of what a drafter makes of them. Every error names the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cera_core.errors import InvalidInputError
from cera_core.specs import MAX_VOCAB_SIZE, DrafterContext

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
FORMS = "a JSON string, a list of token ids, or an object with 'text' or 'token_ids'"


@dataclass(frozen=True, slots=True)
class Source:
    """A text, or the token ids of one.

    Attributes:
        place: Where it was found, for people: `FILE, line 3`.
        content: The text or the ids.
    """

    place: str
    content: str | tuple[int, ...]

    def token_ids(self, context: DrafterContext, text: str | None = None) -> list[int]:
        """Returns the ids, of `text` instead of the content if that is given.

        Raises:
            InvalidInputError: It is text and there is no tokenizer, or an id is outside the vocabulary.
        """
        content = self.content if text is None else text
        if isinstance(content, str):
            if context.tokenizer is None:
                raise InvalidInputError(
                    f"{self.place}: text needs a tokenizer, and this drafter was made without one. Make it through "
                    "'cera_core.load', or give token ids."
                )
            return context.tokenizer.encode(content, add_special=False)
        limit = context.vocab_size if context.vocab_size is not None else MAX_VOCAB_SIZE
        for token_id in content:
            if not 0 <= token_id < limit:
                raise InvalidInputError(f"{self.place}: token ids must be in 0..{limit - 1}, found {token_id}.")
        return list(content)


def read_sources(path: Path, *, one_a_line: bool) -> list[Source]:
    """Reads a UTF-8 file.

    A file whose name ends in `.jsonl` or `.ndjson` has on each line a JSON string, a list of token ids, or an object
    with the key `text` or `token_ids`. Any other is plain text. Blank lines are skipped.

    Args:
        path: The file.
        one_a_line: A plain file has a text on each line; else it is one text.

    Raises:
        InvalidInputError: The file cannot be read, or a line is malformed.
    """
    if path.suffix.lower() in JSON_LINES_SUFFIXES:
        return [parse_json_line(line, place) for place, line in read_lines(path)]
    if one_a_line:
        return [Source(place, line) for place, line in read_lines(path)]
    text = _read_text(path)
    return [Source(str(path), text)] if text else []


def read_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the lines of a UTF-8 file that are not blank, each with its place before it.

    Raises:
        InvalidInputError: The file cannot be read.
    """
    for number, line in enumerate(_read_text(path).split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", line


def given_sources(option: str, contents: Iterable[str | tuple[int, ...]]) -> list[Source]:
    """Makes sources of the values of an option.

    Raises:
        InvalidInputError: A value is empty.
    """
    sources = [Source(f"{option}[{index}]", content) for index, content in enumerate(contents)]
    for source in sources:
        if not source.content:
            raise InvalidInputError(f"{source.place} must not be empty. Remove it.")
    return sources


def _read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"'{path}' cannot be read: {error.strerror}. Check the path.") from error
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{path}, line {line}: the file must be UTF-8, found the byte 0x{data[error.start]:02x}. Convert it."
        ) from error


def decoded_line(line: str, place: str) -> Any:
    """Returns what a line of JSON lines holds.

    Raises:
        InvalidInputError: It is no JSON.
    """
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{place}, column {error.colno}: must be JSON, found an error ({error.msg}). Correct the line."
        ) from error


def parse_json_line(line: str, place: str) -> Source:
    """Reads one line of a JSON lines file.

    Raises:
        InvalidInputError: It is no JSON, or of another form than `read_sources` says.
    """
    value = decoded_line(line, place)
    if isinstance(value, dict):
        given = [key for key in ("text", "token_ids") if key in value]
        value = value[given[0]] if len(given) == 1 else None
    if isinstance(value, str) and value:
        return Source(place, value)
    if isinstance(value, list) and value and all(_is_id(item) for item in value):
        return Source(place, tuple(value))
    raise InvalidInputError(f"{place}: must be {FORMS}, and not empty, found {_shortened(line)}. Correct the line.")


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
