"""Texts that are known before the session, in one automaton that all sessions share; it is never changed once made."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from cera_suffix_automaton.automaton import NO_STATE, ROOT, SuffixAutomaton
from cera_suffix_automaton.match import Match

SEPARATOR = -1  # no token has this id, so no match goes past the end of a text


class Corpus:
    """Named texts, as token ids.

    About 2 us and 180 bytes a token, once.

    Args:
        texts: Pairs of a name for people and token ids.
        min_match: The shortest match of use.
    """

    def __init__(self, texts: Iterable[tuple[str, Sequence[int]]], min_match: int) -> None:
        self.tokens = array("i")
        self._names: list[str] = []
        self._starts: list[int] = []
        for name, token_ids in texts:
            self._names.append(name)
            self._starts.append(len(self.tokens))
            self.tokens.extend(token_ids)
            self.tokens.append(SEPARATOR)
        self.automaton = SuffixAutomaton(min_match)
        self.automaton.extend(self.tokens)
        self.automaton.settle(0)

    def place(self, start: int, stop: int) -> str:
        """Says, for people, where a span of `tokens` stands."""
        text = bisect_right(self._starts, start) - 1
        return f"{self._names[text]}[{start - self._starts[text]}:{stop - self._starts[text]}]"


class CorpusReader:
    """Follows a session and knows the longest suffix of its history that occurs in the corpus.

    A token costs amortised constant time: each step to a link shortens the match, and each token lengthens it by one.
    """

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self._state = ROOT
        self._length = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Reads more of the session."""
        automaton = self.corpus.automaton
        for token in tokens:
            target = automaton.step(self._state, token)
            while target == NO_STATE and self._state != ROOT:
                self._state = automaton.link(self._state)
                self._length = automaton.length(self._state)
                target = automaton.step(self._state, token)
            if target != NO_STATE:
                self._state = target
                self._length += 1

    def match(self) -> Match:
        """Returns the match; its length is 0 if there is none."""
        return Match(self.corpus.automaton, self.corpus.tokens, self._state, self._length, self.corpus.place)
