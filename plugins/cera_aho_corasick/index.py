"""Phrases compiled into one automaton, shared by all sessions and never changed once made.

The algorithm is that of Aho and Corasick, "Efficient string matching: an aid to bibliographic search" (Communications
of the ACM 18, 1975), as implemented by pyahocorasick. That library reports keys when they are complete and does not
show where it stands inside one. So the keys are the beginnings of the phrases, and the longest that ends here says
where in a phrase the history ends.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import ahocorasick

SEPARATOR = -1  # no token has this id; it ends a phrase
SPLIT_BITS = 9
HALF = 1 << SPLIT_BITS


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a phrase, or of several.

    Attributes:
        length: Number of its tokens.
        count: How many phrases begin with it; 0 if it is from the inside of long ones.
        end: Where the first of them goes on after it, as an index into the tokens of all phrases.
    """

    length: int
    count: int
    end: int


def symbols(tokens: Iterable[int]) -> tuple[int, ...]:
    """Returns two small numbers for each token, from disjoint ranges.

    The library searches the children of a node one by one. With tokens for symbols the root may have 50,000, and a
    hundred thousand phrases take ten times as long to compile.
    """
    return tuple(symbol for token in tokens for symbol in (HALF + (token >> SPLIT_BITS), token % HALF))


class PhraseIndex:
    """The beginnings of all phrases, from `min_match` to `max_match` tokens.

    Where a phrase is longer than that, it is entered again every half of `max_match` tokens, but only with keys longer
    than that half: so the history is found inside it at any depth.

    Building takes about 2 us and 90 bytes for each token of a phrase.

    Args:
        phrases: Token ids; of equal beginnings the first given is drafted, equal phrases count once.
        min_match: The shortest key, in tokens.
        max_match: The longest key, at most 255.
    """

    def __init__(self, phrases: Iterable[Sequence[int]], min_match: int, max_match: int) -> None:
        self.phrases = list(dict.fromkeys(tuple(phrase) for phrase in phrases))
        self.min_match = min_match
        self.max_match = max_match
        self._tokens = array("i")
        self._lengths = array("B")  # of each key, as are counts and ends: the library stores 32 bits a key
        self._counts = array("i")
        self._ends = array("i")
        self._automaton = ahocorasick.Automaton(ahocorasick.STORE_INTS, ahocorasick.KEY_SEQUENCE)
        for phrase in self.phrases:
            self._add(phrase)
        self._automaton.make_automaton()

    def _add(self, phrase: tuple[int, ...]) -> None:
        start = len(self._tokens)
        self._tokens.extend(phrase)
        self._tokens.append(SEPARATOR)
        phrase_symbols = symbols(phrase)
        for offset, length in self._keys(len(phrase)):
            key = phrase_symbols[2 * offset : 2 * (offset + length)]
            number = self._automaton.get(key, None)
            if number is None:
                number = len(self._ends)
                self._automaton.add_word(key, number)
                self._lengths.append(length)
                self._counts.append(0)
                self._ends.append(start + offset + length)
            self._counts[number] += offset == 0

    def _keys(self, phrase_length: int) -> Iterator[tuple[int, int]]:
        """Yields offset and length of each key; after it at least one token of the phrase is left."""
        step = max(self.max_match // 2, 1)
        for offset in range(0, phrase_length, step):
            shortest = self.max_match - step + 1 if offset else self.min_match
            for length in range(shortest, min(self.max_match, phrase_length - offset - 1) + 1):
                yield offset, length

    def reader(self) -> PhraseReader | None:
        """Returns a reader at the beginning of a history; None if there is no key to find."""
        return PhraseReader(self._automaton) if len(self._automaton) else None

    def beginning(self, number: int) -> Beginning:
        """Returns what a reader found."""
        return Beginning(self._lengths[number], self._counts[number], self._ends[number])

    def continuation(self, beginning: Beginning, max_k: int) -> list[int]:
        """Returns the tokens of the phrase after a beginning, at most `max_k`."""
        token_ids = self._tokens[beginning.end : beginning.end + max_k]
        return token_ids[: token_ids.index(SEPARATOR)].tolist() if SEPARATOR in token_ids else token_ids.tolist()

    def shares(self, beginning: Beginning, num_tokens: int) -> list[float]:
        """Returns, for each of the next tokens, the share of the phrases up to there that go on with it.

        Past `max_match` tokens phrases are not told apart, and the share is 1. Where a phrase ends, others may end with
        it; it is taken for the only one.
        """
        shares: list[float] = []
        count = beginning.count
        for length in range(beginning.length + 1, beginning.length + num_tokens + 1):
            if count > 1 and length <= self.max_match:
                end = beginning.end - beginning.length + length
                number = self._automaton.get(symbols(self._tokens[end - length : end]), None)
                next_count = 1 if number is None else max(self._counts[number], 1)
                shares.append(next_count / count)
                count = next_count
            else:
                shares.append(1.0)
        return shares


class PhraseReader:
    """Follows one history through the automaton.

    Attributes:
        found: The number of the longest key that the history ends with; None if there is none.
    """

    def __init__(self, automaton: ahocorasick.Automaton) -> None:
        self._search = automaton.iter(())
        self.found: int | None = None

    def feed(self, tokens: Sequence[int], *, afresh: bool = False) -> None:
        """Reads more of the history, or begins with `tokens` if `afresh`; there is at least one.

        All keys found are taken, since the library would give those left over as found in the next tokens.
        """
        self._search.set(symbols(tokens[:-1]), afresh)
        for _ in self._search:
            pass
        self._search.set(symbols(tokens[-1:]), False)
        numbers = [number for _, number in self._search]  # of the longest key first
        self.found = numbers[0] if numbers else None
