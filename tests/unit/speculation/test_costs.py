"""What forwards cost in contexts of different length, and what is taken where nothing was measured."""

from __future__ import annotations

import pytest

from cera_core.speculation.costs import _MAX_ROUNDS_WITHOUT_STEP, RoundCosts


def test_contexts_are_apart_by_powers_of_two() -> None:
    costs = RoundCosts()
    for position, seconds in ((0, 1.0), (511, 1.0), (512, 2.0), (1023, 2.0), (1024, 3.0), (2047, 3.0), (2048, 4.0)):
        costs.observe(1, seconds, position)
    found = [costs.seconds_of_a_step(position) for position in (0, 511, 512, 1023, 1024, 2047, 2048, 4095)]
    assert found == [1, 1, 2, 2, 3, 3, 4, 4]
    assert costs.seconds_of_a_step(4096) is None


def test_a_context_without_a_plain_step_has_no_costs() -> None:
    costs = RoundCosts({1: 1.0, 8: 2.0})
    costs.observe(8, 5.0)
    assert costs.steps(8) is None
    assert costs.steps(8, 5000) is None


def test_rows_not_measured_in_a_context_are_as_dear_in_steps_as_in_the_nearest() -> None:
    costs = RoundCosts()
    for num_rows, seconds in ((1, 1.0), (8, 4.0)):
        costs.observe(num_rows, seconds, 0)
        costs.observe(num_rows, 2 * seconds if num_rows == 1 else 16.0, 2048)
    costs.observe(1, 3.0, 1500)
    assert (costs.steps(8, 1500) or [])[-1] == 8.0  # as at 2048, which is nearer than 0
    costs.observe(8, 6.0, 1500)
    assert (costs.steps(8, 1500) or [])[-1] == 2.0


def test_what_is_remembered_holds_until_something_is_measured() -> None:
    costs = RoundCosts({1: 1.0, 4: 1.3, 8: 2.0})
    costs.observe(1, 10.0)
    assert costs.steps(8) == pytest.approx([1, 1.1, 1.2, 1.3, 1.475, 1.65, 1.825, 2.0])
    costs.observe(8, 30.0)
    assert (costs.steps(8) or [])[-1] == 3.0


def test_a_plain_step_is_due_after_many_rounds_in_a_context() -> None:
    costs = RoundCosts()
    for position in (0, 5000):
        costs.observe(1, 1.0, position)
        costs.observe(2, 1.5, position)
    for _ in range(_MAX_ROUNDS_WITHOUT_STEP - 2):
        costs.observe(2, 1.5)
    assert costs.steps(2) is not None
    costs.observe(2, 1.5)
    assert costs.steps(2) is None
    assert costs.steps(2, 5000) is not None
    costs.observe(1, 1.0)
    assert costs.steps(2) == [1, 1.5]


def test_plain_steps_measured_seldom_follow_a_drift() -> None:
    costs = RoundCosts()
    for seconds in (1.0, 1.0, 1.0, 2.0, 2.0, 2.0):
        for _ in range(_MAX_ROUNDS_WITHOUT_STEP):
            costs.observe(2, 1.5 * seconds)
        costs.observe(1, seconds)
    assert costs.steps(2) == [1, 1.5]


def test_a_cost_is_the_median_of_its_samples() -> None:
    costs = RoundCosts()
    costs.observe(1, 1.0)
    costs.observe(1, 4.0)
    assert costs.seconds_of_a_step() == 2.5
    costs.observe(1, 90.0)
    assert costs.seconds_of_a_step() == 4.0
