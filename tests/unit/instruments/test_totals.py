"""The sums of several generations' counts."""

from cera_core.instruments.totals import total_drafter_stats, total_stats
from cera_core.speculation.stats import DrafterStats, SpecStats


def counted(*rounds: tuple[str, int, int]) -> SpecStats:
    stats = SpecStats(num_prompt_tokens=5)
    for drafter, num_drafted, num_accepted in rounds:
        stats.count_round(drafter, num_drafted, num_accepted, 0.5)
    stats.count_plain_step("no guess", 0.25)
    return stats


def test_totals_are_what_one_generation_would_have_counted() -> None:
    parts = [counted(("a", 3, 1)), counted(("b", 2, 2), ("a", 5, 5))]
    total = total_stats(parts)
    together = counted(("a", 3, 1), ("b", 2, 2), ("a", 5, 5))
    together.count_plain_step("no guess", 0.25)
    together.num_prompt_tokens = 10
    assert total == together
    assert total.drafters["a"].accepted_by_position == [2, 1, 1, 1, 1]


def test_the_parts_stay_as_they_are() -> None:
    part = counted(("a", 3, 1))
    total_stats([part, part])
    assert part == counted(("a", 3, 1))


def test_no_parts_count_nothing() -> None:
    assert total_stats([]) == SpecStats()


def test_drafters_add_up_position_by_position() -> None:
    parts = [counted(("a", 3, 1)).drafters["a"], counted(("b", 1, 1)).drafters["b"]]
    total = total_drafter_stats(parts)
    assert (total.num_drafted, total.num_accepted) == (4, 2)
    assert (total.drafted_by_position, total.accepted_by_position) == ([2, 1, 1], [2])
    assert total_drafter_stats([]) == DrafterStats()
