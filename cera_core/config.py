"""The settings: one typed model, filled from layers, each value remembering where it came from.

Later layers win: defaults, the user's `cera.toml`, the project's `cera.toml`, `CERA_*` variables, keyword arguments,
command-line flags. A value that a later layer covers has no effect, so only what is left is checked; a name that is
not known is never covered and always refused. Options of plugins are carried here and checked by the plugin's model.
Nothing is read when this module is imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator

from cera_core.config_layers import (
    FILE_NAME,
    Layer,
    SettingPath,
    environment_layer,
    file_layer,
    layer_of,
    tree_of,
)
from cera_core.generation_options import GenerationOptions, OptionalInt, OptionalText
from cera_core.registry import AUTO
from cera_core.validation import names_from_text, validated

DEFAULT_MODEL = "smollm2-135m"


class Config(BaseModel):
    """The effective settings. `load_config` makes one from all layers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(
        default=DEFAULT_MODEL, min_length=1, description="A model file, or the name of a model that `cera pull` knows."
    )
    backend: str = Field(default=AUTO, min_length=1, description="The backend. `auto` is the best that runs here.")
    drafter: str = Field(
        default=AUTO, min_length=1, description="The drafter. `auto` combines several; `none` turns it off."
    )
    context_length: OptionalInt = Field(
        default=None,
        ge=1,
        description="The most tokens of prompt and answer together. `none` is the model's own limit.",
    )
    calibrate: bool = Field(
        default=True,
        description="Measure once for a model file what forwards of several rows cost here, for 0.3 seconds when "
        "drafting begins, and keep it in the cache.",
    )
    memory: OptionalText = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        description="Draft from earlier answers too: the name under which they are remembered, of letters, digits, "
        "'.', '_' and '-'. `none` is off.",
    )
    memory_max_bytes: int = Field(
        default=64 * 2**20, ge=0, description="The most that a memory of earlier answers takes; the oldest go first."
    )
    disabled_plugins: tuple[str, ...] = Field(
        default=(), description="Plugins to leave out, by entry-point name; in text separated by commas."
    )
    generation: GenerationOptions = Field(default=GenerationOptions(), description="The options of a generation.")
    backends: dict[str, dict[str, Any]] = Field(default={}, description="Options for each backend, by its name.")
    drafters: dict[str, dict[str, Any]] = Field(default={}, description="Options for each drafter, by its name.")

    _origins: dict[str, str] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: object, /) -> None:
        """Notes as arguments what was given; `load_config` knows better and says so afterwards."""
        del context
        given = layer_of(self.model_dump(exclude_unset=True), _argument_origin)
        self._origins.update({".".join(path): setting.origin for path, setting in given.items()})

    @field_validator("model", mode="before")
    @classmethod
    def _model_from_path(cls, value: object) -> object:
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    @field_validator("disabled_plugins", mode="before")
    @classmethod
    def _names_from_text(cls, value: object) -> object:
        return names_from_text(value)

    def origin_of(self, path: str) -> str:
        """Returns where the setting at a dotted path came from, for instance `environment variable CERA_SEED`."""
        return self._origins.get(path, "default")

    def origins(self) -> dict[str, str]:
        """Returns the origin of every setting that is not a default, by dotted path."""
        return dict(self._origins)

    def updated(self, arguments: Mapping[str, Any]) -> Config:
        """Makes settings with some values changed, laid out as in `cera.toml`.

        Raises:
            ConfigError: A name is unknown or a value not usable.
        """
        layer = layer_of(self.model_dump(exclude_unset=True), lambda path: self.origin_of(".".join(path)))
        return _config_of(layer | layer_of(arguments, _argument_origin))


def load_config(
    path: str | Path | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Reads every layer.

    Args:
        path: The file to read in place of the nearest `cera.toml` upwards from the working directory.
        environ: The environment, by default the process's.
        arguments: Keyword arguments, laid out as in `cera.toml`.
        flags: Command-line flags, likewise.

    Raises:
        ConfigError: A file is missing or no TOML, a name is unknown, or a value not usable.
    """
    environ = os.environ if environ is None else environ
    layer: Layer = {}
    for file in _files(path or environ.get("CERA_CONFIG") or None):
        layer |= file_layer(file)
    layer |= environment_layer(environ, setting_variables())
    layer |= layer_of(arguments or {}, _argument_origin)
    layer |= layer_of(flags or {}, _flag_origin)
    return _config_of(layer)


def setting_variables() -> dict[str, SettingPath]:
    """Returns the path of each setting that has an environment variable, by the variable's name."""
    general = [name for name in Config.model_fields if name not in {"generation", "backends", "drafters"}]
    return {f"CERA_{name.upper()}": (name,) for name in general} | {
        f"CERA_{name.upper()}": ("generation", name) for name in GenerationOptions.model_fields
    }


def user_config_file() -> Path:
    """Returns where the user's own settings stand, whether there are any or not."""
    from platformdirs import user_config_path  # noqa: PLC0415 - only when settings are read

    return user_config_path("cera", appauthor=False) / FILE_NAME


def _files(explicit: str | Path | None) -> Iterator[Path]:
    user_file = user_config_file()
    if os.path.lexists(user_file):
        yield user_file
    if explicit is not None:
        yield Path(explicit)
        return
    try:
        here = Path.cwd()
    except FileNotFoundError:
        return  # the folder is gone, and no file can be in it
    # A folder of that name, or a link that leads nowhere, is met when it is read: ignored, it would be looked for long.
    nearest = next((file for folder in (here, *here.parents) if os.path.lexists(file := folder / FILE_NAME)), None)
    if nearest is not None and nearest != user_file:
        yield nearest


def _argument_origin(path: SettingPath) -> str:
    return f"argument {path[-1]}"


def _flag_origin(path: SettingPath) -> str:
    return f"--{path[-1].replace('_', '-')}"


def _config_of(layer: Layer) -> Config:
    origins = {".".join(path): setting.origin for path, setting in layer.items()}
    config = validated(Config, tree_of(layer), owner="the settings", origin_of=origins.get)
    config._origins.update(origins)
    return config
