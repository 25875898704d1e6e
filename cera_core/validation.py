"""A pydantic model's complaints as one `ConfigError` a person can act on.

It knows nothing of layers or files: whoever calls it says where each value came from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike
from reprlib import Repr
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from cera_core.errors import ConfigError
from cera_core.near_match import did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)

_short = Repr()
_short.maxstring = _short.maxother = 60


def unknown_origin(path: str) -> str | None:
    """Says that nobody knows where a value came from."""
    del path
    return None


def validated(
    model: type[M],
    values: Mapping[str, Any],
    *,
    owner: str,
    origin_of: Callable[[str], str | None] = unknown_origin,
) -> M:
    """Makes a `model` of `values`.

    Args:
        model: What the values are checked with.
        values: One value a field.
        owner: Whose options these are, for messages, for instance `backend 'numpy'`.
        origin_of: Returns where the value at a dotted path came from, or None.

    Raises:
        ConfigError: Values are not usable; one paragraph names each, what is required, what was found and where.
    """
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        complaints = [
            _complaint(details, model, owner, origin_of)
            for details in error.errors(include_url=False)
            if details["type"] != "default_factory_not_called"  # a default that waits for a value complained of already
        ]
        raise ConfigError(" ".join(complaints)) from error


def list_of_one(value: object) -> object:
    """Lets one text or path stand for a list of it: what a validator of a list does first."""
    return (value,) if isinstance(value, str | PathLike) else value


def names_from_text(value: object) -> object:
    """Reads a text as names with commas between them: what a validator of a list of names does first."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def _complaint(
    details: ErrorDetails, model: type[BaseModel], owner: str, origin_of: Callable[[str], str | None]
) -> str:
    path = ".".join(str(part) for part in details["loc"] if part != "[key]")
    origin = _origin(path, origin_of)
    where = f" ({origin})" if origin else ""
    if details["type"] == "extra_forbidden":
        *parents, key = details["loc"]
        names = _fields_at(model, parents)
        tables = [name for name in names if key in _fields_at(model, [*parents, name])]
        if tables:
            hint = f" It belongs under [{'.'.join(map(str, [*parents, tables[0]]))}]."
        else:
            hint = did_you_mean(str(key), names) or f" The options are {', '.join(names) or 'none'}."
        return f"{path!r}{where} is not an option of {owner}.{hint}"
    if not path:
        return f"The options of {owner}{where}: {_requirement(details)}."
    return f"{path!r} of {owner} {_requirement(details)}, but is {_short.repr(details['input'])}{where}."


def _origin(path: str, origin_of: Callable[[str], str | None]) -> str | None:
    """Returns where the value at a path, or the one that it is a part of, came from."""
    while path:
        if origin := origin_of(path):
            return origin
        path = path.rpartition(".")[0]
    return origin_of(path)


_KINDS = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "path_type": "a path",
    "string_type": "a text",
}
"""What a value must be, in the words of a settings file, by pydantic's name for the error."""
_LISTS = ("list_type", "tuple_type", "set_type", "frozen_set_type")


def _requirement(details: ErrorDetails) -> str:
    """Returns what pydantic asks for, as the rest of a sentence that began with the option's name."""
    if kind := _KINDS.get(details["type"]):
        return f"must be {kind}"
    if details["type"] in _LISTS:
        return f"must be a list{_as_list(details)}"
    if details["type"] == "value_error":  # raised by a validator; the words are its author's
        return details["msg"].removeprefix("Value error, ").removesuffix(".")
    if details["type"] == "string_pattern_mismatch":  # a pattern may hold commas
        return f"must match {details['ctx']['pattern']}"
    requirement = details["msg"].partition(",")[0]  # what follows the comma repeats what was found
    requirement = requirement.replace("String should", "must", 1)
    return requirement.replace("Input should", "must", 1).replace("Field required", "must be given", 1)


def _as_list(details: ErrorDetails) -> str:
    """Returns how the text found is written as a list of one."""
    value, name = details["input"], details["loc"][-1]
    if not isinstance(value, str) or isinstance(name, int):
        return ""
    return f", like {name}=[{json.dumps(_short.repr(value)[1:-1], ensure_ascii=False)}]"


def _fields_at(model: type[BaseModel], path: list[int | str]) -> list[str]:
    """Returns the names that are allowed below `path`."""
    for part in path:
        field = model.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        model = field.annotation
    return list(model.model_fields)
