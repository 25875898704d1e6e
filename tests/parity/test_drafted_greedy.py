"""Drafted greedy text beside plain greedy text: the first place where they differ must be a tie.

With several rows in one product NumPy sums in another order, so in the default mode a near tie may go the other way.
In exact mode nothing may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cera_core import Drafter, greedy_generate_spec
from cera_core.modelfile.gguf import open_model_file
from cera_core.modelfile.tokenizer import load_tokenizer
from cera_core.testing.drafters import OracleDrafter, RandomDrafter
from cera_numpy.execution import Execution
from cera_numpy.model import NumpyModel
from cera_prompt_lookup import PromptLookupDrafter
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

MAX_GAP = 0.05
DRAFT_LENGTHS = [1, 8, 15]


def greedy(
    model: NumpyModel, prompt_ids: Sequence[int], max_new_tokens: int, drafter: Drafter | None, k: int
) -> tuple[list[int], Any]:
    return greedy_generate_spec(model, model.new_state(), prompt_ids, max_new_tokens, (), drafter, k)


def assert_leaves_plain_at_a_tie_only(
    model: NumpyModel, prompt_ids: Sequence[int], plain: list[int], drafted: list[int]
) -> None:
    assert len(drafted) == len(plain)
    differing = [i for i, (one, other) in enumerate(zip(plain, drafted, strict=True)) if one != other]
    if not differing:
        return
    assert not model.batch_invariant
    logits = model.forward([*prompt_ids, *plain[: differing[0]]], model.new_state())
    gap = abs(float(logits[plain[differing[0]]] - logits[drafted[differing[0]]]))
    assert gap < MAX_GAP, f"token {differing[0]}: gap {gap}"


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "default"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
class TestTinyModels:
    PROMPT = np.random.default_rng(5).integers(0, 320, 30).tolist() * 2

    @pytest.fixture
    def model(self, tmp_path: Path, architecture: str, exact: bool) -> NumpyModel:
        path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture)
        return NumpyModel(open_model_file(path), Execution(exact=exact))

    @pytest.mark.parametrize("k", DRAFT_LENGTHS)
    def test_a_drafter_that_is_sometimes_wrong(self, model: NumpyModel, k: int) -> None:
        plain, _ = greedy(model, self.PROMPT, 60, None, 0)
        drafter = OracleDrafter(self.PROMPT + plain, vocab_size=320, wrong_every=7)
        drafted, stats = greedy(model, self.PROMPT, 60, drafter, k)
        assert 0 < stats.num_accepted < stats.num_drafted
        assert_leaves_plain_at_a_tie_only(model, self.PROMPT, plain, drafted)

    @pytest.mark.parametrize("k", DRAFT_LENGTHS)
    def test_a_drafter_that_guesses_at_random(self, model: NumpyModel, k: int) -> None:
        plain, _ = greedy(model, self.PROMPT, 40, None, 0)
        drafted, stats = greedy(model, self.PROMPT, 40, RandomDrafter(320), k)
        assert stats.num_drafted > stats.num_accepted
        assert_leaves_plain_at_a_tie_only(model, self.PROMPT, plain, drafted)

    def test_without_drafts_it_is_the_plain_text(self, model: NumpyModel) -> None:
        plain, _ = greedy(model, self.PROMPT, 40, None, 0)
        undrafted, stats = greedy(model, self.PROMPT, 40, OracleDrafter(self.PROMPT + plain), 0)
        assert stats.num_drafted == 0
        assert undrafted == plain


@pytest.fixture(scope="module", params=[True, False], ids=["exact", "default"])
def smollm2(request: pytest.FixtureRequest, model_path: Callable[[str], Path]) -> NumpyModel:
    with open_model_file(model_path("smollm2-135m")) as model_file:
        return NumpyModel(model_file, Execution(exact=request.param))


@pytest.fixture(scope="module")
def copying_ids(model_path: Callable[[str], Path]) -> list[int]:
    """A text that repeats itself, so that prompt lookup guesses right now and then."""
    record = "red apple: 3 euros\ngreen pear: 2 euros\nyellow plum: 4 euros\nblue grape: 6 euros\n"
    with open_model_file(model_path("smollm2-135m")) as model_file:
        return load_tokenizer(model_file).encode(record * 3)


@pytest.fixture(scope="module")
def plain_ids(smollm2: NumpyModel, copying_ids: list[int]) -> list[int]:
    return greedy(smollm2, copying_ids, 40, None, 0)[0]


@pytest.mark.model
@pytest.mark.timeout(600)
class TestSmolLM2:
    @pytest.mark.parametrize("k", DRAFT_LENGTHS)
    def test_prompt_lookup(self, smollm2: NumpyModel, copying_ids: list[int], plain_ids: list[int], k: int) -> None:
        drafted, stats = greedy(smollm2, copying_ids, 40, PromptLookupDrafter(), k)
        assert 0 < stats.num_accepted < stats.num_drafted
        assert_leaves_plain_at_a_tie_only(smollm2, copying_ids, plain_ids, drafted)

    def test_without_drafts_it_is_the_plain_text(
        self, smollm2: NumpyModel, copying_ids: list[int], plain_ids: list[int]
    ) -> None:
        undrafted, _ = greedy(smollm2, copying_ids, 16, PromptLookupDrafter(), 0)
        assert undrafted == plain_ids[:16]

    def test_a_text_cut_and_fed_again_gives_what_it_gives_directly(
        self, smollm2: NumpyModel, copying_ids: list[int]
    ) -> None:
        direct, refed = smollm2.new_state(), smollm2.new_state()
        smollm2.forward(copying_ids[:40], direct)
        smollm2.forward(copying_ids[:60], refed)
        smollm2.truncate(refed, 40)
        rows, rows_again = (smollm2.forward_all(copying_ids[40:50], state) for state in (direct, refed))
        assert smollm2.batch_invariant <= np.array_equal(rows, rows_again)
        np.testing.assert_allclose(rows, rows_again, atol=1e-3)
