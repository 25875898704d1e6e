"""Where settings are written: files, `CERA_*` variables and calls, each read into one flat layer.

A layer maps the path of a setting, for instance `("generation", "max_tokens")`, to its value and its origin. Nothing
here knows whether a value is usable: that is asked once, of what is left when later layers have covered earlier ones.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cera_core.errors import ConfigError
from cera_core.near_match import did_you_mean

SettingPath: TypeAlias = tuple[str, ...]

FILE_NAME = "cera.toml"

RESERVED_VARIABLES = frozenset(
    f"CERA_{name}"
    for name in (
        "CACHE_DIR",
        "CONFIG",
        "NATIVE_ISA",
        "REQUIRE_MODELS",
        "REQUIRE_NATIVE",
        "TEST_HOSTS",
        "TRACE_PLUGINS",
        "TRACEBACK",
    )
)
"""Variables that mean something to another part of cera and are no settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value as it was written, and where."""

    value: Any
    origin: str


Layer: TypeAlias = dict[SettingPath, Setting]


def is_table(path: SettingPath) -> bool:
    """Says whether the settings below `path` are merged one by one; anything else is replaced as a whole."""
    return path == ("generation",) or (path[0] in {"backends", "drafters"} and len(path) <= 2)


def layer_of(values: Mapping[str, Any], origin_of: Callable[[SettingPath], str]) -> Layer:
    """Reads nested values, laid out as in `cera.toml`.

    Raises:
        ConfigError: A plain value stands where a table belongs.
    """

    def walk(table: Mapping[str, Any], parent: SettingPath) -> Iterator[tuple[SettingPath, Setting]]:
        for key, value in table.items():
            path = (*parent, key)
            if not is_table(path):
                yield path, Setting(value, origin_of(path))
            elif isinstance(value, Mapping):
                yield from walk(value, path)
            else:
                raise ConfigError(f"'{'.'.join(path)}' must be a table, but is {value!r} ({origin_of(path)}).")

    return dict(walk(values, ()))


def tree_of(layer: Layer) -> dict[str, Any]:
    """Lays the values of a layer out as in `cera.toml`."""
    tree: dict[str, Any] = {}
    for path, setting in layer.items():
        table = tree
        for key in path[:-1]:
            table = table.setdefault(key, {})
        table[path[-1]] = setting.value
    return tree


def file_layer(file: Path) -> Layer:
    """Reads a TOML file. The path of a model in it is taken relative to the file.

    Raises:
        ConfigError: The file cannot be read or is no TOML.
    """
    text = _text_of(file)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The settings file '{file}' is not valid TOML: {error}.") from error
    except RecursionError as error:
        raise ConfigError(f"The settings file '{file}' is nested too deeply to be read.") from error
    lines = _lines_of_keys(text)

    def origin_of(path: SettingPath) -> str:
        parents = (path[:length] for length in range(len(path), 0, -1))  # an inline table has one line for all
        line = next((lines[parent] for parent in parents if parent in lines), 0)
        return f"{file}, line {line}" if line else str(file)

    layer = layer_of(values, origin_of)
    model = layer.get(("model",))
    if model and isinstance(model.value, str) and (file.parent / model.value).is_file():
        layer["model",] = Setting(str(file.parent / model.value), model.origin)
    return layer


def _text_of(file: Path) -> str:
    try:
        data = file.read_bytes()
    except IsADirectoryError as error:
        raise ConfigError(f"The settings '{file}' must be a file, but are a folder. Rename or remove it.") from error
    except OSError as error:
        raise ConfigError(
            f"The settings file '{file}' cannot be read: {error.strerror}. Check the path and its permissions."
        ) from error
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"The settings file '{file}' must be UTF-8, but line {line} has the byte 0x{data[error.start]:02x}. "
            "Save it as UTF-8."
        ) from error


_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w.\- ]|"[^"]*"|'[^']*')+?)\s*=""")


def _lines_of_keys(text: str) -> dict[SettingPath, int]:
    """Finds the line each key stands on, which `tomllib` does not tell; 0 where two lines look like it."""
    lines: dict[SettingPath, int] = {}
    header: SettingPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if match := _HEADER.match(line):
            header = path = _split_key(match[1])
        elif match := _KEY.match(line):
            path = (*header, *_split_key(match[1]))
        else:
            continue
        lines[path] = 0 if path in lines else number
    return lines


def _split_key(key: str) -> SettingPath:
    """Splits a dotted, perhaps quoted TOML key; text inside a multi-line string that is none gives an empty path."""
    try:
        table: object = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(table, dict):
        (name, table), *_ = table.items()
        path.append(name)
    return tuple(path)


def environment_layer(environ: Mapping[str, str], settings: Mapping[str, SettingPath]) -> Layer:
    """Reads the `CERA_*` variables; an empty one counts as not set.

    Args:
        environ: The environment.
        settings: The path of a setting by the name of its variable, for instance `CERA_MAX_TOKENS`.

    Raises:
        ConfigError: A variable is not known.
    """
    layer: Layer = {}
    for variable, text in environ.items():
        if not variable.startswith("CERA_") or variable in RESERVED_VARIABLES or not text:
            continue
        path = settings.get(variable) or _plugin_option_path(variable)
        if path is None:
            hint = did_you_mean(variable, {*settings, *RESERVED_VARIABLES}) or " `cera config` lists the settings."
            raise ConfigError(f"The environment variable {variable!r} is not a setting.{hint}")
        layer[path] = Setting(value_from_text(text), f"environment variable {variable}")
    return layer


def _plugin_option_path(variable: str) -> SettingPath | None:
    """Reads `CERA_DRAFTERS__PROMPT_LOOKUP__NGRAM_MAX` as the path of that option."""
    kind, *rest = variable.removeprefix("CERA_").lower().split("__")
    if kind not in {"backends", "drafters"} or len(rest) != 2 or not all(rest):
        return None
    return kind, rest[0].replace("_", "-"), rest[1]


def value_from_text(text: str) -> Any:
    """Reads text that looks like a TOML array or inline table as one; other text is checked by the setting's type."""
    if text.lstrip().startswith(("[", "{")):
        try:
            return tomllib.loads(f"value = {text}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            return text
    return text
