"""The page about hooks has each hook of the live plugin manager, with its exact signature, and no other."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cera_core import hookspecs, specs
from cera_core.discovery import Plugins

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "hooks.md").read_text(encoding="utf-8")


def live_hooks() -> Iterator[tuple[str, Any]]:
    for name, caller in vars(Plugins().manager.hook).items():
        if not name.startswith("_"):
            yield name, caller.spec.function


HOOKS = dict(live_hooks())


def section(heading: str) -> str:
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    assert found, heading
    return " ".join(found[1].split())


def test_headings_are_the_hooks_with_their_arguments() -> None:
    expected = [
        f"{name}({', '.join(p for p in inspect.signature(function).parameters if p != 'self')})"
        for name, function in HOOKS.items()
    ]
    assert sorted(re.findall(r"^## (cera_.*)$", PAGE, re.M)) == sorted(expected)


@pytest.mark.parametrize("name", HOOKS)
def test_signatures_and_words_are_those_of_the_specification(name: str) -> None:
    function = HOOKS[name]
    signature = inspect.signature(function)
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name != "self"]
    bare = signature.replace(parameters=[p.replace(annotation=f"{p.annotation}") for p in parameters])
    text = section(f"{name}({', '.join(p.name for p in parameters)})")
    assert f"def {name}{bare}:".replace("'", "") in text
    assert " ".join(inspect.getdoc(function).split()) in text


@pytest.mark.parametrize("spec", ["DrafterSpec", "ModelSpec", "DrafterContext", "RoundEvent", "GenerationEvent"])
def test_values_are_listed_with_every_field(spec: str) -> None:
    listed = re.findall(r"^\| `(\w+)` \|", re.search(rf"^### {spec}\n(.*?)(?=^##|\Z)", PAGE, re.M | re.S)[1], re.M)
    assert listed == list(getattr(specs, spec).__dataclass_fields__)


def test_every_group_of_hooks_is_registered() -> None:
    groups = [value for name, value in vars(hookspecs).items() if name.endswith("Hooks")]
    specified = {name for group in groups for name in vars(group) if name.startswith("cera_")}
    assert specified == set(HOOKS)
