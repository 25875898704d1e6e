"""What the explanations say of layers, constants and reasons is what the code has."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from types import ModuleType

import pytest

from cera_core.drafter import Draft
from cera_core.drafting import acceptance, guard
from cera_core.generation_options import DEFAULT_MAX_DRAFT_TOKENS
from cera_core.session_drafters import MAX_KEPT
from cera_core.speculation import budget, costs, decode
from support.pages import ROOT, blocks_of

EXPLANATIONS = ROOT / "docs" / "explanation"
ARCHITECTURE = EXPLANATIONS / "architecture.md"
WHEN_IT_PAYS = " ".join((EXPLANATIONS / "when-it-pays.md").read_text(encoding="utf-8").split())


def shown_layers(number: int) -> list[set[str]]:
    """Returns the names at the beginning of each line of a block of layers."""
    block = [block for block in blocks_of(ARCHITECTURE) if block.language == "text"][number]
    return [set(re.split(r"\s{2,}", line)[0].split(", ")) for line in block.text.splitlines()]


@pytest.mark.parametrize(("number", "contract"), [(0, "Arrows point down"), (1, "Inside speculation")])
def test_layers_are_those_that_are_checked(number: int, contract: str) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {each["name"]: each for each in settings["tool"]["importlinter"]["contracts"]}
    layers = [layer.split(" | ") for layer in contracts[contract]["layers"]]
    assert shown_layers(number) == [set(layer) for layer in layers]


def test_number_of_drafters_kept() -> None:
    assert MAX_KEPT == 8
    assert "Eight are kept at most" in ARCHITECTURE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "sentence",
    [
        f"the median of its last {costs._NUM_SAMPLES} forwards",
        f"older than {costs._MAX_SAMPLE_AGE} rounds",
        f"After {costs._MAX_ROUNDS_WITHOUT_STEP} rounds in a row",
        f"taken for {costs.PRIOR_COST_OF_A_ROW} of a plain step",
        f"about {1 / (1 - acceptance._DECAY):.0f} tokens back",
        f"weighs as much as {acceptance._PRIOR_WEIGHT:.0f} tokens",
        f"takes at most {budget._ASKING_SHARE} of the time of the plain steps",
        f"what the drafter suggests, else {DEFAULT_MAX_DRAFT_TOKENS}",
    ],
)
def test_constants_of_the_budget(sentence: str) -> None:
    assert sentence in WHEN_IT_PAYS


def test_a_confidence_is_taken_at_its_word_at_first() -> None:
    assert acceptance.Acceptance().chances(Draft([7], confidences=[0.4])) == [0.4]
    assert "a confidence is taken at its word" in WHEN_IT_PAYS


def texts_of(module: ModuleType) -> set[str]:
    """Returns every text in the code of a module."""
    return {
        node.value
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_reasons_for_plain_steps_are_those_of_the_code() -> None:
    section = WHEN_IT_PAYS.partition("## Why a step was plain")[2].partition("## The summary")[0]
    reasons = set(re.findall(r"`([^`]+)`(?=,| \|)", section.partition("|---|---|")[2]))
    assert len(reasons) == 15
    assert reasons <= texts_of(decode) | texts_of(budget) | texts_of(guard)
