"""Writes the tables of the pages beside it from the live settings, plugins and commands.

    python docs/reference/generate.py

In a page, what stands between `<!-- begin NAME -->` and `<!-- end NAME -->` is written here; the rest is by hand.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from docstrings import attributes, public_name, table
from pydantic import BaseModel
from typer.main import get_command

import cera_core
from cera_core import errors
from cera_core.cli.command_group import BUILT_IN
from cera_core.cli.engine_flags import ENGINE_PANEL, GENERATION_PANEL
from cera_core.config import Config
from cera_core.discovery import OWN_DISTRIBUTION, discover
from cera_core.drafting.auto import AutoOptions
from cera_core.generation_options import GenerationOptions
from cera_core.model import InferenceState
from cera_core.speculation.stats import DrafterStats, SpecStats
from cera_core.testing import DRAFTER_CHECKS, MODEL_CHECKS, drafters, fakes

FOLDER = Path(__file__).parent
PAGES = ("configuration.md", "command-line.md", "api.md", "checks.md", "../explanation/when-it-pays.md")

TABLES = ("generation", "backends", "drafters")
PUBLIC = {
    "engines": ("load", "Engine", "load_model", "create_drafter", "Config"),
    "generations": ("Session", "Generation", "Token", "TokenLogprobs", "TokenStream", "SpecStats"),
    "drafters": ("Drafter", "IncrementalDrafter", "Draft"),
    "models": ("Model", "ModelConfig", "InferenceState"),
    "plugins": (
        "hookimpl",
        "PLUGIN_API",
        "DrafterSpec",
        "DrafterContext",
        "ModelSpec",
        "PluginOptions",
        "Tokenizer",
        "RoundEvent",
        "GenerationEvent",
    ),
    "verification": ("greedy_generate_spec", "verify_draft", "VerifyResult", "argmax"),
}
"""The public names but the errors, by the part of the page they stand in."""


def rendered(page: str) -> str:
    """Returns the text of a page with its tables as they are now."""
    text = (FOLDER / page).read_text(encoding="utf-8")
    for name, write in SECTIONS.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        body = "\n".join(write())
        text = re.sub(f"{begin}.*?{end}", lambda _, new=f"{begin}\n{body}\n{end}": new, text, flags=re.DOTALL)
    return text


def general_settings() -> Iterator[str]:
    """Writes the settings outside any table."""
    return _options(Config, leave_out=TABLES)


def generation_options() -> Iterator[str]:
    """Writes the options of a generation."""
    return _options(GenerationOptions)


def backend_options() -> Iterator[str]:
    """Writes the options of each backend that comes with cera."""
    return _plugin_options("backends")


def drafter_options() -> Iterator[str]:
    """Writes the options of each drafter that comes with cera."""
    yield from _plugin_options("drafters")
    yield from _plugin_section("auto", "Asks several drafters and takes the best guess.", AutoOptions)


def commands() -> Iterator[str]:
    """Writes each command with the arguments and flags of its own."""
    for name, command in _commands():
        own = [parameter for parameter in command.params if _panel(parameter) is None]
        shared = " [engine and generation flags]" if len(own) < len(command.params) else ""
        arguments = [_argument(parameter) for parameter in own if parameter.param_type_name == "argument"]
        flags = " [flags]" if own else ""
        yield from ("", f"### `{' '.join(['cera', name, *arguments])}{flags}{shared}`", "")
        yield command.help
        if own:
            yield from ("", *_flags(own))


def _commands() -> Iterator[tuple[str, Any]]:
    """Yields names and commands, a group of commands followed by its own."""
    for name in BUILT_IN:
        command: Any = get_command(import_module(f"cera_core.cli.{name}").app)
        yield name, command
        for own_name, own_command in getattr(command, "commands", {}).items():
            yield f"{name} {own_name}", own_command


def engine_flags() -> Iterator[str]:
    """Writes the flags that choose model, backend and drafter."""
    return _flags_of_panel(ENGINE_PANEL)


def generation_flags() -> Iterator[str]:
    """Writes the flags made from the options of a generation."""
    return _flags_of_panel(GENERATION_PANEL)


def public_names(part: str) -> Iterator[str]:
    """Writes a section for each public name of a part of the page."""
    for name in PUBLIC[part]:
        if name == "hookimpl":  # an object of pluggy's, with a docstring of pluggy's
            yield from (
                "",
                "### `hookimpl`",
                "",
                "`@hookimpl`",
                "",
                "Marks a function of a plugin as one of the hooks.",
            )
        elif name == "PLUGIN_API":  # a number has no docstring of its own
            yield from ("", "### `PLUGIN_API`", "", f"`PLUGIN_API = {cera_core.PLUGIN_API}`", "")
            yield "The version of the plugins' contracts; see [compatibility](compatibility.md)."
        else:
            yield from public_name(name, getattr(cera_core, name))


def error_tree() -> Iterator[str]:
    """Writes the tree of errors."""
    tree = re.search(r"^    CeraError\n(?:    .*\n)*", errors.__doc__ or "", re.MULTILINE)
    yield from ("```text", textwrap.dedent(tree[0]).rstrip() if tree else "", "```")


def error_classes() -> Iterator[str]:
    """Writes a section for each error, and for the warning."""
    for name, value in vars(errors).items():
        if name in cera_core.__all__:
            bases = ", ".join(base.__name__ for base in value.__bases__)
            yield from ("", f"### `{name}`", "", f"`class {name}({bases})`", "", value.__doc__)


def checks(kind: Iterable[Callable[..., None]]) -> Iterator[str]:
    """Writes a section for each check."""
    for check in kind:
        yield from ("", f"### {check.__name__}", "", inspect.getdoc(check) or "")


def fake_classes() -> Iterator[str]:
    """Writes the classes that stand in for models and drafters, with the first sentence about each."""
    rows = (
        (f"`{name}`", " ".join((value.__doc__ or "").partition("\n\n")[0].split()))
        for module in (fakes, drafters)
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and not issubclass(value, InferenceState)
    )
    return table(("class", "what it is"), rows)


def main() -> None:
    """Writes every page."""
    for page in PAGES:
        (FOLDER / page).write_text(rendered(page), encoding="utf-8")


def _plugin_options(kind: str) -> Iterator[str]:
    plugins = discover()
    specs = getattr(plugins, kind)
    own = [
        name for record in plugins.records if record.distribution == OWN_DISTRIBUTION for name in getattr(record, kind)
    ]
    for name in sorted(own):
        yield from _plugin_section(name, specs[name].summary, specs[name].options)


def _plugin_section(name: str, summary: str, options: type[BaseModel]) -> Iterator[str]:
    yield from ("", f"### `{name}`", "", summary, "")
    yield from _options(options) if options.model_fields else ["It has no options."]


def _options(model: type[BaseModel], leave_out: Sequence[str] = ()) -> Iterator[str]:
    schemas = model.model_json_schema()["properties"]
    defaults = model()
    rows = (
        (f"`{name}`", _constraint(schemas[name]), f"`{_value(getattr(defaults, name))}`", field.description or "")
        for name, field in model.model_fields.items()
        if name not in leave_out
    )
    return table(("name", "value", "default", "meaning"), rows)


def _constraint(schema: dict[str, Any]) -> str:
    """Says in words what a JSON schema allows."""
    if "anyOf" in schema:
        return " or ".join(_constraint(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind: str = schema.get("type", "any")
    if kind == "array":
        return f"list of {_constraint(schema['items'])}"
    lowest = schema.get("minimum", schema.get("ge"))
    highest = schema.get("maximum", schema.get("le"))
    above = schema.get("exclusiveMinimum", schema.get("gt"))
    bounds = (("at least", lowest), ("above", above), ("at most", highest))
    limits = [f"{word} {limit:g}" if abs(limit) < 1e6 else "" for word, limit in bounds if limit is not None]
    return ", ".join([{"null": "`none`", "object": "table"}.get(kind, kind), *filter(None, limits)])


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "[]" if value == () else str(value)


def _flags_of_panel(panel: str) -> Iterator[str]:
    command: Any = get_command(import_module("cera_core.cli.run").app)
    return _flags([parameter for parameter in command.params if _panel(parameter) == panel])


def _flags(parameters: Iterable[Any]) -> Iterator[str]:
    rows = ((f"`{_usage(parameter)}`", parameter.help or "") for parameter in parameters)
    return table(("flag", "meaning"), rows)


def _usage(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _argument(parameter)
    spelled = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return spelled if parameter.is_flag else f"{spelled} {parameter.metavar}"


def _argument(parameter: Any) -> str:
    name: str = parameter.metavar
    return name if parameter.required else f"[{name}]"


def _panel(parameter: Any) -> str | None:
    return getattr(parameter, "rich_help_panel", None)


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "general settings": general_settings,
    "generation options": generation_options,
    "backend options": backend_options,
    "drafter options": drafter_options,
    "commands": commands,
    "engine flags": engine_flags,
    "generation flags": generation_flags,
    **{f"public {part}": partial(public_names, part) for part in PUBLIC},
    "drafter checks": partial(checks, DRAFTER_CHECKS),
    "model checks": partial(checks, MODEL_CHECKS),
    "fakes": fake_classes,
    "error tree": error_tree,
    "errors": error_classes,
    "stats": partial(attributes, SpecStats),
    "drafter stats": partial(attributes, DrafterStats),
}

if __name__ == "__main__":
    main()
