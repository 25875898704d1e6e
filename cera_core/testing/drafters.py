"""Drafters with a known character, for tests of whatever asks a drafter."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from cera_core.drafter import Draft, Drafter


class OracleDrafter(Drafter):
    """Guesses from a text that is known in advance, by position; right where the text is.

    Args:
        token_ids: The whole text, prompt included.
        vocab_size: With it, every `wrong_every`-th position is guessed wrong.
        wrong_every: How often to be wrong; 0 is never.
    """

    def __init__(self, token_ids: Sequence[int], vocab_size: int = 0, wrong_every: int = 0) -> None:
        self._token_ids = list(token_ids)
        if wrong_every:
            for position in range(0, len(self._token_ids), wrong_every):
                self._token_ids[position] = (self._token_ids[position] + 1) % vocab_size

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Guesses what the text says."""
        return Draft(self._token_ids[len(tokens) : len(tokens) + max_k])

    def clone(self) -> OracleDrafter:
        """Shares the text."""
        return OracleDrafter(self._token_ids)


class RandomDrafter(Drafter):
    """Guesses random tokens in random number, the same for the same history.

    Args:
        vocab_size: Ids are below it.
        seed: Another seed guesses otherwise.
    """

    def __init__(self, vocab_size: int, seed: int = 0) -> None:
        self._vocab_size = vocab_size
        self._seed = seed

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Guesses at random."""
        generator = random.Random(f"{self._seed} {len(tokens)}")
        return Draft([generator.randrange(self._vocab_size) for _ in range(generator.randint(0, max_k))])

    def clone(self) -> RandomDrafter:
        """Makes another that guesses the same."""
        return RandomDrafter(self._vocab_size, self._seed)


class BrokenDrafter(Drafter):
    """Does whatever the test wants.

    Args:
        misbehave: Called with what `draft` is given; its result is returned as it is.
    """

    def __init__(self, misbehave: Callable[[Sequence[int], int], object]) -> None:
        self._misbehave = misbehave

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft | Sequence[int]:
        """Misbehaves."""
        return self._misbehave(tokens, max_k)  # type: ignore[return-value]  # that is its purpose

    def clone(self) -> BrokenDrafter:
        """Makes another that misbehaves likewise."""
        return BrokenDrafter(self._misbehave)
