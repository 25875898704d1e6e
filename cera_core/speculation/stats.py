"""What is counted, each figure defined once; knows nothing of who counts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python


@dataclass(slots=True)
class DrafterStats:
    """What one drafter did in one generation.

    Attributes:
        num_drafts: Drafts of at least one token that were verified.
        num_drafted: Their tokens.
        num_accepted: Those of them that were emitted.
        accepted_by_position: How often the draft token at each position was emitted.
        drafted_by_position: How often a draft had a token at each position.
        num_faults: Broken invariants by kind: exceptions, wrong types, ids outside the vocabulary, drafts too long.
    """

    num_drafts: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    accepted_by_position: list[int] = field(default_factory=list)
    drafted_by_position: list[int] = field(default_factory=list)
    num_faults: Counter[str] = field(default_factory=Counter)

    def count(self, num_drafted: int, num_accepted: int) -> None:
        """Adds one verified draft."""
        self.num_drafts += 1
        self.num_drafted += num_drafted
        self.num_accepted += num_accepted
        _count_positions(self.drafted_by_position, num_drafted)
        _count_positions(self.accepted_by_position, num_accepted)


@dataclass(slots=True)
class SpecStats:
    """What one generation did.

    A round is one forward that verifies a draft; a plain step is one forward of a single token without a draft.
    The token in front of a draft is chosen before it: it is emitted, not drafted. Bonus and correction are no drafts.

    Attributes:
        num_prompt_tokens: Tokens in the history before the first one was emitted.
        num_emitted: Tokens emitted.
        num_rounds: Forwards that verified a draft.
        num_plain_steps: Forwards of one token without a draft; they and the rounds emit every token.
        num_drafted: Draft tokens verified.
        num_accepted: Draft tokens emitted.
        num_emitted_by_rounds: Tokens emitted by rounds: the accepted ones and one bonus or correction each.
        num_not_compared: Tokens emitted by rounds where no plain step was measured in a context of that length.
        rounds_as_steps_seconds: What the other tokens emitted by rounds would have taken as plain steps in a context of
            that length.
        skip_reasons: Why a step was plain, with how often.
        prefill_seconds: Time to bring the cache up to the prompt.
        draft_seconds: Time in drafters.
        verify_seconds: Time in the model for rounds.
        plain_seconds: Time in the model for plain steps.
        total_seconds: Time from the first choice to the end, pauses of a stream's consumer not included.
        drafters: Counts by drafter.
    """

    num_prompt_tokens: int = 0
    num_emitted: int = 0
    num_rounds: int = 0
    num_plain_steps: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_emitted_by_rounds: int = 0
    num_not_compared: int = 0
    rounds_as_steps_seconds: float = 0.0
    skip_reasons: Counter[str] = field(default_factory=Counter)
    prefill_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    plain_seconds: float = 0.0
    total_seconds: float = 0.0
    drafters: dict[str, DrafterStats] = field(default_factory=dict)

    @property
    def acceptance_rate(self) -> float:
        """Accepted by drafted; 0 when nothing was drafted."""
        return self.num_accepted / self.num_drafted if self.num_drafted else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens emitted by rounds by the number of rounds, bonus or correction included; 0 without rounds."""
        return self.num_emitted_by_rounds / self.num_rounds if self.num_rounds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Emitted tokens by the time they took, prefill not included; 0 when nothing was emitted."""
        return self.num_emitted / self.total_seconds if self.total_seconds else 0.0

    @property
    def seconds_saved(self) -> float | None:
        """Time that drafting saved, negative if it cost time; None if no plain step was measured to compare with.

        The tokens that rounds emitted, at the time of plain steps in a context of that length, or where none was
        measured at the mean time of this generation's, less the time of the rounds and of the drafters.
        """
        if not self.num_plain_steps and (self.num_not_compared or not self.num_rounds):
            return None
        step = self.plain_seconds / self.num_plain_steps if self.num_plain_steps else 0.0
        as_steps = self.rounds_as_steps_seconds + self.num_not_compared * step
        return as_steps - self.verify_seconds - self.draft_seconds

    def drafter(self, name: str) -> DrafterStats:
        """Returns the counts of one drafter, new ones if it has none."""
        return self.drafters.setdefault(name, DrafterStats())

    def count_round(
        self, drafter: str, num_drafted: int, num_accepted: int, seconds: float, step_seconds: float | None = None
    ) -> None:
        """Adds one round.

        Args:
            drafter: Whose draft was verified.
            num_drafted: Its tokens.
            num_accepted: Those that were emitted.
            seconds: What the forward took.
            step_seconds: What a plain step takes there; None if that was not measured.
        """
        self.num_rounds += 1
        self.num_drafted += num_drafted
        self.num_accepted += num_accepted
        self.num_emitted_by_rounds += 1 + num_accepted
        if step_seconds is None:
            self.num_not_compared += 1 + num_accepted
        else:
            self.rounds_as_steps_seconds += (1 + num_accepted) * step_seconds
        self.verify_seconds += seconds
        self.drafter(drafter).count(num_drafted, num_accepted)

    def count_plain_step(self, reason: str, seconds: float) -> None:
        """Adds one plain step."""
        self.num_plain_steps += 1
        self.skip_reasons[reason] += 1
        self.plain_seconds += seconds

    def as_dict(self) -> dict[str, Any]:
        """Returns all figures as plain values, the derived ones too, for JSON."""
        return {
            **to_jsonable_python(self),
            "acceptance_rate": self.acceptance_rate,
            "mean_acceptance_length": self.mean_acceptance_length,
            "tokens_per_second": self.tokens_per_second,
            "seconds_saved": self.seconds_saved,
        }


def _count_positions(counts: list[int], num_positions: int) -> None:
    counts.extend([0] * (num_positions - len(counts)))
    for position in range(num_positions):
        counts[position] += 1
