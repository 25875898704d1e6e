"""The drafters of one session: chosen by name or handed over, each kept with what was learned of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from cera_core.drafter import Drafter
from cera_core.drafting.acceptance import Acceptance
from cera_core.drafting.auto import AutoDrafter
from cera_core.drafting.guard import GuardedDrafter
from cera_core.drafting.memory import Memory, MemoryDrafter
from cera_core.drafting.prediction import PredictionDrafter
from cera_core.errors import InvalidInputError
from cera_core.registry import NONE

DrafterChoice: TypeAlias = str | Drafter | None
"""A drafter's name, a drafter of which the session uses a clone, or None for none."""

MAX_KEPT = 8
"""Drafters a session keeps, each with an index over its history; the one not used for longest goes first."""


def check_is_choice(value: object) -> None:
    """Raises for a drafter that can be none, for instance the class of one."""
    if not isinstance(value, str | Drafter | None):
        found = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        raise InvalidInputError(f"'drafter' takes a drafter's name, a Drafter or None; it is {found}.")


@dataclass(slots=True)
class Drafting:
    """A drafter of this session, with what was learned of it; the choice is kept, for it is known by its identity."""

    choice: DrafterChoice
    drafter: GuardedDrafter
    acceptance: Acceptance = field(default_factory=Acceptance)


class SessionDrafters:
    """Makes a session's own instance of a drafter when it is first asked for.

    Args:
        vocab_size: Number of token ids of the model.
        make_drafter: Makes a drafter of a name; None where there are no names.
        memory: Of earlier answers, asked beside whichever drafter is chosen.
    """

    def __init__(
        self,
        vocab_size: int,
        make_drafter: Callable[[str], Drafter | None] | None = None,
        memory: Memory | None = None,
    ) -> None:
        self._vocab_size = vocab_size
        self._make_drafter = make_drafter
        self._memory = memory
        self._kept: dict[object, Drafting] = {}

    def chosen(self, choice: DrafterChoice) -> Drafting | None:
        """Returns the drafter of a choice; None for none.

        Raises:
            InvalidInputError: The choice is no drafter, or a name in a session that knows no names.
        """
        if choice is None or choice == NONE:
            return None
        key = choice if isinstance(choice, str) else id(choice)
        drafting = self._kept.pop(key, None) or self._made(choice)
        self._kept[key] = drafting
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        return drafting

    def with_prediction(self, drafting: Drafting | None, prediction: PredictionDrafter) -> Drafting:
        """Returns a drafter for one answer that looks into a prediction of it, and asks the chosen one besides."""
        members = [GuardedDrafter("prediction", prediction, self._vocab_size)]
        if drafting is not None:
            members.append(drafting.drafter)
        combined = AutoDrafter(members)
        return Drafting(combined, GuardedDrafter("prediction", combined, self._vocab_size))

    def reset(self) -> None:
        """Makes every drafter forget the session."""
        for drafting in self._kept.values():
            drafting.drafter.reset()

    def fresh(self) -> SessionDrafters:
        """Makes the drafters of another session."""
        return SessionDrafters(self._vocab_size, self._make_drafter, self._memory)

    def _made(self, choice: str | Drafter) -> Drafting:
        check_is_choice(choice)
        drafter = self._named(choice) if isinstance(choice, str) else choice
        name = choice if isinstance(choice, str) else type(choice).__name__
        own = GuardedDrafter(name, drafter, self._vocab_size).clone()
        if self._memory is None:
            return Drafting(choice, own)
        remembering = GuardedDrafter("memory", MemoryDrafter(self._memory), self._vocab_size)
        return Drafting(choice, GuardedDrafter(name, AutoDrafter([own, remembering]), self._vocab_size))

    def _named(self, name: str) -> Drafter:
        drafter = self._make_drafter(name) if self._make_drafter else None
        if drafter is None:
            raise InvalidInputError(
                f"The drafter {name!r} can be chosen by its name only in a session made by an engine; pass a Drafter."
            )
        return drafter
