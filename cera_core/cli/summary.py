"""What a generation cost and what drafting brought, for people; each figure is defined in `speculation.stats`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cera_core.cli.output import console

if TYPE_CHECKING:
    from cera_core.cli.answer import AnswerWriter
    from cera_core.generation import Generation
    from cera_core.speculation.stats import DrafterStats, SpecStats


def write_summary(generation: Generation, writer: AnswerWriter, *, is_exact: bool) -> None:
    """Writes the summary to standard error; each drafter's line is in the style of its tokens: the legend.

    Args:
        generation: What was generated.
        writer: Knows the styles.
        is_exact: The backend promises the same text with and without drafts.
    """
    from rich.text import Text  # noqa: PLC0415 - 40 ms

    out = console(sys.stderr)
    out.print()
    for line in _lines(generation, is_exact=is_exact):
        out.print(Text(line))
    for name, drafter in generation.stats.drafters.items():
        if not (drafter.num_drafts or drafter.num_faults):
            continue
        out.print(Text.assemble("  ", (name, writer.style_of(name)), f": {_drafter_line(drafter)}"))


def _lines(generation: Generation, *, is_exact: bool) -> Iterator[str]:
    stats = generation.stats
    yield (
        f"{stats.num_emitted} tokens in {stats.total_seconds:.2f} s: {stats.tokens_per_second:.1f} tokens/s; "
        f"prompt: {stats.num_prompt_tokens} tokens, {stats.prefill_seconds:.2f} s; ended by: {generation.finish_reason}"
    )
    if generation.seed is not None:
        yield f"seed: {generation.seed}"
    yield f"rounds: {stats.num_rounds}; plain steps: {stats.num_plain_steps}{_reasons(stats)}"
    yield (
        f"drafted: {stats.num_drafted}; accepted: {stats.num_accepted} ({stats.acceptance_rate:.1%}); "
        f"mean acceptance length: {stats.mean_acceptance_length:.2f}"
    )
    yield (
        f"drafting: {_ms(stats.draft_seconds)}; verifying: {_ms(stats.verify_seconds)}; "
        f"plain steps: {_ms(stats.plain_seconds)}{_saved(stats)}"
    )
    if not is_exact and stats.num_rounds:
        yield "This backend is not batch-invariant: a near tie may be decided otherwise than without drafts."


def _reasons(stats: SpecStats) -> str:
    """Says why steps were plain, the most frequent reason first."""
    reasons = [f"{reason} ({count})" for reason, count in stats.skip_reasons.most_common()]
    return f", because: {'; '.join(reasons)}" if reasons else ""


def _saved(stats: SpecStats) -> str:
    """Says what drafting did to the time, where plain steps were taken to compare with."""
    seconds = stats.seconds_saved
    if seconds is None or not (stats.num_rounds or stats.draft_seconds):
        return ""
    return f"; {'saved' if seconds >= 0 else 'lost'} against plain decoding: {_ms(abs(seconds))}"


def _drafter_line(drafter: DrafterStats) -> str:
    faults = [f"{fault} ({count})" for fault, count in drafter.num_faults.most_common()]
    suffix = f"; faults: {'; '.join(faults)}" if faults else ""
    return f"accepted {drafter.num_accepted} of {drafter.num_drafted} tokens; drafts: {drafter.num_drafts}{suffix}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
