"""The page about the Python API has each public name once, with the parameters it takes and the members it has."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core.specs import always_available, any_file

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
UNCALLED = {"Config", "PluginOptions", "Tokenizer"}  # made by cera or derived from: fields, not parameters


def section(heading: str) -> str:
    found = re.findall(rf"^#+ `{re.escape(heading)}`\n\n(.*?)(?=^#|^<!--|\Z)", PAGE, re.M | re.S)
    assert len(found) == 1, heading
    text: str = found[0]
    return text


def callables() -> dict[str, Any]:
    """Returns what can be called, by the heading it must have."""
    found: dict[str, Any] = {}
    for name in cera_core.__all__:
        value = getattr(cera_core, name)
        if inspect.isfunction(value):
            found[name] = value
        elif inspect.isclass(value) and not issubclass(value, Exception):
            if name not in UNCALLED:
                found[name] = value
            own = {key: member for key, member in vars(value).items() if not key.startswith("_")}
            methods = {key: member for key, member in own.items() if inspect.isfunction(member)}
            methods.pop("model_post_init", None)  # pydantic's
            found |= {f"{name}.{key}": member for key, member in methods.items()}
    return found


CALLABLES = callables()


def test_headings_are_the_public_names() -> None:
    assert sorted(re.findall(r"^### `(\w+)`$", PAGE, re.M)) == sorted(cera_core.__all__)


@pytest.mark.parametrize("name", CALLABLES)
def test_signatures_are_exact(name: str) -> None:
    shown = re.match(r"`(?:class )?(.*)`\n", section(name))
    assert shown
    parameters = list(inspect.signature(CALLABLES[name]).parameters.values())
    expected = [parameter for parameter in parameters if parameter.name != "self"]
    source = f"def {shown[1]}: ...".replace("<factory>", "...")
    defaults = (cera_core.argmax, cera_core.PluginOptions, always_available, any_file)
    namespace: dict[str, Any] = {default.__name__: default for default in defaults}
    exec(f"from __future__ import annotations\n{source}", namespace)
    written = inspect.signature(namespace[name.rpartition(".")[2]])
    assert [(p.name, p.kind, p.annotation) for p in written.parameters.values()] == [
        (p.name, p.kind, p.annotation) for p in expected
    ]
    for parameter, other in zip(written.parameters.values(), expected, strict=True):
        assert parameter.default is ... or parameter.default == other.default, parameter.name


@pytest.mark.parametrize("name", cera_core.__all__)
def test_what_a_name_is_for_is_said(name: str) -> None:
    value = getattr(cera_core, name)
    of_no_class = {"hookimpl": "Marks a function", "PLUGIN_API": "The version of the plugins' contracts"}
    summary = of_no_class.get(name) or inspect.getdoc(value).splitlines()[0]
    assert summary in section(name)


def test_the_tree_of_errors_has_them_all() -> None:
    tree = re.search(r"```text\n(CeraError\n.*?)```", PAGE, re.S)
    assert tree
    errors = {name for name in cera_core.__all__ if name.endswith("Error")}
    assert set(re.findall(r"\b\w+Error\b", tree[1])) - {"ValueError", "RuntimeError"} == errors
