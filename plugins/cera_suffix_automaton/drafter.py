"""The drafter: what followed the longest match, in the session's own history or in a corpus."""

from __future__ import annotations

from collections.abc import Sequence

from cera_core.drafter import NO_DRAFT, Draft, IncrementalDrafter
from cera_suffix_automaton.automaton import SuffixAutomaton
from cera_suffix_automaton.corpus import Corpus, CorpusReader
from cera_suffix_automaton.match import Match, Occurrence


class SuffixAutomatonDrafter(IncrementalDrafter):
    """Drafts what followed the longest suffix of the history that occurred before.

    Where the corpus has a longer match than the history, it is taken; the history's own is preferred on ties. A history
    that was cut is indexed anew, at the cost of feeding it again.

    Args:
        min_match: The fewest tokens that must match, 1 or more.
        occurrence: Which of several occurrences to continue: the most recent or the earliest; or the most frequent
            continuation, token by token.
        tokens_per_match: How many tokens to draft at most for each token that matches; one more in all.
        corpus: Texts to draft from besides the history.
    """

    def __init__(
        self,
        min_match: int = 1,
        occurrence: Occurrence = "most-recent",
        tokens_per_match: float = 1.0,
        corpus: Corpus | None = None,
    ) -> None:
        super().__init__()
        self._min_match = min_match
        self._occurrence: Occurrence = occurrence
        self._tokens_per_match = tokens_per_match
        self._corpus = corpus
        self._start_session()

    def _start_session(self) -> None:
        self._automaton = SuffixAutomaton(self._min_match)
        self._reader = CorpusReader(self._corpus) if self._corpus else None

    def clone(self) -> SuffixAutomatonDrafter:
        """Makes a drafter without a session; the corpus is shared."""
        return SuffixAutomatonDrafter(self._min_match, self._occurrence, self._tokens_per_match, self._corpus)

    def reset(self) -> None:
        """Forgets the session, not the corpus."""
        super().reset()
        self._start_session()

    def extend(self, new_tokens: Sequence[int]) -> None:
        """Adds tokens to the session's automaton, and follows them in the corpus."""
        self._automaton.extend(new_tokens)
        if self._reader:
            self._reader.extend(new_tokens)

    def propose(self, max_k: int) -> Draft:
        """Drafts from the longest match that something follows."""
        for match in self._matches():
            if match.length >= self._min_match:
                max_length = int(min(self._tokens_per_match * match.length + 1, max_k))  # the product may be inf
                draft = match.draft(self._occurrence, max_length)
                if draft.token_ids:
                    return draft
        return NO_DRAFT

    def _matches(self) -> list[Match]:
        """Returns the matches in history and corpus, the longest first."""
        state = self._automaton.longest_match
        own = Match(self._automaton, self.history, state, self._automaton.length(state), _place_in_history)
        if self._reader is None:
            return [own]
        return sorted((own, self._reader.match()), key=lambda match: -match.length)

    def memory_bytes(self) -> int:
        """Returns the size of the history and its automaton, in bytes; the corpus belongs to no session."""
        return super().memory_bytes() + self._automaton.memory_bytes()

    def check_integrity(self) -> None:
        """Checks the session's automaton, in time linear in the history.

        Raises:
            PluginError: It is damaged.
        """
        self._automaton.check_integrity()


def _place_in_history(start: int, stop: int) -> str:
    return f"history[{start}:{stop}]"
