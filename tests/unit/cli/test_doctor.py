"""`cera doctor` says what the machine, the install and the chosen model can do, and never fails for what it finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cera_core import machine


@pytest.fixture(autouse=True)
def _no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_BANDWIDTH_SECONDS", 0.01)


def doctor(cera: Callable[..., Any], *arguments: object) -> dict[str, dict[str, str]]:
    outcome = cera("doctor", "--json", *arguments)
    assert outcome.status == 0
    sections: dict[str, dict[str, str]] = json.loads(outcome.out)
    return sections


def test_a_model_that_runs_is_described(cera: Callable[..., Any], tiny_model: Path) -> None:
    sections = doctor(cera, "-m", tiny_model, "--backend", "numpy", "--backend-option", "exact=true")
    assert sections["model"]["same text with and without drafts"] == "yes"
    assert sections["model"]["exact"] == "yes"
    assert sections["model"]["context"].endswith(" tokens")
    assert "cannot be run" not in sections["model"]
    assert sections["machine"]["memory read by one thread"].endswith(" GB/s")
    assert sections["plugins"]["drafter prompt-lookup"].startswith("available: ")


def test_what_forwards_cost_is_said(
    cera: Callable[..., Any], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert doctor(cera, "-m", tiny_model, "--backend", "numpy")["model"]["cost of a round"] == "not measured"
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CERA_CALIBRATE", "true")
    cost = doctor(cera, "-m", tiny_model, "--backend", "numpy")["model"]["cost of a round"]
    assert cost.startswith("1 rows 1.00, 2 rows ")


def test_a_backend_that_promises_less_says_so(cera: Callable[..., Any], tiny_model: Path) -> None:
    sections = doctor(cera, "-m", tiny_model, "--backend", "numpy")
    assert sections["model"]["same text with and without drafts"] == "yes, but for near ties"


def test_a_model_that_cannot_be_run_has_the_reason(cera: Callable[..., Any]) -> None:
    Path("broken.gguf").write_bytes(b"GGUF")
    assert "broken.gguf" in doctor(cera, "-m", "broken.gguf")["model"]["cannot be run"]


def test_settings_that_are_no_defaults_have_their_origin(cera: Callable[..., Any], tiny_model: Path) -> None:
    Path("cera.toml").write_text(f'model = "{tiny_model}"\n[generation]\nmax_tokens = 7\n')
    settings = doctor(cera, "--top-k", "3")["settings"]
    assert set(settings) - {"calibrate"} == {"model", "generation.max_tokens", "generation.top_k"}
    assert "cera.toml" in settings["generation.max_tokens"]


def test_tables_have_every_section(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("doctor", "-m", tiny_model)
    headings = [block.splitlines()[0] for block in outcome.out.split("\n\n") if block.strip()]
    assert headings == ["machine", "plugins", "model", "cache", "settings"]
