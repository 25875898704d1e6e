"""Which package a class or function of a plugin came from; knows nothing of what it does."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

ENTRY_POINT_GROUP = "cera"


def package_of(value: Any) -> str | None:
    """Returns name and version of the package whose plugin defined a class or function; None if none did.

    It reads the metadata of all installed packages: milliseconds, for a message that is written once.
    """
    module = str(getattr(value, "__module__", "")).partition(".")[0]
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        if entry_point.dist and entry_point.module.partition(".")[0] == module:
            return f"{entry_point.dist.name} {entry_point.dist.version}"
    return None


def with_package(name: str, value: Any) -> str:
    """Returns a quoted name, with the package that `value` came from where a plugin defined it."""
    package = package_of(value)
    return f"{name!r} of {package}" if package else repr(name)
