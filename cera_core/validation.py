"""A pydantic model's complaints as one `ConfigError` a person can act on.

It knows nothing of layers or files: whoever calls it says where each value came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def _complaint(
    details: ErrorDetails, model: type[BaseModel], owner: str, origin_of: Callable[[str], str | None]
) -> str:
    path = ".".join(str(part) for part in details["loc"] if part != "[key]")
    origin = origin_of(path)
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


def _requirement(details: ErrorDetails) -> str:
    """Returns what pydantic asks for, as the rest of a sentence that began with the option's name."""
    if details["type"] == "value_error":  # raised by a validator; the words are its author's
        return details["msg"].removeprefix("Value error, ").removesuffix(".")
    if details["type"] == "string_pattern_mismatch":  # a pattern may hold commas
        return f"must match {details['ctx']['pattern']}"
    requirement = details["msg"].partition(",")[0]  # what follows the comma repeats what was found
    requirement = requirement.replace("String should", "must", 1)
    return requirement.replace("Input should", "must", 1).replace("Field required", "must be given", 1)


def _fields_at(model: type[BaseModel], path: list[int | str]) -> list[str]:
    """Returns the names that are allowed below `path`."""
    for part in path:
        field = model.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return []
        model = field.annotation
    return list(model.model_fields)
