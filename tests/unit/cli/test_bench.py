"""`cera bench` compares plain decoding with drafters and says what it measured with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

QUICK = ("--limit", "1", "--category", "copy", "--repeats", "1", "--max-tokens", "12")
FAILING_PLUGIN = """
from cera_core import Draft, Drafter, DrafterSpec, hookimpl

class Failing(Drafter):
    def draft(self, tokens, max_k):
        raise RuntimeError("no")

    def clone(self):
        return self

@hookimpl
def cera_register_drafters(register):
    register(DrafterSpec(name="failing", summary="Fails.", create=lambda options, context: Failing()))
"""

pytestmark = pytest.mark.usefixtures("table_backend")


def test_table_has_a_line_for_plain_and_each_drafter(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("bench", "-m", tiny_model, *QUICK, "--drafter", "auto,prompt-lookup")
    assert outcome.status == 0
    lines = [line.split() for line in outcome.out.splitlines()]
    assert [line[2] for line in lines[1:]] == ["plain", "auto", "prompt-lookup"]
    assert "processors; auto:" in outcome.err


def test_a_fixed_number_of_draft_tokens_is_a_contestant_too(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("bench", "-m", tiny_model, *QUICK, "--drafter", "auto@2,auto@5", "--json")
    assert [line["contestant"] for line in json.loads(outcome.out)["lines"]] == ["plain", "auto@2", "auto@5"]


def test_table_fits_a_terminal(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("bench", "-m", tiny_model, *QUICK, "--drafter", "suffix-automaton@15")
    assert max(map(len, outcome.out.splitlines())) <= 120
    assert "machine: " in outcome.err


def test_json_has_every_sample(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera(
        "bench", "-m", tiny_model, *QUICK, "--backend", "table,numpy", "--drafter", "prompt-lookup", "--json"
    )
    value = json.loads(outcome.out)
    names = ["table plain", "table prompt-lookup", "numpy plain", "numpy prompt-lookup"]
    assert [line["contestant"] for line in value["lines"]] == names
    assert [len(result["samples"]) for result in value["results"]] == [1, 1, 1, 1]
    assert {result["plain"] for result in value["results"]} == {"table plain", "numpy plain"}


def test_tasks_come_from_a_file_and_a_page_is_written(cera: Callable[..., Any], tiny_model: Path) -> None:
    Path("tasks.jsonl").write_text('{"category": "mine", "turns": ["the text of the model"]}\n')
    outcome = cera(
        "bench",
        "-m",
        tiny_model,
        "--tasks",
        "tasks.jsonl",
        "--repeats",
        "1",
        "--max-tokens",
        "8",
        "--html",
        "page.html",
    )
    assert outcome.status == 0
    assert "mine (1)" in outcome.out
    assert "Wrote page.html." in outcome.err
    assert Path("page.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--category", "copie"), "Did you mean 'copy'?"),
        (("--drafter", "auto,auto"), "each once"),
        (("--drafter", "auto,prompt-lookup", "--drafter-option", "ngram_max=3"), "for one drafter"),
        (("--tasks", "none.jsonl"), "cannot be read"),
        (("--drafter", "prompt-lokup"), "Did you mean 'prompt-lookup'?"),
        (("--drafter", "auto@0"), "K tokens to draft, at least 1, and is 'auto@0'"),
        (("--drafter", "auto@x"), "NAME@K"),
        (("--against", "vllm"), "must be one of llama.cpp"),
        (("--against-python", "python3"), "Add '--against llama.cpp'"),
        (("--repeats", "0"), "repeats"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    cera: Callable[..., Any], tiny_model: Path, arguments: tuple[str, ...], reason: str
) -> None:
    outcome = cera("bench", "-m", tiny_model, *arguments)
    assert outcome.status == 2
    assert reason in outcome.err


def test_a_drafter_that_fails_ends_the_measurement(
    cera: Callable[..., Any], tiny_model: Path, plugin_folder: Path
) -> None:
    from support.plugin_package import install_plugin

    install_plugin(plugin_folder, "failing", FAILING_PLUGIN)
    outcome = cera("bench", "-m", tiny_model, *QUICK, "--drafter", "failing")
    assert outcome.status == 2
    assert "failing" in outcome.err


def test_a_memory_is_measured_only_when_that_is_asked_for(
    cera: Callable[..., Any], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))
    arguments = (
        "bench",
        "-m",
        tiny_model,
        *QUICK,
        "--drafter",
        "prompt-lookup",
        "--no-adaptive",
        "--ignore-eos",
        "--json",
    )

    def drafters_of(outcome: Any) -> set[str]:
        drafters = json.loads(outcome.out)["lines"][1]["stats"]["drafters"]
        return {name for name, counts in drafters.items() if counts["num_drafted"]}

    assert "add '--warm'" in cera(*arguments, "--memory", "notes").err
    assert "memory" in drafters_of(cera(*arguments, "--memory", "notes", "--warm"))
    Path("cera.toml").write_text('memory = "notes"\n')
    assert "memory" not in drafters_of(cera(*arguments))
