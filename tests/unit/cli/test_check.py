"""`cera check`: every check by name, an exit code, and what is left out with its reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cera_core.testing import DRAFTER_CHECKS, MODEL_CHECKS
from support.plugin_package import install_plugin

PLUGIN = """
from cera_core import Drafter, DrafterSpec, PluginOptions, hookimpl

class Options(PluginOptions):
    extra: int = 1

class Long(Drafter):
    def __init__(self, extra):
        self.extra = extra
    def draft(self, tokens, max_k):
        return [1] * (max_k + self.extra) if len(tokens) > 1 else []
    def clone(self):
        return Long(self.extra)

@hookimpl
def cera_register_drafters(register):
    register(DrafterSpec(name="long", summary="", options=Options, create=lambda options, _: Long(options.extra)))
"""


@pytest.fixture
def long_drafter(plugin_folder: Path) -> None:
    install_plugin(plugin_folder, "long", PLUGIN)


def test_drafter_that_keeps_its_contract(cera) -> None:
    outcome = cera("check", "drafter", "prompt-lookup")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[:-1] == [f"passed   {check.__name__}" for check in DRAFTER_CHECKS]
    assert lines[-1] == f"drafter 'prompt-lookup': {len(DRAFTER_CHECKS)} passed, 0 failed, 0 skipped"


@pytest.mark.usefixtures("long_drafter")
def test_drafter_that_does_not(cera) -> None:
    outcome = cera("check", "drafter", "long")
    assert outcome.status == 1
    assert "failed   check_returns_at_most_max_k_ids: Required: at most 0 ids of" in outcome.out
    assert f"{len(DRAFTER_CHECKS) - 1} passed, 1 failed, 0 skipped" in outcome.out


@pytest.mark.usefixtures("long_drafter")
def test_options_reach_the_drafter(cera) -> None:
    assert cera("check", "drafter", "long", "--option", "extra=0").status == 0


@pytest.mark.usefixtures("long_drafter")
def test_check_that_is_left_out_is_said_with_its_reason(cera) -> None:
    outcome = cera("check", "drafter", "long", "--skip", "check_returns_at_most_max_k_ids=it is being mended")
    assert outcome.status == 0
    assert "skipped  check_returns_at_most_max_k_ids: it is being mended" in outcome.out


def test_backend_with_a_model_file(cera, tiny_model: Path) -> None:
    outcome = cera("check", "backend", "numpy", "--model", tiny_model, "--option", "exact=true", "--json")
    assert outcome.status == 0
    rows = json.loads(outcome.out)
    assert [row["check"] for row in rows] == [check.__name__ for check in MODEL_CHECKS]
    assert {row["outcome"] for row in rows} == {"passed"}


def test_drafter_gets_the_tokenizer_of_a_model_that_is_named(cera, tiny_model: Path) -> None:
    phrases = ("--option", "phrases=['the text']")
    without = cera("check", "drafter", "aho-corasick", *phrases)
    assert (without.status, "tokenizer" in without.err) == (2, True)
    assert cera("check", "drafter", "aho-corasick", *phrases, "--model", tiny_model).status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["drafters", "x"], "KIND must be 'drafter' or 'backend', but is 'drafters'. Did you mean 'drafter'?"),
        (["drafter", "prompt-lookpu"], "Did you mean 'prompt-lookup'?"),
        (["drafter", "none"], "'none' stands for no drafter"),
        (["backend", "auto"], "name the one to check"),
        (["drafter", "prompt-lookup", "--skip", "check_reset_forgets"], "must be CHECK=REASON"),
        (["drafter", "prompt-lookup", "--skip", "check_reset=x"], "There is no check named 'check_reset'"),
        (["drafter", "prompt-lookup", "--option", "ngram=3"], "ngram"),
    ],
)
def test_what_cannot_be_checked_is_an_error(cera, arguments: list[str], message: str) -> None:
    outcome = cera("check", *arguments)
    assert outcome.status == 2
    assert message in outcome.err
