"""Rules 20 to 24: what drafting costs, on a simulated clock or counted, so that no other load decides a test."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from statistics import median

import pytest

import cera_core
from cera_core.drafter import Draft, Drafter
from cera_core.generation import Generation
from cera_core.session import Session
from cera_core.speculation.history import History
from cera_core.testing.drafters import BrokenDrafter
from cera_core.testing.fakes import ScriptedModel
from support.effort import bytes_allocated, lines_executed
from support.rounds import RoundLog
from support.simulated_time import Clock, Cost, TimedDrafter, TimedModel
from support.small_models import drafter_names, options_of

VOCAB_SIZE = 400
COSTS: dict[str, Cost] = {
    "flat": lambda rows: 0.010 * (1 + 0.02 * (rows - 1)),
    "linear": lambda rows: 0.010 * (1 + 0.2 * (rows - 1)),
    "steep": lambda rows: 0.010 * (1 + 0.9 * (rows - 1)),
    "step-shaped": lambda rows: 0.0070 if rows == 1 else 0.0136 + 0.001 * (rows - 2),
}


def prose(length: int, seed: int = 1) -> list[int]:
    """Returns tokens of which some are far more frequent than others, so that short matches abound and mean nothing."""
    weights = [1 / (rank + 5) for rank in range(VOCAB_SIZE)]
    return Random(seed).choices(range(VOCAB_SIZE), weights, k=length)


PASSAGE = prose(300, seed=2)
COPIES = [*PASSAGE[:120], 7, *PASSAGE[121:], *PASSAGE[:150], 9, 8, *PASSAGE[151:]]
"""Two copies, each with a difference."""


class Liar(Drafter):
    """Is always wrong and always sure."""

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        return Draft([VOCAB_SIZE - 1] * max_k, confidences=[1.0] * max_k, match_length=min(30, len(tokens)))

    def clone(self) -> Liar:
        return Liar()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    clock.replace_everywhere(monkeypatch)
    return clock


def answered(
    clock: Clock,
    cost: Cost,
    prompt: Sequence[int],
    answer: Sequence[int],
    drafter: Drafter | None,
    k: int | None = None,
) -> Generation:
    """Lets a model give an answer on the simulated clock; each question to the drafter takes 20 microseconds of it."""
    session = Session(TimedModel([*prompt, *answer], clock, cost, VOCAB_SIZE))
    session.append(prompt)
    timed = None if drafter is None else TimedDrafter(drafter, clock, 20e-6)
    found = session.generate(drafter=timed, max_tokens=len(answer), max_draft_tokens=k, adaptive=k is None)
    assert found.token_ids == list(answer)
    return found


DRAFTERS: dict[str, Callable[[], Drafter]] = {
    **{name: lambda name=name: cera_core.create_drafter(name, **options_of(name, PASSAGE)) for name in drafter_names()},
    "liar": Liar,
}


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("name", DRAFTERS)
def test_rule_20_where_nothing_can_be_guessed_it_is_at_least_98_percent_of_plain_speed(
    clock: Clock, cost: Cost, name: str
) -> None:
    text = prose(1000)
    plain = answered(clock, cost, PASSAGE, text, None).stats.tokens_per_second
    drafted = answered(clock, cost, PASSAGE, text, DRAFTERS[name]()).stats.tokens_per_second
    assert drafted >= 0.98 * plain


@pytest.mark.parametrize("cost", COSTS.values(), ids=COSTS)
@pytest.mark.parametrize("name", ["auto", "prompt-lookup", "suffix-automaton"])
def test_rule_20_on_copying_text_it_has_at_least_90_percent_of_the_best_fixed_length(
    clock: Clock, cost: Cost, name: str
) -> None:
    fixed = {
        k: answered(clock, cost, PASSAGE, COPIES, DRAFTERS[name](), k).stats.tokens_per_second for k in (0, 1, 4, 8, 15)
    }
    adaptive = answered(clock, cost, PASSAGE, COPIES, DRAFTERS[name]()).stats.tokens_per_second
    assert adaptive >= 0.9 * max(fixed.values())
    assert max(fixed.values()) > 1.05 * fixed[0]


def test_rule_20_whether_a_guess_pays_depends_on_its_cost_and_not_on_acceptance_alone(clock: Clock) -> None:
    """The same guesses, half of them right, are verified where rows are cheap and left where each costs a step."""
    text = prose(400)
    half_right = BrokenDrafter(
        lambda tokens, max_k: Draft([text[len(tokens) - 300] if len(tokens) % 2 else 0] * min(max_k, 1), match_length=3)
    )
    cheap = answered(clock, COSTS["flat"], PASSAGE, text[:-1], half_right).stats
    dear = answered(clock, COSTS["steep"], PASSAGE, text[:-1], half_right).stats
    assert cheap.num_drafted > 150
    assert dear.num_drafted < 30


def rounds_of(clock: Clock, cost: Cost, text: Sequence[int], drafter: Drafter) -> dict[int, int]:
    """Returns how many draft tokens were verified in the round that begins at each place of a text."""
    log = RoundLog()
    session = Session(TimedModel([*PASSAGE, *text], clock, cost, VOCAB_SIZE), observers=log.observers)
    session.append(PASSAGE)
    session.generate(drafter=TimedDrafter(drafter, clock, 20e-6), max_tokens=len(text))
    return {each.position - len(PASSAGE): each.num_drafted for each in log.rounds}


@pytest.mark.parametrize("cost", [COSTS["linear"], COSTS["step-shaped"]], ids=["linear", "step-shaped"])
def test_rule_21_the_gate_closes_on_prose_and_opens_again_within_a_few_tokens_of_a_copy(
    clock: Clock, cost: Cost
) -> None:
    first, second = prose(500, seed=3), prose(300, seed=4)
    text = [*first, *PASSAGE[50:200], *second]
    verified = rounds_of(clock, cost, text, DRAFTERS["auto"]())

    def share_of_drafts(begin: int, end: int) -> float:
        rounds = [num_drafted > 0 for place, num_drafted in verified.items() if begin <= place < end]
        return sum(rounds) / len(rounds)

    assert share_of_drafts(100, 500) < 0.05
    assert any(num_drafted > 0 for place, num_drafted in verified.items() if 500 <= place < 512)
    assert share_of_drafts(512, 640) > 0.8
    assert share_of_drafts(670, 950) < 0.1


def test_rule_21_a_closed_gate_opens_because_guesses_that_were_not_verified_are_compared_with_the_text(
    clock: Clock,
) -> None:
    """The drafter says the same of wrong and of right guesses, so only what came instead tells them apart."""
    text = prose(500, seed=3)
    whole = [*PASSAGE, *text]
    wrong_then_right = BrokenDrafter(
        lambda tokens, max_k: Draft(whole[len(tokens) :][:max_k] if len(tokens) > 600 else [0] * max_k, match_length=4)
    )
    verified = rounds_of(clock, COSTS["linear"], text, wrong_then_right)
    assert not any(num_drafted for place, num_drafted in verified.items() if 200 < place < 300)
    assert any(num_drafted for place, num_drafted in verified.items() if 300 < place < 364)


def test_rule_21_step_shaped_costs_do_not_hide_that_long_drafts_pay(clock: Clock) -> None:
    """One guessed token costs as much as a step, twelve hardly more: trying short drafts would find nothing."""
    verified = rounds_of(clock, COSTS["step-shaped"], COPIES, DRAFTERS["suffix-automaton"]())
    assert median(num_drafted for num_drafted in verified.values() if num_drafted) >= 8


def test_rule_21_each_session_has_a_gate_of_its_own(clock: Clock) -> None:
    text = prose(300, seed=3)
    model = TimedModel([*PASSAGE, *text, *PASSAGE], clock, COSTS["linear"], VOCAB_SIZE)
    wrong = BrokenDrafter(lambda tokens, max_k: Draft([0] * max_k, match_length=6))
    right = BrokenDrafter(
        lambda tokens, max_k: Draft([*PASSAGE, *text][len(tokens) :][:max_k], match_length=min(6, len(tokens)))
    )
    sessions = []
    for drafter in (wrong, right):
        session = Session(model, drafter=drafter)
        session.append(PASSAGE)
        session.generate(max_tokens=100)
        sessions.append(session)
    closed, opened = (session.generate(max_tokens=50).stats for session in sessions)
    assert closed.num_rounds < 5
    assert opened.num_rounds > 0
    assert opened.num_accepted > 25


def fed(name: str, text: Sequence[int]) -> tuple[History, Drafter]:
    history, drafter = History(text), DRAFTERS[name]()
    drafter.draft(history.view(), 8)
    return history, drafter


def effort_of_a_step(name: str, text: Sequence[int]) -> tuple[float, float]:
    """Returns lines and bytes of telling a drafter one token and asking it for eight, after a text."""
    history, drafter = fed(name, text)
    coming = iter(PASSAGE)

    def step() -> None:
        history.append(next(coming))
        drafter.draft(history.view(), 8)

    for _ in range(50):  # the first match settles what the index put off: a part of its building
        step()
    lines = sum(lines_executed(step) for _ in range(100)) / 100
    return lines, median(bytes_allocated(step) for _ in range(20))


@pytest.mark.parametrize("name", drafter_names())
def test_rule_22_drafting_costs_the_same_after_a_thousand_and_after_128_thousand_tokens(name: str) -> None:
    short_lines, short_bytes = effort_of_a_step(name, PASSAGE * 4)
    long_lines, long_bytes = effort_of_a_step(name, PASSAGE * 436)
    assert long_lines < 1.5 * short_lines
    assert long_bytes < 1.5 * short_bytes + 500


@pytest.mark.parametrize("name", drafter_names())
def test_rule_22_places_that_are_found_again_and_again_in_a_long_text_do_not_add_up(name: str) -> None:
    text = prose(128_000)
    short_lines, _ = effort_of_a_step(name, text[:16_000])
    long_lines, _ = effort_of_a_step(name, text)
    assert long_lines < 1.5 * short_lines  # a little, as more is found to draft


@pytest.mark.parametrize("name", drafter_names())
def test_rule_22_an_index_takes_as_much_for_each_token_of_a_long_prompt_as_of_a_short_one(name: str) -> None:
    text = prose(16_000)
    short, long = (
        lines_executed(lambda length=length: fed(name, text[:length])) / length for length in (1_000, 16_000)
    )
    assert long < 1.3 * short + 2
    assert long < 100  # a line is some 50 ns: under 1 % of a prefill at 2,000 tokens a second


def test_rule_23_the_longer_the_match_the_longer_the_draft(clock: Clock) -> None:
    text = prose(40)
    lengths = []
    for match_length in (1, 2, 4, 8, 16, 32):
        drafter = BrokenDrafter(
            lambda tokens, max_k, match_length=match_length: Draft(
                [*PASSAGE, *text][len(tokens) :][:max_k], match_length=match_length
            )
        )
        verified = rounds_of(clock, COSTS["linear"], text, drafter)
        lengths.append(next((num_drafted for num_drafted in verified.values() if num_drafted), 0))
    assert lengths == sorted(lengths)
    assert lengths[0] <= 2
    assert lengths[-1] >= 12


def test_rule_23_the_same_output_takes_far_fewer_draft_tokens_than_drafts_of_one_length(clock: Clock) -> None:
    text = [*prose(300, seed=5), *COPIES[:200], *prose(300, seed=6)]
    fixed = answered(clock, COSTS["linear"], PASSAGE, text, DRAFTERS["prompt-lookup"](), 15).stats
    adaptive = answered(clock, COSTS["linear"], PASSAGE, text, DRAFTERS["prompt-lookup"]()).stats
    assert adaptive.num_drafted < 0.3 * fixed.num_drafted
    assert adaptive.num_accepted > 0.75 * fixed.num_accepted


@pytest.mark.parametrize(
    "options", [{}, {"frequency_penalty": 0.5, "repetition_penalty": 1.2, "min_tokens": 5}], ids=len
)
@pytest.mark.parametrize("drafts", [True, False])
def test_rule_24_a_token_costs_the_glue_the_same_whatever_the_length_of_the_history(
    options: dict[str, float], drafts: bool
) -> None:
    """Counts lines and allocations between two tokens; a copy of the longer history alone would be 400,000 bytes."""
    script = [1, 2, 3, 4]
    guess = BrokenDrafter(lambda tokens, max_k: [script[len(tokens) % 4], 0][:max_k])

    def efforts(length: int) -> tuple[float, float]:
        session = Session(ScriptedModel(script, vocab_size=64, max_seq_len=131_000), drafter=guess if drafts else None)
        session.append(script * (length // 4))
        stream = session.stream(max_tokens=200, adaptive=False, max_draft_tokens=2, logprobs=1, **options)
        for _ in range(10):
            next(stream)
        lines = sum(lines_executed(lambda: next(stream)) for _ in range(60)) / 60
        return lines, median(bytes_allocated(lambda: next(stream)) for _ in range(60))

    (short_lines, short_bytes), (long_lines, long_bytes) = efforts(1_200), efforts(100_000)
    assert math.isclose(long_lines, short_lines, rel_tol=0.05)
    assert long_bytes < short_bytes + 2_000
