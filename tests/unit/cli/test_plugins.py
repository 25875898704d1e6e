"""`cera plugins` shows what is installed, and what stands in the way of the rest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.plugin_package import install_plugin

WORKING = """
from cera_core.hookspecs import hookimpl
from cera_core.specs import DrafterSpec, ModelSpec

@hookimpl
def cera_register_drafters(register):
    register(DrafterSpec(name="guesser", summary="Guesses.", create=lambda options, context: None))

@hookimpl
def cera_register_models(register):
    register(ModelSpec(name="engine", summary="Computes.", load=lambda file, options: None,
                       availability=lambda: "no such device"))
"""
OBSERVER = """
from cera_core.hookspecs import hookimpl

@hookimpl
def cera_round_finished(round):
    pass
"""


@pytest.fixture
def shown(
    cera: Callable[..., Any], plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[tuple[str, str], dict[str, str]]:
    install_plugin(plugin_folder, "working", WORKING)
    install_plugin(plugin_folder, "observer", OBSERVER)
    install_plugin(plugin_folder, "broken", "import nowhere_to_be_found", distribution="breaker", version="2.1")
    install_plugin(plugin_folder, "unwanted", OBSERVER)
    monkeypatch.setenv("CERA_DISABLED_PLUGINS", "unwanted")
    outcome = cera("plugins", "--json")
    assert outcome.err == ""
    return {(row["kind"], row["name"]): row for row in json.loads(outcome.out)}


def test_drafters_and_backends_are_shown_with_their_package(shown: dict[tuple[str, str], dict[str, str]]) -> None:
    assert shown["drafter", "guesser"] == {
        "kind": "drafter",
        "name": "guesser",
        "status": "available",
        "package": "stranger",
        "version": "1.0",
        "note": "Guesses.",
    }


def test_backend_that_cannot_run_says_why(shown: dict[tuple[str, str], dict[str, str]]) -> None:
    row = shown["backend", "engine"]
    assert (row["status"], row["note"]) == ("unavailable", "no such device")


def test_broken_plugin_is_shown_with_version_and_reason(shown: dict[tuple[str, str], dict[str, str]]) -> None:
    row = shown["plugin", "broken"]
    assert (row["status"], row["package"], row["version"]) == ("broken", "breaker", "2.1")
    assert row["note"] == "ModuleNotFoundError: No module named 'nowhere_to_be_found'"


def test_disabled_and_observing_plugins_are_shown(shown: dict[tuple[str, str], dict[str, str]]) -> None:
    assert shown["plugin", "unwanted"]["status"] == "disabled"
    assert shown["plugin", "observer"]["status"] == "loaded"


def test_table_is_plain_text_in_a_pipe(cera_process: Callable[..., Any], tmp_path: Path) -> None:
    install_plugin(tmp_path, "working", WORKING)
    outcome = cera_process("plugins", FORCE_COLOR="1")
    assert "\N{ESCAPE}" not in outcome.out
    header, *lines = outcome.out.splitlines()
    assert header.split() == ["kind", "name", "status", "package", "note"]
    assert any(line.split()[:3] == ["drafter", "guesser", "available"] for line in lines)
