"""`auto`: asks several drafters and takes the best guess."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from cera_core.drafter import NO_DRAFT, Draft
from cera_core.drafting.guard import DrafterGroup, GuardedDrafter
from cera_core.specs import PluginOptions

Preference: TypeAlias = Literal["longest", "first"]


class AutoOptions(PluginOptions):
    """Options of the drafter `auto`."""

    drafters: tuple[str, ...] = Field(
        default=(),
        description="The drafters to ask, in order. Empty: suffix-automaton, prompt-lookup, and each drafter that has "
        "options of its own in the settings.",
    )
    prefer: Preference = Field(
        default="longest",
        description="`longest` takes the guess with the longest match, the earlier drafter on a tie; `first` the first "
        "guess, and asks no further.",
    )


class AutoDrafter(DrafterGroup):
    """Combines drafters; a draft carries the name of the one that made it.

    Args:
        members: The drafters to ask, in order.
        prefer: Which guess to take.
    """

    def __init__(self, members: Sequence[GuardedDrafter], prefer: Preference = "longest") -> None:
        self.members = members
        self._prefer = prefer
        self._author: GuardedDrafter | None = None

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Returns the preferred guess; empty if no member has one.

        The guess of a member that combines others itself keeps the name of the one that made it.
        """
        best = NO_DRAFT
        self._author = None
        for member in self.members:
            draft = member.draft(tokens, max_k)
            if not draft.token_ids:
                continue
            if not best.token_ids or (draft.match_length or 0) > (best.match_length or 0):
                best, self._author = draft, member
            if self._prefer == "first":
                break
        return best

    def accept(self, draft: Draft, num_accepted: int) -> None:
        """Tells the member that made the last draft."""
        if self._author is not None:
            self._author.accept(draft, num_accepted)

    def reset(self) -> None:
        """Resets every member."""
        for member in self.members:
            member.reset()

    def clone(self) -> AutoDrafter:
        """Clones every member."""
        return AutoDrafter([member.clone() for member in self.members], self._prefer)

    def memory_bytes(self) -> int:
        """Returns the sum over the members."""
        return sum(member.memory_bytes() for member in self.members)
