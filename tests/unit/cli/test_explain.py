"""`cera explain` gives the answer of `cera run`, then its rounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_page_is_self_contained_and_leads_from_text_to_rounds(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("explain", PROMPT, "-m", tiny_model, *FLAGS, "--html", "page.html")
    page = Path("page.html").read_text()
    assert "Wrote page.html." in outcome.err
    num_rounds = page.count('<tr id="r')
    assert num_rounds == page.count('class="round" href="#r') > 1
    assert "http" not in page
    assert "<script" not in page
    assert "<the>" not in page
