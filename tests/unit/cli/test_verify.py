"""`cera verify` finds equal texts equal, and says where others differ."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.plugin_package import install_plugin

QUICK = ("--tasks", "tasks.jsonl", "--max-tokens", "24", "--ignore-eos")
UNSTEADY_BACKEND = """
from cera_core.hookspecs import hookimpl
from cera_core.specs import ModelSpec
from cera_core.testing.fakes import TableModel

class Unsteady(TableModel):
    '''Gives other logits where rows share a forward.'''

    batch_invariant = False

    def forward_all(self, token_ids, state):
        rows = super().forward_all(token_ids, state)
        if len(token_ids) > 1:
            rows = rows[:, ::-1].copy()
        return rows

@hookimpl
def cera_register_models(register):
    load = lambda file, options: Unsteady(vocab_size=320, order=1, max_seq_len=512)
    register(ModelSpec(name="unsteady", summary="Differs.", load=load))
"""


@pytest.fixture(autouse=True)
def _tasks(_no_settings_from_outside: None) -> None:
    Path("tasks.jsonl").write_text(
        '{"category": "copy", "turns": ["the text of the model and the text of the model"]}\n'
    )


def test_equal_texts_are_counted(cera: Callable[..., Any], tiny_model: Path) -> None:
    exact = ("--backend", "numpy", "--backend-option", "exact=true")
    outcome = cera("verify", "-m", tiny_model, *exact, *QUICK, "--drafter", "prompt-lookup")
    assert outcome.status == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()[1:]]
    assert [(line[0], line[-5], line[-4]) for line in lines] == [
        (drafter, "4", "4") for _ in range(2) for drafter in ("prompt-lookup", "random")
    ]
    assert "differs" not in outcome.err


def test_other_texts_are_named_with_their_first_difference(
    cera: Callable[..., Any], tiny_model: Path, plugin_folder: Path
) -> None:
    install_plugin(plugin_folder, "unsteady", UNSTEADY_BACKEND)
    arguments = ("verify", "-m", tiny_model, "--backend", "unsteady", *QUICK, "--drafter", "prompt-lookup")
    outcome = cera(*arguments)
    assert outcome.status == 1
    assert "gap of their logits" in outcome.err
    assert "near ties" in outcome.err
    value = json.loads(cera(*arguments, "--json").out)
    assert not value["batch_invariant"]
    assert any(run["run"]["divergence"] for run in value["runs"])
