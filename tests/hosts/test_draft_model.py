"""A drafter of cera drafts for `llama_cpp.Llama`, and nothing it does harms that."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from cera_core import Drafter
from support.hosts import skip_without
from support.tiny_gguf import write_tiny_gguf

skip_without("llama_cpp")
pytestmark = pytest.mark.hosts


VOCAB_SIZE = 320


class RaisingDrafter(Drafter):
    def draft(self, tokens: Sequence[int], max_k: int) -> Sequence[int]:
        raise RuntimeError("no")

    def clone(self) -> RaisingDrafter:
        return RaisingDrafter()


class TooMuch(RaisingDrafter):
    def draft(self, tokens: Sequence[int], max_k: int) -> Sequence[int]:
        return [VOCAB_SIZE] * (max_k + 5)  # the first id that there is not

    def clone(self) -> TooMuch:
        return TooMuch()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2, quantisation="F32")


def answer(file: Path, draft_model: Any = None, num_tokens: int = 60) -> list[int]:
    from llama_cpp import Llama

    model = Llama(str(file), n_ctx=256, verbose=False, n_threads=1, draft_model=draft_model)
    prompt = [5, 6, 7, 8, 9, 5, 6, 7]
    return list(islice(model.generate(prompt, temp=0.0, repeat_penalty=1.0), num_tokens))


@pytest.mark.parametrize("name", ["auto", "suffix-automaton", "prompt-lookup"])
def test_the_text_is_the_one_without_drafts(file: Path, name: str) -> None:
    from cera_llama_cpp.draft_model import CeraDraftModel

    draft_model = CeraDraftModel(name, VOCAB_SIZE, max_draft_tokens=5)
    guesses: list[list[int]] = []
    draft = draft_model.hosted.draft
    draft_model.hosted.draft = lambda ids: guesses.append(draft(ids)) or guesses[-1]
    assert answer(file, draft_model) == answer(file)
    assert any(guesses), "something was guessed"
    assert len(guesses) < 60, "and accepted, so there were fewer forwards than tokens"
    assert not draft_model.hosted.guard.num_faults


def test_one_draft_model_serves_several_answers(file: Path) -> None:
    from cera_llama_cpp.draft_model import CeraDraftModel

    draft_model = CeraDraftModel("suffix-automaton", VOCAB_SIZE, max_draft_tokens=5)
    assert [answer(file, draft_model), answer(file, draft_model)] == [answer(file)] * 2


@pytest.mark.parametrize("drafter", [RaisingDrafter(), TooMuch()])
def test_a_drafter_that_fails_costs_its_guess_only(file: Path, drafter: Drafter) -> None:
    from cera_llama_cpp.draft_model import CeraDraftModel

    draft_model = CeraDraftModel(drafter, VOCAB_SIZE)
    assert answer(file, draft_model, 10) == answer(file, None, 10)
    assert draft_model.hosted.guard.is_quarantined
