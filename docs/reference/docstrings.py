"""Writes what docstrings and signatures say as Markdown: for `generate.py`, which knows the pages."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel

_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):$", re.MULTILINE)
_ENTRY = re.compile(r"^(\**\w+): ", re.MULTILINE)


class _Source(str):
    """A text that stands in a signature as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Writes a table."""
    yield f"| {' | '.join(headers)} |"
    yield f"|{'---|' * len(headers)}"
    for row in rows:
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', '&#124;') for cell in row)} |"


def signature(name: str, function: Callable[..., Any]) -> str:
    """Returns a signature as it stands in the source, without `self`."""
    found = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=_annotation(parameter.annotation), default=_default(parameter.default))
        for parameter in found.parameters.values()
        if parameter.name != "self"
    ]
    returned = inspect.Signature.empty if inspect.isclass(function) else _annotation(found.return_annotation)
    return f"{name}{found.replace(parameters=parameters, return_annotation=returned)}"


def public_name(name: str, value: Any) -> Iterator[str]:
    """Writes the section of a class or function: its signature, and what its docstring says."""
    yield from ("", f"### `{name}`", "")
    if not inspect.isclass(value):
        yield from _callable(signature(name, value), value)
        return
    if not (issubclass(value, BaseModel) or getattr(value, "_is_protocol", False)):  # nobody calls these
        yield from (f"`class {signature(name, value)}`", "")
    yield from _docstring(inspect.getdoc(value))
    for member, attribute in vars(value).items():
        if not member.startswith("_") and not hasattr(BaseModel, member):
            yield from _member(name, member, attribute)


def attributes(cls: type) -> Iterator[str]:
    """Writes the attributes that the docstring of a class describes, then its properties, as one table."""
    _, sections = _parts(inspect.getdoc(cls))
    rows = [(f"`{name}`", meaning) for name, meaning in _entries(sections["Attributes"])]
    rows += [(f"`{name}`", value.__doc__) for name, value in vars(cls).items() if isinstance(value, property)]
    return table(("figure", "meaning"), rows)


def _member(owner: str, name: str, member: Any) -> Iterator[str]:
    if isinstance(member, property):
        returned = inspect.signature(member.fget).return_annotation
        yield from ("", f"#### `{owner}.{name}`", "")
        yield from _callable(f"{name}: {_annotation(returned)}", member)
    elif inspect.isfunction(member):
        yield from ("", f"#### `{owner}.{name}`", "")
        yield from _callable(signature(name, member), member)


def _callable(shown: str, value: Any) -> Iterator[str]:
    yield from (f"`{shown}`", "")
    yield from _docstring(inspect.getdoc(value))


def _docstring(text: str | None) -> Iterator[str]:
    """Writes a docstring; its lists of names become tables, its `Returns` a paragraph."""
    body, sections = _parts(text)
    yield body
    for title, content in sections.items():
        yield ""
        if title == "Returns":
            yield f"Returns: {_joined(content)}"
        else:
            heading = {"Args": "argument", "Attributes": "attribute", "Raises": "raises"}[title]
            yield from table((heading, "meaning"), ((f"`{name}`", meaning) for name, meaning in _entries(content)))


def _parts(text: str | None) -> tuple[str, dict[str, str]]:
    """Splits a docstring into what stands before its sections and the sections by title."""
    body, *rest = _SECTION.split(text or "")
    titles, contents = rest[::2], rest[1::2]
    return body.strip(), {
        title: textwrap.dedent(content).strip() for title, content in zip(titles, contents, strict=True)
    }


def _entries(content: str) -> Iterator[tuple[str, str]]:
    """Yields the names of a section with their meanings."""
    _, *rest = _ENTRY.split(content)
    for name, meaning in zip(rest[::2], rest[1::2], strict=True):
        yield name.lstrip("*"), _joined(meaning)


def _joined(text: str) -> str:
    return " ".join(text.split())


def _annotation(annotation: Any) -> Any:
    return _Source(annotation) if isinstance(annotation, str) else annotation


def _default(value: Any) -> Any:
    """Returns a default that does not show an address in memory."""
    if value is inspect.Parameter.empty or value is None:
        return value
    if callable(value):
        return _Source(getattr(value, "__name__", "..."))
    return _Source("...") if " object at 0x" in repr(value) else value
