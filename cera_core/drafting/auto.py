"""`auto`: asks several drafters and takes the guess that is expected to bring most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from cera_core.drafter import NO_DRAFT, Draft
from cera_core.drafting.acceptance import Acceptance
from cera_core.drafting.guard import DrafterGroup, GuardedDrafter
from cera_core.specs import PluginOptions
from cera_core.validation import names_from_text

Preference: TypeAlias = Literal["best", "longest", "first"]


class AutoOptions(PluginOptions):
    """Options of the drafter `auto`."""

    drafters: tuple[str, ...] = Field(
        default=(),
        description="The drafters to ask, in order. Empty: suffix-automaton, or prompt-lookup where that is not there, "
        "and each drafter that has options of its own in the settings.",
    )
    prefer: Preference = Field(
        default="best",
        description="`best` takes the guess of which most tokens are expected to be accepted, as learned of each "
        "drafter; `longest` the one with the longest match; the earlier drafter on a tie. `first` takes the first "
        "guess, and asks no further.",
    )

    @field_validator("drafters", mode="before")
    @classmethod
    def _names_from_text(cls, value: object) -> object:
        return names_from_text(value)


class AutoDrafter(DrafterGroup):
    """Combines drafters; a draft carries the name of the one that made it.

    What became of the guess taken is learned of all that guessed, as far as the tokens accepted show who was right.

    Args:
        members: The drafters to ask, in order.
        prefer: Which guess to take.
    """

    def __init__(self, members: Sequence[GuardedDrafter], prefer: Preference = "best") -> None:
        self.members = members
        self._prefer = prefer
        self._acceptance = Acceptance()
        self._guesses: list[tuple[GuardedDrafter, Draft]] = []  # the last ones, the one taken first

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Returns the preferred guess; empty if no member has one.

        The guess of a member that combines others itself keeps the name of the one that made it.
        """
        self._guesses = []
        for member in self.members:
            draft = member.draft(tokens, max_k)
            if draft.token_ids:
                self._guesses.append((member, draft))
                if self._prefer == "first":
                    break
        if len(self._guesses) > 1:
            self._guesses.sort(key=lambda guess: -self._worth(guess[1]))  # is stable: the earlier drafter on a tie
        return self._guesses[0][1] if self._guesses else NO_DRAFT

    def _worth(self, draft: Draft) -> float:
        return (draft.match_length or 0) if self._prefer == "longest" else self._acceptance.expected(draft)

    def accept(self, draft: Draft, num_accepted: int) -> None:
        """Tells the member that made the last draft, and learns how good each guess was."""
        if not self._guesses:
            return
        self._guesses[0][0].accept(draft, num_accepted)
        for _, guess in self._guesses:
            self._learn(guess, draft.token_ids, num_accepted)

    def _learn(self, guess: Draft, verified: Sequence[int], num_accepted: int) -> None:
        """Learns of one guess from the tokens of another that were verified; the rest of it is not known."""
        pairs = enumerate(zip(guess.token_ids, verified, strict=False))
        shorter = min(len(guess.token_ids), len(verified))
        num_same = next((place for place, (ours, theirs) in pairs if ours != theirs), shorter)
        is_all_known = num_same != num_accepted  # else it differs where the other was wrong, or where nothing is known
        num_agreed = min(num_same, num_accepted)
        self._acceptance.learn(guess, num_agreed, None if is_all_known else num_agreed)

    def reset(self) -> None:
        """Resets every member, and forgets what was learned of them."""
        self._guesses = []
        self._acceptance = Acceptance()
        for member in self.members:
            member.reset()

    def clone(self) -> AutoDrafter:
        """Clones every member; what was learned of them is not shared."""
        return AutoDrafter([member.clone() for member in self.members], self._prefer)

    def memory_bytes(self) -> int:
        """Returns the sum over the members."""
        return sum(member.memory_bytes() for member in self.members)
