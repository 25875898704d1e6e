"""A drafter of cera drafts for a model of transformers, and nothing it does harms that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from cera_core import Drafter, create_drafter
from cera_core.drafting.hosted import HostedDrafter
from support.hosts import skip_without

skip_without("transformers")
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("default")]  # its own warnings are not ours to mend

PROMPT = [5, 6, 7, 8, 9, 5, 6, 7]


class RaisingDrafter(Drafter):
    def draft(self, tokens: Sequence[int], max_k: int) -> Sequence[int]:
        raise RuntimeError("no")

    def clone(self) -> RaisingDrafter:
        return RaisingDrafter()


@pytest.fixture(scope="module")
def model() -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def answer(model: Any, num_tokens: int = 60, **options: Any) -> list[int]:
    import torch

    prompt = torch.tensor([PROMPT])
    ids: list[int] = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=num_tokens, do_sample=False, **options
    )[0].tolist()
    return ids


@pytest.mark.parametrize("name", ["auto", "suffix-automaton", "prompt-lookup"])
def test_the_text_is_the_one_without_drafts(model: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cera_transformers import drafting

    guesses: list[list[int]] = []
    draft = HostedDrafter.draft
    monkeypatch.setattr(
        HostedDrafter, "draft", lambda self, *arguments: guesses.append(draft(self, *arguments)) or guesses[-1]
    )
    with drafting(model, name, max_draft_tokens=5) as drafts:
        drafted = answer(model, **drafts)
    assert drafted == answer(model)
    assert len(drafted) == len(PROMPT) + 60
    assert any(guesses), "something was guessed"
    assert len(guesses) < 60, "and accepted, so there were fewer forwards than tokens"


def test_a_drafter_that_fails_costs_its_guess_only(model: Any) -> None:
    from cera_transformers import drafting

    with drafting(model, RaisingDrafter()) as drafts:
        drafted = answer(model, 10, **drafts)
    assert drafted == answer(model, 10)


def test_the_model_is_as_it_was_afterwards(model: Any) -> None:
    from cera_transformers import SEAM, drafting

    before = dict(vars(model))
    with pytest.raises(RuntimeError, match="meanwhile"), drafting(model, create_drafter("prompt-lookup")):
        raise RuntimeError("meanwhile")
    assert SEAM not in vars(model)
    assert vars(model).keys() == before.keys()
