"""What a drafter is: something that guesses the next tokens from the text so far.

A guess can only save time. Whatever a drafter returns, the text stays what the model alone would have written, so a
drafter needs no care for correctness, only for speed and for the invariants below.
This module knows nothing of models, sessions or plugins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Draft:
    """A guess at the next tokens.

    Attributes:
        token_ids: The guessed tokens, the next one first; empty means no guess.
        confidences: For each token the chance, in 0..1, that it is accepted given that those before it were.
        match_length: How many tokens at the end of the history the guess is based on.
        source: Where the guess came from, for people to read, for instance `history[120:128]`.
        drafter: Name of the drafter that made it; set where several are combined.
    """

    token_ids: Sequence[int]
    confidences: Sequence[float] | None = None
    match_length: int | None = None
    source: str | None = None
    drafter: str | None = None


NO_DRAFT = Draft(())


class Drafter(ABC):
    """Guesses the next tokens from the history of one session.

    Invariants, each a named check of the conformance kit:

    * `draft` returns at most `max_k` ids, each in `0 <= id < vocab_size`;
    * calling `draft` twice with the same history gives the same answer;
    * a history fed token by token and one fed at once give the same answer;
    * a history that shrank, or was replaced, is answered like a fresh one;
    * histories of 0 and 1 tokens are valid;
    * two clones share no session state.

    Attributes:
        suggested_k: The draft length this drafter does best with, or None to leave it to the draft budget.
    """

    suggested_k: int | None = None

    @abstractmethod
    def draft(self, tokens: Sequence[int], max_k: int) -> Draft | Sequence[int]:
        """Guesses what follows `tokens`.

        Args:
            tokens: The whole committed history: prompt and emitted tokens. Read-only; a slice is a new list.
            max_k: The most tokens of use, 0 or more.

        Returns:
            A `Draft`, or just the token ids. Empty means no guess.
        """

    @abstractmethod
    def clone(self) -> Drafter:
        """Makes a drafter for another session; it may share what is read-only, never session state."""

    def reset(self) -> None:
        """Forgets the session."""

    def accept(self, draft: Draft, num_accepted: int) -> None:
        """Is told after a round how many tokens of `draft` the model agreed with."""

    def memory_bytes(self) -> int:
        """Returns the memory this drafter holds for its session, in bytes, as far as it knows."""
        return 0


class IncrementalDrafter(Drafter):
    """Base for drafters with an index over the history: feeds each token once.

    A subclass writes `extend`, `propose` and `clone`, `reset` (calling `super().reset()`) and, where it is cheaper
    than a rebuild, `truncate`. The base notices how the history changed since the last call and feeds only what is
    new. Noticing is free for a session's own history, whose views name their `lineage`; else it costs one pass over
    the history.

    A subclass with an `__init__` calls `super().__init__()`.

    Attributes:
        history: The tokens fed so far, for the subclass to read.
    """

    def __init__(self) -> None:
        self.history = array("i")
        self._lineage: object = None

    @abstractmethod
    def extend(self, new_tokens: Sequence[int]) -> None:
        """Adds to the index the tokens with which `history` now ends; there is at least one."""

    @abstractmethod
    def propose(self, max_k: int) -> Draft | Sequence[int]:
        """Guesses what follows the tokens fed so far; at most `max_k` ids, `max_k` being at least 1."""

    def truncate(self, length: int) -> bool:
        """Cuts the index to its first `length` tokens; `history` still has those that go.

        Returns:
            Whether it was done; False asks the base for a `reset` and a rebuild.
        """
        del length
        return False

    def reset(self) -> None:
        """Forgets the session; a subclass empties its index here as well."""
        self.history = array("i")
        self._lineage = None

    def memory_bytes(self) -> int:
        """Returns the size of `history`; a subclass adds that of its index."""
        return len(self.history) * self.history.itemsize

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft | Sequence[int]:
        """Feeds what is new in `tokens`, then proposes."""
        self._synchronise(tokens)
        return self.propose(max_k) if max_k > 0 else NO_DRAFT

    def _synchronise(self, tokens: Sequence[int]) -> None:
        """Makes the index hold exactly `tokens`."""
        try:
            num_kept = self._num_unchanged(tokens)
            if num_kept < len(self.history) and not (num_kept and self.truncate(num_kept)):
                self.reset()
                num_kept = 0
            del self.history[num_kept:]
            if num_kept < len(tokens):
                new_tokens = tokens[num_kept:]
                self.history.extend(new_tokens)
                self.extend(new_tokens)
            self._lineage = getattr(tokens, "lineage", None)
        except BaseException:
            self.reset()  # half fed is worse than empty
            raise

    def _num_unchanged(self, tokens: Sequence[int]) -> int:
        """Returns how many tokens of what was fed still stand at the start of `tokens`."""
        lineage = getattr(tokens, "lineage", None)
        if lineage is not None and lineage is self._lineage:
            return min(len(self.history), len(tokens))
        return common_prefix_length(self.history, tokens)


def common_prefix_length(fed: array[int], tokens: Sequence[int]) -> int:
    """Returns how many leading ids two sequences share; compares in blocks, so it runs at the speed of C."""
    other = array("i", tokens[: len(fed)])
    low, high = 0, len(other)
    if fed[:high] == other:
        return high
    while low < high:  # the first `low` ids are equal, the first `high + 1` are not
        middle = (low + high + 1) // 2
        if fed[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
