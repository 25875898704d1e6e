"""SmolLM2 with every drafter beside SmolLM2 without: the same tokens and the same log-probabilities, to the bit.

tests/bench/equality.py does the same over a thousand tokens, and on larger models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core.instruments.equality import compare
from cera_core.testing.drafters import RandomDrafter
from support.native import skip_without_extension
from support.small_models import drafter_names, options_of

LIST = """Ada Brook, Mill Lane 11, Ely
Ben Carter, Station Road 12, Hull
Cleo Dean, Church Street 13, Bath"""
PROMPT = f"{LIST}\n\nThe same list once more, then a story about the people in it:\n\n{LIST.splitlines()[0]}\n"
SAMPLINGS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"frequency_penalty": 0.2},
    "sampled": {"temperature": 0.8, "top_p": 0.95, "seed": 7},
}
BUDGETS: Mapping[str, Mapping[str, Any]] = {
    "8": {"adaptive": False, "max_draft_tokens": 8},
    "adaptive": {},
}


@pytest.fixture(scope="module", params=["native", "numpy"])
def engine(request: pytest.FixtureRequest, model_path: Callable[[str], Path]) -> cera_core.Engine:
    if request.param == "native":
        skip_without_extension()
    backend_options = {"exact": True} if request.param == "numpy" else {}
    return cera_core.load(model_path("smollm2-135m"), backend=request.param, backend_options=backend_options)


@pytest.mark.model
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_drafter_gives_the_plain_text_and_its_log_probabilities(engine: cera_core.Engine, sampling: str) -> None:
    prompt = engine.tokenizer.encode(PROMPT)
    options = {**SAMPLINGS[sampling], "max_tokens": 56, "ignore_eos": True}
    text = engine.generate(prompt, drafter=None, **options).token_ids
    drafters: dict[str, Any] = {
        name: cera_core.create_drafter(name, **options_of(name, text)) for name in drafter_names()
    }
    drafters["random ids"] = RandomDrafter(engine.model.config.vocab_size, share_of_history=0.5)
    accepted: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for comparison in compare(engine, prompt, drafters, {sampling: options}, BUDGETS):
        assert comparison.divergence is None, comparison
        assert comparison.num_tokens == 56
        accepted[comparison.drafter] += comparison.num_accepted
        rejected[comparison.drafter] += comparison.num_rejected
    assert all(rejected[name] > 0 for name in drafters)
    assert all(accepted[name] > 0 for name in drafters if name != "random ids")
