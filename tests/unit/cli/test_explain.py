"""`cera explain` gives the answer of `cera run`, then its rounds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cera_core.drafting.memory import memory_path
from support.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.usefixtures("table_backend")

PROMPT = "the name of <the> line"
FLAGS = (
    "--backend-option",
    "order=1",
    "--drafter",
    "prompt-lookup",
    "--ignore-eos",
    "--max-tokens",
    "40",
    "--no-adaptive",
)


def test_answer_comes_first_then_a_line_for_each_round(cera: Callable[..., Any], tiny_model: Path) -> None:
    answer = cera("run", PROMPT, "-m", tiny_model, *FLAGS).out
    outcome = cera("explain", PROMPT, "-m", tiny_model, *FLAGS)
    assert outcome.status == 0
    assert outcome.out.startswith(answer + "\n")
    lines = outcome.out.removeprefix(answer + "\n").splitlines()
    assert lines[0].split()[:4] == ["round", "chosen", "guess", "drafter"]
    assert "prompt-lookup" in outcome.out
    assert "history[" in outcome.out
    assert "drafted:" in outcome.err


def test_model_without_a_template_continues_the_prompt_as_run_does(cera: Callable[..., Any], tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "base.gguf", chat_template=None)
    arguments = (PROMPT, "-m", model, "--backend-option", "order=500", "--max-tokens", "20")
    answer = cera("run", *arguments).out
    assert cera("explain", *arguments).out.startswith(answer + "\n")


def test_answer_is_remembered_under_the_name_given(
    cera: Callable[..., Any], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))
    assert not memory_path("notes").exists()
    assert cera("explain", PROMPT, "-m", tiny_model, *FLAGS, "--memory", "notes").status == 0
    assert memory_path("notes").exists()


def test_interrupted_answer_is_explained_and_said_to_be_so(tiny_model: Path, tmp_path: Path) -> None:
    slow = ("--backend-option", "seconds=0.02", "--ignore-eos", "--max-tokens", "500", "--drafter", "none")
    process = subprocess.Popen(
        [sys.executable, "-m", "cera_core.cli.main", "explain", PROMPT, "-m", str(tiny_model), *slow],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert process.stdout is not None
    process.stdout.read(5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"\nround " in out
    assert b"ended by: cancelled" in err


def test_page_is_self_contained_and_leads_from_text_to_rounds(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("explain", PROMPT, "-m", tiny_model, *FLAGS, "--html", "page.html")
    page = Path("page.html").read_text()
    assert "Wrote page.html." in outcome.err
    num_rounds = page.count('<tr id="r')
    assert num_rounds == page.count('class="round" href="#r') > 1
    assert "http" not in page
    assert "<script" not in page
    assert "<the>" not in page
