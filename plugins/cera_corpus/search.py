"""Finds where the end of a history occurs in a corpus.

The places where the last token stands are neighbours in the order of a corpus, among them those where the last two
stand, and so on: so binary searches narrow one interval. Values come from a file that is not checked, so they are taken
as any integers: an index may be refused (`IndexError`), but every loop ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from cera_core.drafting.corpora.file import Corpus


class Match(NamedTuple):
    """A suffix of the history, and where it ends in a corpus.

    Attributes:
        corpus: The corpus.
        length: How many tokens match.
        low: Where in the order of the corpus the places begin.
        high: Where they end.
    """

    corpus: Corpus
    length: int
    low: int
    high: int

    def places(self, max_places: int) -> list[int]:
        """Returns the places where it ends; of more than `max_places` that many, evenly chosen."""
        count = self.high - self.low
        if count <= max_places:
            return self.corpus.order[self.low : self.high].tolist()
        return [self.corpus.order[self.low + number * count // max_places] for number in range(max_places)]


def find_matches(corpus: Corpus, history_end: list[int]) -> list[Match]:
    """Finds suffixes of a history, the longest last; a shorter one is there only where it occurs more often.

    Args:
        corpus: Where to look.
        history_end: The last tokens of the history, at most `MAX_MATCH` and at least one.

    Raises:
        IndexError: The corpus is damaged.
    """
    tokens, order = corpus.tokens, corpus.order
    token = history_end[-1]
    if token >= corpus.header.vocab_size:
        return []
    low, high = corpus.bounds[token], corpus.bounds[token + 1]
    if not 0 <= low <= high <= len(order):
        raise IndexError
    matches: list[Match] = []
    length = 1
    while low < high:
        if length < len(history_end):
            first, last = order[low], order[high - 1]  # what matches at both matches all through the interval
            if tokens[first - length] == history_end[-1 - length] == tokens[last - length]:
                num_matching = _num_matching(corpus, first, history_end)
                if last != first:
                    num_matching = min(num_matching, _num_matching(corpus, last, history_end))
                length = max(length, num_matching)
        matches.append(Match(corpus, length, low, high))
        if length == len(history_end) or high - low == 1:
            break
        token, back = history_end[-1 - length], length
        low = bisect_left(order, token, low, high, key=lambda place: tokens[place - back])
        high = bisect_right(order, token, low, high, key=lambda place: tokens[place - back])
        length += 1
    return matches


def _num_matching(corpus: Corpus, place: int, history_end: list[int]) -> int:
    """Returns how many tokens that end at a place match."""
    own = corpus.tokens[max(place + 1 - len(history_end), 0) : place + 1].tolist()
    if own == history_end:
        return len(own)
    length = 0
    for token, wanted in zip(reversed(own), reversed(history_end), strict=False):
        if token != wanted:
            break
        length += 1
    return length
