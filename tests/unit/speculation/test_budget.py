"""The parts of the draft budget: costs, acceptance, and what is asked and verified."""

from __future__ import annotations

import pytest

from cera_core.drafter import Draft
from cera_core.drafting.acceptance import Acceptance
from cera_core.generation_options import DEFAULT_MAX_DRAFT_TOKENS, GenerationOptions
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.costs import PRIOR_COST_OF_A_ROW, RoundCosts


def costs_of(seconds: dict[int, float]) -> RoundCosts:
    costs = RoundCosts()
    for num_rows, value in seconds.items():
        costs.observe(num_rows, value)
    return costs


def budget_of(costs: RoundCosts | None = None, suggested_k: int | None = None, **options: object) -> DraftBudget:
    return DraftBudget(GenerationOptions(**options), costs or RoundCosts(), Acceptance(), suggested_k)


def test_cost_is_unknown_without_a_plain_step() -> None:
    assert RoundCosts().steps(2) is None
    assert costs_of({4: 1.0}).steps(2) is None
    assert costs_of({4: 1.0}).seconds_of_a_step() is None


def test_cost_of_what_was_not_measured_is_on_the_line_through_its_neighbours() -> None:
    assert costs_of({1: 2.0, 3: 4.0, 5: 10.0}).steps(6) == pytest.approx([1, 1.5, 2, 3.5, 5, 5 + PRIOR_COST_OF_A_ROW])


def test_cost_past_what_was_measured_rises_as_before_but_no_more_than_is_likely() -> None:
    assert costs_of({1: 1.0, 3: 1.1}).steps(5) == pytest.approx([1, 1.05, 1.1, 1.15, 1.2])
    assert costs_of({1: 1.0, 2: 2.0}).steps(4) == pytest.approx([1, 2, 2.12, 2.24])


def test_cost_of_a_further_row_is_guessed_where_only_a_step_was_measured() -> None:
    assert costs_of({1: 4.0}).steps(3) == pytest.approx([1, 1 + PRIOR_COST_OF_A_ROW, 1 + 2 * PRIOR_COST_OF_A_ROW])


def test_cost_beyond_what_was_measured_never_falls() -> None:
    *_, last_measured, fourth, fifth = costs_of({1: 1.0, 2: 3.0, 3: 2.0}).steps(5) or []
    assert last_measured == 2
    assert fifth >= fourth >= 2


def test_cost_is_a_median_of_the_last_samples() -> None:
    costs = RoundCosts()
    for seconds in (50, 50, 1, 1, 1, 9, 1, 1, 1):
        costs.observe(1, seconds)
    assert costs.seconds_of_a_step() == 1


def test_cost_that_is_long_past_is_guessed_anew() -> None:
    costs = costs_of({1: 1.0, 8: 100.0})
    for _ in range(600):
        costs.observe(1, 1.0)
    assert list(costs.table()) == [1]


def test_acceptance_begins_with_the_match_length() -> None:
    acceptance = Acceptance()
    chances = [
        acceptance.chances(Draft([7], match_length=match_length))[0] for match_length in (None, 1, 2, 3, 5, 8, 16, 99)
    ]
    assert chances == sorted(chances)
    assert 0 < chances[0] < chances[-1] < 1


@pytest.mark.parametrize("match_length", [-5, 0, 10**30])
def test_match_length_of_any_size_has_a_chance(match_length: int) -> None:
    assert 0 < Acceptance().chances(Draft([7], match_length=match_length))[0] < 1


def test_acceptance_is_learned_by_match_length() -> None:
    acceptance, short, long = Acceptance(), Draft([1, 2], match_length=1), Draft([1, 2], match_length=20)
    for _ in range(50):
        acceptance.learn(short, 0)
        acceptance.learn(long, 2)
    assert acceptance.chances(short)[0] < 0.1
    assert acceptance.chances(long)[0] > 0.95


def test_acceptance_is_learned_by_confidence_where_there_is_one() -> None:
    acceptance = Acceptance()
    for _ in range(50):
        acceptance.learn(Draft([1, 2], confidences=[0.9, 0.1], match_length=3), 1)
    sure, unsure = acceptance.chances(Draft([1, 2], confidences=[0.9, 0.1], match_length=3))
    assert sure > 0.95
    assert unsure < 0.05
    assert acceptance.chances(Draft([1], match_length=3)) == Acceptance().chances(Draft([1], match_length=3))


def test_tokens_after_the_first_refused_one_teach_nothing() -> None:
    one, other = Acceptance(), Acceptance()
    one.learn(Draft([1, 2, 3], confidences=[0.9, 0.5, 0.2]), 0)
    other.learn(Draft([1], confidences=[0.9]), 0)
    probe = Draft([1, 2, 3], confidences=[0.9, 0.5, 0.2])
    assert one.chances(probe) == other.chances(probe)


def test_first_guess_fades_too_so_that_a_drafter_that_is_always_sure_is_not_trusted_for_ever() -> None:
    acceptance, draft = Acceptance(), Draft([1], confidences=[1.0])
    for _ in range(300):
        acceptance.learn(draft, 0)
    assert acceptance.chances(draft)[0] < 0.001


def test_old_experience_fades() -> None:
    acceptance, draft = Acceptance(), Draft([1], match_length=1)
    for _ in range(1000):
        acceptance.learn(draft, 0)
    for _ in range(100):
        acceptance.learn(draft, 1)
    assert acceptance.chances(draft)[0] > 0.8


@pytest.mark.parametrize(
    ("options", "suggested_k", "wanted"),
    [
        ({}, None, DEFAULT_MAX_DRAFT_TOKENS),
        ({}, 4, 4),
        ({}, 0, 0),
        ({"max_draft_tokens": 9}, 4, 9),
        ({"max_draft_tokens": 0}, 4, 0),
        ({"max_draft_tokens": 7, "adaptive": False}, None, 7),
    ],
)
def test_number_wanted_is_the_callers_then_the_drafters_then_the_default(
    options: dict[str, object], suggested_k: int | None, wanted: int
) -> None:
    assert budget_of(suggested_k=suggested_k, **options).num_wanted() == wanted


def test_fixed_budget_verifies_everything_whatever_it_costs() -> None:
    budget = budget_of(costs_of({1: 1.0, 9: 1000.0}), adaptive=False)
    budget.observe_asked(1e9)
    assert budget.num_wanted() == DEFAULT_MAX_DRAFT_TOKENS
    assert budget.num_to_verify(Draft(range(8), match_length=1)) == 8


def test_adaptive_budget_verifies_what_pays() -> None:
    cheap, dear = costs_of({1: 1.0, 9: 1.1}), costs_of({1: 1.0, 2: 2.5, 9: 20.0})
    draft = Draft(range(8), match_length=20)
    assert budget_of(cheap).num_to_verify(draft) == 8
    assert budget_of(dear).num_to_verify(draft) == 0


def test_adaptive_budget_cuts_where_confidence_ends() -> None:
    budget = budget_of(costs_of({1: 1.0, 9: 2.0}))
    assert budget.num_to_verify(Draft(range(8), confidences=[1.0] * 3 + [0.0] * 5)) == 3


def test_longer_match_is_verified_further() -> None:
    costs = costs_of({1: 1.0, 16: 4.0})
    lengths = [
        budget_of(costs).num_to_verify(Draft(range(15), match_length=match_length))
        for match_length in (1, 3, 6, 12, 20)
    ]
    assert lengths == sorted(lengths)
    assert lengths[0] < 4 < lengths[-1]


def test_acceptance_is_learned_from_what_was_not_verified() -> None:
    acceptance = Acceptance()
    budget = DraftBudget(GenerationOptions(), costs_of({1: 1.0, 2: 5.0}), acceptance)
    draft = Draft([5, 6, 7], match_length=1)
    before = acceptance.chances(draft)[0]
    for _ in range(20):
        assert budget.num_to_verify(draft) == 0
        for token_id in (5, 6, 7):
            budget.observe_token(token_id)
    assert acceptance.chances(draft)[0] > before + 0.3
    for _ in range(40):
        assert budget.num_to_verify(draft) == 0
        budget.observe_token(9)
    assert acceptance.chances(draft)[0] < before


def test_drafter_that_is_slow_and_brings_nothing_is_asked_seldom() -> None:
    budget = budget_of(costs_of({1: 0.010}))
    num_asked = 0
    for _ in range(1000):
        if budget.num_wanted():
            num_asked += 1
            budget.observe_asked(0.001)  # a tenth of a step
    assert num_asked == 1 + 100  # at 1 % of the time, after the first time, which may have been the prompt
    assert budget.why_none_wanted == "asking the drafter costs more than it brings"


def test_drafter_that_is_fast_is_asked_each_time() -> None:
    budget = budget_of(costs_of({1: 0.010}))
    for _ in range(100):
        assert budget.num_wanted()
        budget.observe_asked(0.00005)


def test_slow_drafter_that_brings_more_than_it_costs_is_asked_each_time() -> None:
    budget = budget_of(costs_of({1: 0.010}))
    budget.observe_asked(0.001)
    for _ in range(50):
        budget.observe_round(Draft(range(8), match_length=20), 8, 0.015)
    while not budget.num_wanted():
        pass
    for _ in range(50):
        budget.observe_asked(0.001)
        assert budget.num_wanted()
        budget.observe_round(Draft(range(8), match_length=20), 8, 0.015)


def test_reason_for_not_asking_names_the_option_that_turned_it_off() -> None:
    assert budget_of(max_draft_tokens=0).why_none_wanted == "'max_draft_tokens' is 0"
