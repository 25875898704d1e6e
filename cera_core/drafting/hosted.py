"""A drafter inside an engine that is not cera: the whole history comes in with each call, a checked guess goes out.

There is no draft budget here, as the host verifies all it is given and does not say what that cost it.
"""

from __future__ import annotations

from collections.abc import Sequence

from cera_core.drafter import NO_DRAFT, Drafter
from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import InvalidInputError


class HostedDrafter:
    """Asks a drafter on behalf of another engine.

    Whatever the drafter does, `draft` returns ids of the vocabulary and never raises; what it broke is counted and said
    once. What became of a guess is read off the next history, so that `auto` learns whom to trust. A history that does
    not go on from the last one begins a new session, in which a drafter that was quarantined has another chance.

    Args:
        drafter: Cloned: it may serve other sessions as well.
        vocab_size: Number of token ids of the host's model.
        max_draft_tokens: The most tokens to guess, 1 or more.

    Attributes:
        guard: The drafter behind its guard, which counts its faults.

    Raises:
        InvalidInputError: `max_draft_tokens` is below 1.
    """

    def __init__(self, drafter: Drafter, vocab_size: int, max_draft_tokens: int = 4) -> None:
        if max_draft_tokens < 1:
            raise InvalidInputError(f"'max_draft_tokens' must be at least 1, found {max_draft_tokens}.")
        self.guard = GuardedDrafter(type(drafter).__name__, drafter, vocab_size).clone()
        self._max_draft_tokens = max_draft_tokens
        self._draft = NO_DRAFT
        self._history: list[int] = []

    def draft(self, token_ids: Sequence[int], max_k: int | None = None) -> list[int]:
        """Guesses what follows a history.

        Args:
            token_ids: The prompt and all that was emitted.
            max_k: The most tokens that the host has room for; None if it does not say.
        """
        self._take_up(list(token_ids))
        wanted = self._max_draft_tokens if max_k is None else min(max_k, self._max_draft_tokens)
        self._draft = self.guard.draft(token_ids, wanted) if wanted > 0 else NO_DRAFT
        return list(self._draft.token_ids)

    def _take_up(self, token_ids: list[int]) -> None:
        """Tells the drafter what became of its last guess, where the history goes on from the one it was made for."""
        length = len(self._history)
        if token_ids[:length] != self._history:
            self.guard.reset()
        elif self._draft.token_ids and len(token_ids) > length:
            pairs = zip(self._draft.token_ids, token_ids[length:], strict=False)
            agreed = [ours == theirs for ours, theirs in pairs]
            self.guard.accept(self._draft, [*agreed, False].index(False))
        self._history = token_ids
