"""`cera replay` needs no model, and for token ids not even a tokenizer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cera_core import Engine

IDS = {"category": "loop", "prompt": [1, 2, 3, 4], "output": [5, 6, 7, 8] * 20}


@pytest.fixture(autouse=True)
def _no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))


def written(*lines: object, name: str = "log.jsonl") -> str:
    Path(name).write_text("\n".join(json.dumps(line) for line in lines))
    return name


def test_table_has_a_line_for_each_drafter_and_category_and_their_totals(cera: Callable[..., Any]) -> None:
    file = written(IDS, IDS | {"category": "other"})
    outcome = cera("replay", file, "--drafter", "prompt-lookup,suffix-automaton")
    assert (outcome.status, outcome.err) == (0, "")
    rows = [line.split()[:2] for line in outcome.out.splitlines()[1:]]
    names = ["prompt-lookup", "suffix-automaton"]
    assert rows == [[name, category] for name in names for category in ("loop", "other", "all")]


def test_costs_decide_what_is_predicted(cera: Callable[..., Any]) -> None:
    def speed_up(costs: str) -> float:
        outcome = cera("replay", written(IDS), "--drafter", "prompt-lookup", "--costs", costs, "--json")
        return float(json.loads(outcome.out)[0]["speed_up"])

    assert speed_up("1:1,16:1.5") > 3
    assert 0.9 < speed_up("1:1,2:8,3:8") <= 1


def test_costs_can_be_those_of_this_machine(
    cera: Callable[..., Any], tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("replay", written(IDS), "-m", tiny_model, "--drafter", "prompt-lookup", "--json", "--costs")
    assert "needs a model that drafts can be verified on" in cera(*arguments, "measured").err
    monkeypatch.setattr(Engine, "calibrated_steps", lambda engine: {1: 1.0, 2: 8.0, 3: 8.0})
    measured, given = (json.loads(cera(*arguments, costs).out)[0] for costs in ("measured", "1:1,2:8,3:8"))
    assert measured["num_steps"] == given["num_steps"]


def test_text_is_cut_by_the_models_tokenizer(cera: Callable[..., Any], tiny_model: Path) -> None:
    file = written({"text": "the text of the model and the text of the model and the text of the model"})
    outcome = cera("replay", file, "--drafter", "prompt-lookup", "-m", tiny_model, "--json")
    assert json.loads(outcome.out)[0]["stats"]["num_emitted"] > 10


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--costs", "1"), "ROWS:COST"),
        (("--costs", "2:1"), "cost table"),
        (("--drafter", "prompt-lokup"), "Did you mean 'prompt-lookup'?"),
        (("--drafter", "auto,prompt-lookup", "--drafter-option", "ngram_max=3"), "for one drafter"),
    ],
)
def test_what_cannot_be_replayed_is_refused(cera: Callable[..., Any], arguments: tuple[str, ...], reason: str) -> None:
    outcome = cera("replay", written(IDS), *arguments)
    assert outcome.status == 2
    assert reason in outcome.err


def test_nothing_to_replay_is_an_error(cera: Callable[..., Any]) -> None:
    outcome = cera("replay", written({"prompt": [1], "output": []}))
    assert outcome.status == 2
    assert "nothing to replay" in outcome.err


def test_a_memory_is_said_to_have_no_effect(cera: Callable[..., Any]) -> None:
    outcome = cera("replay", written(IDS), "--drafter", "prompt-lookup", "--memory", "notes")
    assert outcome.status == 0
    assert outcome.err == "Note: 'memory' has no effect in a replay (--memory).\n"
