"""What is counted: each figure defined once, and none of them divides by 0."""

import json
from collections import Counter

import pytest

from cera_core.speculation.stats import SpecStats


def test_stats_of_nothing_are_zero() -> None:
    stats = SpecStats()
    assert (stats.acceptance_rate, stats.mean_acceptance_length, stats.tokens_per_second) == (0, 0, 0)


def test_rounds_count_by_drafter_and_by_position() -> None:
    stats = SpecStats()
    stats.count_round("one", 3, 2, 0.5)
    stats.count_round("two", 1, 1, 0.25)
    stats.count_round("one", 4, 0, 0.25)
    assert (stats.num_rounds, stats.num_drafted, stats.num_accepted, stats.verify_seconds) == (3, 8, 3, 1.0)
    one, two = stats.drafter("one"), stats.drafter("two")
    assert (one.num_drafts, one.num_drafted, one.num_accepted) == (2, 7, 2)
    assert (one.drafted_by_position, one.accepted_by_position) == ([2, 2, 2, 1], [1, 1])
    assert (two.drafted_by_position, two.accepted_by_position) == ([1], [1])


def test_bonus_is_emitted_by_a_round_but_is_no_draft() -> None:
    stats = SpecStats()
    stats.count_round("one", 3, 2, 0.1)
    stats.count_round("one", 3, 0, 0.1)
    assert stats.num_emitted_by_rounds == 4
    assert stats.acceptance_rate == pytest.approx(2 / 6)
    assert stats.mean_acceptance_length == 2.0


def test_plain_steps_count_their_reasons() -> None:
    stats = SpecStats()
    for reason in ("no guess", "no guess", "no room"):
        stats.count_plain_step(reason, 0.5)
    assert (stats.num_plain_steps, stats.plain_seconds) == (3, 1.5)
    assert stats.skip_reasons == {"no guess": 2, "no room": 1}
    assert stats.num_rounds == 0


def test_tokens_per_second_are_of_the_whole_time() -> None:
    assert SpecStats(num_emitted=10, total_seconds=4.0, prefill_seconds=100.0).tokens_per_second == 2.5


def test_dictionary_is_plain_and_has_the_derived_figures() -> None:
    stats = SpecStats(num_emitted=3, total_seconds=1.5)
    stats.count_round("one", 2, 1, 0.5)
    stats.count_plain_step("no room", 0.5)
    stats.drafter("one").num_faults["too_long"] += 1
    found = json.loads(json.dumps(stats.as_dict()))
    assert found["drafters"]["one"]["num_faults"] == {"too_long": 1}
    assert found["skip_reasons"] == {"no room": 1}
    assert (found["acceptance_rate"], found["mean_acceptance_length"], found["tokens_per_second"]) == (0.5, 2.0, 2.0)


def test_new_drafter_starts_at_zero_and_is_kept() -> None:
    stats = SpecStats()
    assert stats.drafter("one") is stats.drafter("one")
    assert stats.drafters["one"].num_faults == Counter()


def test_time_saved_is_what_the_tokens_of_rounds_would_have_taken_as_plain_steps() -> None:
    stats = SpecStats(draft_seconds=0.5)
    assert stats.seconds_saved is None
    stats.count_plain_step("none", 1.0)
    stats.count_plain_step("none", 3.0)
    stats.count_round("a", 4, 2, 5.0)
    assert stats.seconds_saved == 3 * 2.0 - 5.0 - 0.5
    stats.count_round("a", 4, 0, 5.0)
    assert stats.seconds_saved == -2.5


def test_time_saved_compares_with_plain_steps_of_the_same_length_of_context_where_they_were_measured() -> None:
    stats = SpecStats()
    stats.count_round("a", 4, 2, 5.0, step_seconds=4.0)
    assert stats.seconds_saved == 3 * 4.0 - 5.0
    stats.count_round("a", 4, 1, 5.0)
    assert stats.seconds_saved is None
    stats.count_plain_step("none", 1.0)
    assert stats.seconds_saved == 3 * 4.0 + 2 * 1.0 - 10.0
