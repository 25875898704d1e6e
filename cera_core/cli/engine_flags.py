"""The flags of every command that runs a model: which model, backend and drafter, and one for each generation option.

The latter are made from `GenerationOptions`, so that a new option is a new flag. Values are text here; the settings'
own model checks them, whatever layer they come from.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cera_core.cli.flags import CONFIG_HELP, MODEL_HELP
from cera_core.config import Config, load_config
from cera_core.config_layers import value_from_text
from cera_core.errors import ConfigError, InvalidInputError
from cera_core.generation_options import GenerationOptions
from cera_core.registry import AUTO, NONE

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

ENGINE_PANEL = "Model, backend and drafter"
GENERATION_PANEL = "Generation"

Parameter = inspect.Parameter


def drafter_names() -> list[str]:
    """Returns what `--drafter` can be, for the shell's completion."""
    return [AUTO, NONE, *_plugins().drafters]


def backend_names() -> list[str]:
    """Returns what `--backend` can be, for the shell's completion."""
    return [AUTO, *_plugins().backends]


def _plugins() -> Any:
    from cera_core.discovery import discover  # noqa: PLC0415 - imports every plugin

    return discover(load_config().disabled_plugins)


def _engine_flag(*names: str, metavar: str, **settings: Any) -> Any:
    return typer.Option(*names, metavar=metavar, rich_help_panel=ENGINE_PANEL, **settings)


def _engine_flags(
    *,
    model: Annotated[str | None, _engine_flag("--model", "-m", metavar="MODEL", help=MODEL_HELP)] = None,
    backend: Annotated[
        str | None,
        _engine_flag(
            "--backend", metavar="NAME", help="A backend from `cera plugins`, or auto.", autocompletion=backend_names
        ),
    ] = None,
    drafter: Annotated[
        str | None,
        _engine_flag(
            "--drafter",
            metavar="NAME",
            help="A drafter from `cera plugins`, auto, or none.",
            autocompletion=drafter_names,
        ),
    ] = None,
    context_length: Annotated[
        str | None,
        _engine_flag("--context-length", metavar="INTEGER", help="The most tokens of prompt and answer together."),
    ] = None,
    memory: Annotated[
        str | None,
        _engine_flag(
            "--memory", metavar="NAME", help="Draft from earlier answers kept under this name, and keep this."
        ),
    ] = None,
    backend_option: Annotated[
        list[str] | None,
        _engine_flag("--backend-option", metavar="KEY=VALUE", help="An option of the backend; may be repeated."),
    ] = None,
    drafter_option: Annotated[
        list[str] | None,
        _engine_flag("--drafter-option", metavar="KEY=VALUE", help="An option of the drafter; may be repeated."),
    ] = None,
    config: Annotated[
        Path | None,
        _engine_flag("--config", metavar="FILE", help=CONFIG_HELP),
    ] = None,
) -> None:
    """Holds the declarations of the flags that are no generation options; is never called."""


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """What was said about the engine on the command line.

    Attributes:
        settings: Flags given, laid out as in `cera.toml`.
        config: Path of the settings file, if given.
        backend_options: Options for whichever backend is taken.
        drafter_options: Options for whichever drafter is taken.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    config: Path | None = None
    backend_options: dict[str, Any] = field(default_factory=dict)
    drafter_options: dict[str, Any] = field(default_factory=dict)

    def load_config(self) -> Config:
        """Reads all layers of settings, these flags the last."""
        return load_config(self.config, flags=self.settings)


def names_in(flags: EngineFlags, key: str) -> list[str]:
    """Returns the names that a flag gives with commas between them, or the one that the other settings say.

    Raises:
        InvalidInputError: A name is empty or there twice, or options on the command line could be for any of several.
    """
    if key not in flags.settings:
        return [getattr(flags.load_config(), key)]
    names = [name.strip() for name in flags.settings[key].split(",")]
    if "" in names or len(set(names)) < len(names):
        raise InvalidInputError(
            f"'--{key}' must be names with commas between them, each once, and is {flags.settings[key]!r}."
        )
    if len(names) > 1 and getattr(flags, f"{key}_options"):
        raise InvalidInputError(
            f"'--{key}-option' is for one {key}, and --{key} names several. Write the options into cera.toml, under "
            f"[{key}s.NAME]."
        )
    return names


def takes_engine_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags to a command whose first parameter, `engine_flags`, receives what was given."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_engine_flags, eval_str=True).parameters.values())
    generation = [_generation_flag(name, info) for name, info in GenerationOptions.model_fields.items()]
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*own, *shared, *generation)]

    @functools.wraps(command)
    def with_flags(**values: Any) -> None:
        given = {parameter.name: values.pop(parameter.name) for parameter in (*shared, *generation)}
        command(_collected(given), **values)

    with_flags.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_flags


def _generation_flag(name: str, info: FieldInfo) -> inspect.Parameter:
    """Declares the flag of one generation option."""
    flag = f"--{name.replace('_', '-')}"
    shared: dict[str, Any] = {"help": info.description, "rich_help_panel": GENERATION_PANEL}
    if info.annotation is bool:
        annotation: Any = Annotated[bool | None, typer.Option(f"{flag}/--no-{flag.removeprefix('--')}", **shared)]
    elif name == "stop":
        shared["help"] += " May be repeated."
        annotation = Annotated[list[str] | None, typer.Option(flag, metavar="TEXT", **shared)]
    else:
        annotation = Annotated[str | None, typer.Option(flag, metavar=_metavar(info.annotation), **shared)]
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _metavar(annotation: Any) -> str:
    if annotation is float:
        return "NUMBER"
    return "LIST" if str(annotation).startswith(("dict", "tuple")) else "INTEGER"


def _collected(given: dict[str, Any]) -> EngineFlags:
    """Sorts the values that were given by where they belong."""
    given = {name: value for name, value in given.items() if value not in (None, [])}
    config = given.pop("config", None)
    backend_options = options_from(given.pop("backend_option", ()), "--backend-option")
    drafter_options = options_from(given.pop("drafter_option", ()), "--drafter-option")
    generation = {name: given.pop(name) for name in GenerationOptions.model_fields if name in given}
    return EngineFlags({**given, "generation": generation}, config, backend_options, drafter_options)


def options_from(texts: Iterable[str], flag: str) -> dict[str, Any]:
    """Reads `key=value` texts.

    Raises:
        ConfigError: A text has no key, or a key that was there before.
    """
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"{flag} must be KEY=VALUE, but is {text!r}.")
        name = key.replace("-", "_")
        if name in options:
            raise ConfigError(
                f"{flag} must give each KEY once, but {name!r} is there twice. Several are a list: KEY=[...]."
            )
        options[name] = value_from_text(value)
    return options
