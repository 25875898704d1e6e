"""Drafters with a known character, for tests of whatever asks a drafter."""

from __future__ import annotations

import random
import time
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
        share_of_history: The chance that a token is one of the history's instead, so that some guesses are right.
    """

    def __init__(self, vocab_size: int, seed: int = 0, share_of_history: float = 0.0) -> None:
        self._vocab_size = vocab_size
        self._seed = seed
        self._share_of_history = share_of_history

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Guesses at random."""
        generator = random.Random(f"{self._seed} {len(tokens)}")
        return Draft([self._random_id(tokens, generator) for _ in range(generator.randint(0, max_k))])

    def clone(self) -> RandomDrafter:
        """Makes another that guesses the same."""
        return RandomDrafter(self._vocab_size, self._seed, self._share_of_history)

    def _random_id(self, tokens: Sequence[int], generator: random.Random) -> int:
        if tokens and self._share_of_history and generator.random() < self._share_of_history:
            return tokens[generator.randrange(len(tokens))]
        return generator.randrange(self._vocab_size)


class AdversarialDrafter(Drafter):
    """Knows a text, guesses wrong at every position of it, and claims to be certain.

    Args:
        token_ids: The whole text, prompt included.
        vocab_size: Ids are below it.
    """

    def __init__(self, token_ids: Sequence[int], vocab_size: int) -> None:
        self._token_ids = list(token_ids)
        self._vocab_size = vocab_size

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Guesses what the text does not say."""
        coming = self._token_ids[len(tokens) : len(tokens) + max_k]
        wrong = [(token_id + 1) % self._vocab_size for token_id in coming]
        return Draft(wrong, confidences=[1.0] * len(wrong), match_length=len(tokens))

    def clone(self) -> AdversarialDrafter:
        """Shares the text."""
        return AdversarialDrafter(self._token_ids, self._vocab_size)


class SlowDrafter(Drafter):
    """Takes its time, and then guesses as another drafter does.

    Args:
        drafter: The other one.
        seconds: How long to wait before each guess.

    Attributes:
        num_calls: How often it was asked; shared with its clones.
    """

    def __init__(self, drafter: Drafter, seconds: float) -> None:
        self.suggested_k = drafter.suggested_k
        self.num_calls = [0]
        self._drafter = drafter
        self._seconds = seconds

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft | Sequence[int]:
        """Waits, then guesses."""
        self.num_calls[0] += 1
        time.sleep(self._seconds)
        return self._drafter.draft(tokens, max_k)

    def clone(self) -> SlowDrafter:
        """Makes another that is as slow."""
        clone = SlowDrafter(self._drafter.clone(), self._seconds)
        clone.num_calls = self.num_calls
        return clone


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
