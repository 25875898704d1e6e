"""Recorded texts, as prompts and the answers that followed them. Knows nothing of drafters.

A line of a JSON lines file is an object in one of these forms, each with an optional `category`:

    {"prompt": TEXT or IDS, "output": TEXT or IDS}       `response`, `completion` and `answer` mean `output` too
    {"messages": [{"role": ..., "content": ...}, ...]}   every message of the assistant is an answer to those before it
    {"conversations": [{"from": ..., "value": ...}, ...]}
    {"text": TEXT} or {"token_ids": IDS}                 all of it is answer

Any other file is one text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cera_core.drafting.sources import JSON_LINES_SUFFIXES, decoded_line, read_lines, read_sources
from cera_core.errors import InvalidInputError

Encode: TypeAlias = Callable[[str], Sequence[int]]

OUTPUT_KEYS = ("output", "response", "completion", "answer")
ASSISTANT_ROLES = frozenset({"assistant", "gpt", "model", "bot"})
FORMS = "a JSON object with 'prompt' and 'output', with 'messages', with 'conversations', or with 'text' or 'token_ids'"


@dataclass(frozen=True, slots=True)
class Transcript:
    """A prompt and the answer that followed it.

    Attributes:
        category: What kind of text it is; the file's name where nothing says.
        prompt: Token ids, perhaps none.
        output: Token ids, one or more.
    """

    category: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]


def read_transcripts(path: Path, encode: Encode) -> Iterator[Transcript]:
    """Yields the transcripts of a file; an answer without any token is passed over.

    Args:
        path: A JSON lines file, by its suffix, or a text.
        encode: Turns text into token ids.

    Raises:
        InvalidInputError: The file cannot be read, or a line is of another form.
    """
    for category, prompt, output in _texts(path):
        output_ids = _ids(output, encode)
        if output_ids:
            yield Transcript(category, _ids(prompt, encode), output_ids)


def _texts(path: Path) -> Iterator[tuple[str, Any, Any]]:
    """Yields category, prompt and output, each of the latter a text or token ids."""
    if path.suffix.lower() not in JSON_LINES_SUFFIXES:
        for source in read_sources(path, one_a_line=False):
            yield path.name, "", source.content
        return
    for place, line in read_lines(path):
        value = decoded_line(line, place)
        pairs = list(_pairs(value)) if isinstance(value, dict) else []
        if not pairs or not all(_is_text_or_ids(part) for pair in pairs for part in pair):
            raise InvalidInputError(f"{place}: must be {FORMS}. Correct the line.")
        for prompt, output in pairs:
            yield str(value.get("category", path.name)), prompt, output


def _pairs(value: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yields each prompt with its answer; nothing if the form is not known."""
    outputs = [value[key] for key in OUTPUT_KEYS if key in value]
    if "prompt" in value and len(outputs) == 1:
        yield value["prompt"], outputs[0]
    for key, role, content in (("messages", "role", "content"), ("conversations", "from", "value")):
        messages = value.get(key)
        if isinstance(messages, list) and all(isinstance(message, dict) for message in messages):
            yield from _answers([(message.get(role), message.get(content)) for message in messages])
    yield from (("", value[key]) for key in ("text", "token_ids") if key in value)


def _answers(messages: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for index, (role, content) in enumerate(messages):
        if role in ASSISTANT_ROLES:
            yield "\n\n".join(str(text) for _, text in messages[:index]), content


def _is_text_or_ids(value: Any) -> bool:
    if isinstance(value, list):
        return all(type(item) is int and item >= 0 for item in value)
    return isinstance(value, str)


def _ids(value: str | list[int] | tuple[int, ...], encode: Encode) -> tuple[int, ...]:
    return tuple(encode(value)) if isinstance(value, str) else tuple(value)
