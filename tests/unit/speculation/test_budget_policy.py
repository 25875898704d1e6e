"""The draft budget against simulated costs and acceptance, without a model: close to the best fixed draft length."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from cera_core.drafter import Draft
from cera_core.drafting.acceptance import Acceptance
from cera_core.generation_options import GenerationOptions
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import first_tokens

NUM_TOKENS = 1500
STEP_SECONDS = 0.01
WRONG = -1

Cost = Callable[[int, int, random.Random], float]
"""What a forward costs in plain steps, of its rows, its position and a source of noise."""
Guess = Callable[[int, random.Random], tuple[int, int]]
"""How many draft tokens are right at a position, and what match length the drafter claims."""

COSTS: dict[str, Cost] = {
    "flat": lambda rows, position, noise: 1 + 0.01 * (rows - 1),
    "linear": lambda rows, position, noise: 1 + 0.3 * (rows - 1),
    "steep": lambda rows, position, noise: 1 + 0.9 * (rows - 1),
    "step": lambda rows, position, noise: 1.0 if rows == 1 else 1.94 + 0.14 * (rows - 2),
    "noisy": lambda rows, position, noise: (1 + 0.12 * (rows - 1)) * (1 + 0.5 * noise.random() ** 4),
    "drifting": lambda rows, position, noise: (1 + 0.12 * (rows - 1)) * (1 + position / 2000),
    "dearer rows in long texts": lambda rows, position, noise: (
        1 + position / 4000 + (rows - 1) * (0.05 + position / 4000)
    ),
    "cheaper rows in long texts": lambda rows, position, noise: 1 + position / 300 + 0.5 * (rows - 1),
}


def prose(position: int, chance: random.Random) -> tuple[int, int]:
    return 0 if chance.random() < 0.9 else chance.randint(1, 2), chance.choice([1, 1, 2, 3])


def copying(position: int, chance: random.Random) -> tuple[int, int]:
    return 16 if chance.random() < 0.95 else chance.randint(0, 8), 20


def alternating(position: int, chance: random.Random) -> tuple[int, int]:
    return copying(position, chance) if (position // 200) % 2 else prose(position, chance)


def adversarial(position: int, chance: random.Random) -> tuple[int, int]:
    return 0, 30


def mixed(position: int, chance: random.Random) -> tuple[int, int]:
    return min(16, int(chance.expovariate(0.3))), chance.choice([1, 2, 3, 5])


GUESSES: list[Guess] = [prose, copying, alternating, adversarial, mixed]


@dataclass
class Simulation:
    """A generation of which only costs and guesses exist; the token at a position is the position."""

    cost: Cost
    guess: Guess
    seed: int

    def tokens_per_step(self, fixed_k: int | None) -> float:
        chance, noise = random.Random(self.seed), random.Random(self.seed + 1000)
        options = GenerationOptions(adaptive=fixed_k is None, max_draft_tokens=fixed_k)
        budget = DraftBudget(options, RoundCosts(), Acceptance())
        position, spent = 0, 0.0
        while position < NUM_TOKENS:
            budget.observe_token(position)
            budget.begin_round(position)
            position += 1
            draft, num_right = self._draft(budget, position, chance)
            cost = self.cost(1 + len(draft.token_ids), position, noise)
            spent += cost
            budget.observe_forward(1 + len(draft.token_ids), cost * STEP_SECONDS)
            if draft.token_ids:
                num_agreed = min(num_right, len(draft.token_ids))
                budget.observe_round(draft, num_agreed, cost * STEP_SECONDS)
                for _ in range(num_agreed):
                    budget.observe_token(position)
                    position += 1
        return position / spent

    def _draft(self, budget: DraftBudget, position: int, chance: random.Random) -> tuple[Draft, int]:
        num_right, match_length = self.guess(position, chance)
        num_wanted = budget.num_wanted()
        if not num_wanted:
            return Draft(()), 0
        token_ids = [position + i if i < num_right else WRONG for i in range(num_wanted)]
        draft = Draft(token_ids, match_length=match_length)
        budget.observe_asked(20e-6)
        return first_tokens(draft, budget.num_to_verify(draft)), num_right


@pytest.mark.parametrize("guess", GUESSES, ids=lambda guess: guess.__name__)
@pytest.mark.parametrize("cost", COSTS)
def test_adaptive_drafting_comes_within_5_percent_of_the_best_fixed_length(cost: str, guess: Guess) -> None:
    def speed(fixed_k: int | None) -> float:
        return sum(Simulation(COSTS[cost], guess, seed).tokens_per_step(fixed_k) for seed in range(2)) / 2

    adaptive = speed(None)
    best = max(speed(k) for k in (0, 1, 2, 4, 6, 8, 15))

    assert adaptive >= 0.95 * best


def test_texts_of_two_lengths_in_turns_do_not_spoil_one_another() -> None:
    """The sessions of an engine share what forwards cost; rows cheap in a short text may be dear in a long one."""
    costs, chosen = RoundCosts(), []
    for _ in range(5):
        for length, cost_of_row in ((0, 0.05), (8192, 1.0)):
            budget = DraftBudget(GenerationOptions(), costs, Acceptance())
            budget.begin_round(length)
            budget.observe_forward(1, STEP_SECONDS)
            draft = Draft([WRONG] * 8, match_length=6)
            chosen.append(budget.num_to_verify(draft))
            budget.observe_forward(9, STEP_SECONDS * (1 + 8 * cost_of_row))
    assert chosen[2:] == [8, 0] * 4  # before that, nothing was measured


def test_the_gate_opens_within_a_few_tokens_when_copying_starts() -> None:
    """After long prose on costs that forbid bad guesses, good guesses are verified again at once."""
    chance = random.Random(3)
    budget = DraftBudget(GenerationOptions(), RoundCosts(), Acceptance())
    for rows, cost in ((1, 1.0), (2, 1.9), (8, 3.0)):
        budget.observe_forward(rows, cost * STEP_SECONDS)
    for position in range(500):
        budget.observe_token(position)
        draft = Draft([WRONG] * 8, match_length=chance.choice([1, 2]))
        assert budget.num_to_verify(draft) == 0 or position < 20
    decisions = []
    for position in range(500, 520):
        budget.observe_token(position)
        draft = Draft(list(range(position + 1, position + 9)), match_length=min(position - 498, 16))
        decisions.append(budget.num_to_verify(draft))
    assert any(decisions[:8])


def test_without_a_measured_plain_step_the_first_step_is_plain() -> None:
    budget = DraftBudget(GenerationOptions(), RoundCosts(), Acceptance())
    assert budget.num_to_verify(Draft([1, 2, 3], match_length=20)) == 0
