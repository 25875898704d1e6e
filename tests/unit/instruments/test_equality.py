"""Generations beside the plain one: what differs is found, what was accepted and rejected is counted."""

from __future__ import annotations

import pytest

import cera_core
from cera_core import Engine
from cera_core.generation import Generation, TokenLogprobs
from cera_core.instruments.equality import BUDGETS, SAMPLINGS, Divergence, compare, first_divergence
from cera_core.speculation.stats import SpecStats
from cera_core.testing import DrafterSuite
from cera_core.testing.drafter_checks import VOCAB_SIZE
from cera_core.testing.drafters import RandomDrafter
from support.tiny_gguf import write_tiny_gguf

PROMPT = list(range(40, 70)) * 2


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)
    return cera_core.load(path, backend="numpy", backend_options={"exact": True}, max_tokens=24, ignore_eos=True)


def generation(*tokens: tuple[int, float, dict[int, float]]) -> Generation:
    """Makes a generation of tokens, each with its log-probability and those of the likeliest."""
    logprobs = [TokenLogprobs(token_id, logprob, tuple(top.items())) for token_id, logprob, top in tokens]
    return Generation("", [token[0] for token in tokens], "max_tokens", SpecStats(), logprobs)


PLAIN = generation((5, -0.1, {5: -0.1, 6: -2.5}), (7, -1.0, {7: -1.0, 8: -1.25}))


def test_equal_generations_do_not_diverge() -> None:
    assert first_divergence(PLAIN, PLAIN) is None


def test_another_token_is_found_with_the_gap_between_the_two() -> None:
    other = generation((5, -0.1, {5: -0.1, 6: -2.5}), (8, -1.0, {8: -1.0, 7: -1.0}))
    assert first_divergence(PLAIN, other) == Divergence(1, 7, 8, 0.25)


def test_token_that_was_not_among_the_likeliest_has_no_gap() -> None:
    assert first_divergence(PLAIN, generation((9, -3.0, {5: -0.1}))) == Divergence(0, 5, 9, None)


def test_log_probability_that_differs_by_a_bit_is_found() -> None:
    other = generation((5, -0.1, {5: -0.1, 6: -2.5 + 2**-50}), (7, -1.0, {7: -1.0, 8: -1.25}))
    assert first_divergence(PLAIN, other) == Divergence(0, 5, 5, 0.0)


def test_text_that_ends_earlier_or_later_is_found() -> None:
    shorter = generation((5, -0.1, {5: -0.1, 6: -2.5}))
    assert first_divergence(PLAIN, shorter) == Divergence(1, 7, None, None)
    assert first_divergence(shorter, PLAIN) == Divergence(1, None, 7, None)


def test_each_drafter_is_compared_in_every_sampling_and_budget(engine: Engine) -> None:
    drafters = {
        "random": RandomDrafter(engine.model.config.vocab_size, share_of_history=0.5),
        "lookup": "prompt-lookup",
    }
    comparisons = list(compare(engine, PROMPT, drafters))
    ways = [(each.sampling, each.drafter, each.budget) for each in comparisons]
    assert ways == [(sampling, name, budget) for sampling in SAMPLINGS for name in drafters for budget in BUDGETS]
    assert all(each.divergence is None and each.num_tokens == 24 for each in comparisons)
    assert sum(each.num_rejected for each in comparisons if each.drafter == "random") > 0


def test_text_that_drafting_changed_is_found(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    model = engine.model
    forward_all = model.forward_all
    monkeypatch.setattr(model, "forward_all", lambda ids, state: -forward_all(ids, state))
    drafters = {"random": RandomDrafter(model.config.vocab_size, share_of_history=0.5)}
    budgets = {"8": {"adaptive": False, "max_draft_tokens": 8}}
    divergences = [each.divergence for each in compare(engine, PROMPT, drafters, budgets=budgets)]
    assert all(divergence is not None and divergence.position > 0 for divergence in divergences)


class TestRandomDrafter(DrafterSuite):
    @pytest.fixture
    def make_drafter(self) -> object:
        return lambda: RandomDrafter(VOCAB_SIZE, share_of_history=0.5)


def test_some_random_ids_are_those_of_the_text() -> None:
    drafter = RandomDrafter(100_000, share_of_history=0.5)
    drafts = [drafter.draft([5] * length, 8).token_ids for length in range(1, 50)]
    ids = [token_id for draft in drafts for token_id in draft]
    assert 0.4 < ids.count(5) / len(ids) < 0.6
