"""Names to specs: what may come in, and how an unknown name is answered."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from cera_core.errors import PluginError
from cera_core.registry import Registry
from cera_core.specs import DrafterSpec, ModelSpec, PluginOptions


def drafter_spec(name: Any = "guesser", options: Any = PluginOptions) -> DrafterSpec:
    return DrafterSpec(name=name, summary="Guesses.", create=lambda options, context: None, options=options)


def model_spec(name: str = "engine", priority: Any = 0) -> ModelSpec:
    return ModelSpec(name=name, summary="Computes.", load=lambda file, options: None, priority=priority)


@pytest.fixture
def drafters() -> Registry[DrafterSpec]:
    return Registry("drafter", DrafterSpec, reserved=("auto", "none"))


def test_is_a_mapping_in_the_order_of_arrival(drafters: Registry[DrafterSpec]) -> None:
    second, first = drafter_spec("b"), drafter_spec("a")
    drafters.add([second], "one")
    drafters.add([first], "two")
    assert list(drafters) == ["b", "a"]
    assert drafters["a"] is first
    assert len(drafters) == 2
    assert "c" not in drafters


@pytest.mark.parametrize("name", ["a", "prompt-lookup", "v2", "a-1-b"])
def test_names_in_kebab_case_pass(drafters: Registry[DrafterSpec], name: str) -> None:
    drafters.check([drafter_spec(name)])


@pytest.mark.parametrize("name", ["", "Prompt-lookup", "prompt_lookup", "-a", "a-", "a--b", "1a", "a b", "é", None, 3])
def test_other_names_are_refused(drafters: Registry[DrafterSpec], name: Any) -> None:
    with pytest.raises(PluginError, match="a name is in kebab-case"):
        drafters.check([drafter_spec(name)])


@pytest.mark.parametrize("name", ["auto", "none"])
def test_reserved_names_are_refused(drafters: Registry[DrafterSpec], name: str) -> None:
    with pytest.raises(PluginError, match=f"'{name}', a name that is reserved"):
        drafters.check([drafter_spec(name)])


def test_a_taken_name_is_refused_and_its_owner_named(drafters: Registry[DrafterSpec]) -> None:
    drafters.add([drafter_spec()], "first-comer")
    with pytest.raises(PluginError, match="the drafter 'guesser', a name that 'first-comer' has taken"):
        drafters.check([drafter_spec("other"), drafter_spec()])


def test_a_name_registered_twice_at_once_is_refused(drafters: Registry[DrafterSpec]) -> None:
    with pytest.raises(PluginError, match="registers the drafter 'guesser' twice"):
        drafters.check([drafter_spec(), drafter_spec()])


@pytest.mark.parametrize("intruder", [None, "guesser", model_spec(), DrafterSpec])
def test_what_is_no_spec_of_the_kind_is_refused(drafters: Registry[DrafterSpec], intruder: object) -> None:
    with pytest.raises(PluginError, match="where a DrafterSpec is required"):
        drafters.check([intruder])


@pytest.mark.parametrize("options", [None, {}, PluginOptions(), dict])
def test_options_that_are_no_model_class_are_refused(drafters: Registry[DrafterSpec], options: Any) -> None:
    with pytest.raises(PluginError, match="'options' of the drafter 'guesser' must be a pydantic model class"):
        drafters.check([drafter_spec(options=options)])


def test_any_model_class_will_do_for_options(drafters: Registry[DrafterSpec]) -> None:
    drafters.check([drafter_spec(options=type("Options", (BaseModel,), {}))])


@pytest.mark.parametrize("priority", [None, "high", 1.5])
def test_a_priority_that_is_no_whole_number_is_refused(priority: Any) -> None:
    backends = Registry("backend", ModelSpec)
    with pytest.raises(PluginError, match="'priority' of the backend 'engine' must be a whole number"):
        backends.check([model_spec(priority=priority)])


@pytest.mark.parametrize(
    ("name", "hint"), [("guessr", " Did you mean 'guesser'?"), ("Auto", " Did you mean 'auto'?"), ("xyz", "")]
)
def test_an_unknown_name_is_answered_with_near_matches_and_what_there_is(
    drafters: Registry[DrafterSpec], name: str, hint: str
) -> None:
    drafters.add([drafter_spec()], "somebody")
    error = drafters.unknown(name)
    assert str(error) == f"There is no drafter named {name!r}.{hint} Installed: auto, guesser, none."


def test_an_unknown_name_where_nothing_is_installed() -> None:
    assert str(Registry("backend", ModelSpec).unknown("x")) == "There is no backend named 'x'. Installed: none."
