"""A match of the end of the history with an earlier place, and the draft that follows from it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Literal

from cera_core.drafter import Draft
from cera_core.drafting.confidence import copy_confidence, num_worth_drafting
from cera_suffix_automaton.automaton import NO_STATE, SuffixAutomaton

Occurrence = Literal["most-recent", "most-frequent", "earliest"]


@dataclass(frozen=True, slots=True)
class Match:
    """The longest suffix of the history that occurs in a text.

    Attributes:
        automaton: The automaton of the text.
        text: The tokens of the text; a negative one ends a part, and no draft goes past it.
        state: The state of the automaton that stands for the suffix.
        length: The number of its tokens.
        place: Says, for people, where a span of `text` stands.
    """

    automaton: SuffixAutomaton
    text: array[int]
    state: int
    length: int
    place: Callable[[int, int], str]

    def draft(self, occurrence: Occurrence, max_k: int) -> Draft:
        """Drafts what followed the suffix in the text."""
        self.automaton.settle(self.length)
        if occurrence == "most-frequent":
            token_ids, end = self._most_frequent(max_k)
        else:
            ends = self.automaton.latest_end if occurrence == "most-recent" else self.automaton.earliest_end
            end = ends(self.state)
            token_ids = self._tokens_after(end, max_k)
        confidences = self._confidences(token_ids)
        num_tokens = num_worth_drafting(confidences)
        return Draft(
            token_ids[:num_tokens],
            confidences=confidences[:num_tokens],
            match_length=self.length,
            source=self.place(end + 1, min(end + 1 + num_tokens, len(self.text))),
        )

    def _tokens_after(self, end: int, max_k: int) -> list[int]:
        """Returns the tokens after position `end`, up to the end of its part of the text.

        Where that is the place that is drafted for, what was copied follows once more: the text has come into a period.
        """
        token_ids = self.text[end + 1 : end + 1 + max_k].tolist()
        for place, token_id in enumerate(token_ids):
            if token_id < 0:
                return token_ids[:place]
        return list(islice(cycle(token_ids), max_k)) if len(token_ids) < max_k else token_ids

    def _most_frequent(self, max_k: int) -> tuple[list[int], int]:
        """Drafts, one after another, the token that followed most often; of equally frequent ones the first seen.

        Each costs a look at all that followed.

        Returns:
            The tokens, and the position before their earliest occurrence after the suffix.
        """
        state, token_ids = self.state, []
        for _ in range(max_k):
            followers = (follower for follower in self.automaton.transitions(state) if follower[0] >= 0)
            best = max(followers, key=lambda follower: self.automaton.count(follower[1]), default=None)
            if best is None:
                break
            token_ids.append(best[0])
            state = best[1]
        return token_ids, self.automaton.earliest_end(state) - len(token_ids)

    def _confidences(self, token_ids: Sequence[int]) -> list[float]:
        """Returns for each token the chance that it comes, from the share of the occurrences that went on with it."""
        automaton = self.automaton
        confidences: list[float] = []
        state, count = self.state, automaton.count(self.state)
        for match_length, token_id in enumerate(token_ids, start=self.length):
            num_agreeing = 1
            if count > 1:  # else there is no other way to go on than the one taken
                state = automaton.step(state, token_id)
                num_agreeing = automaton.count(state) if state != NO_STATE else 1
            confidences.append(copy_confidence(match_length, num_agreeing / count, count))
            count = num_agreeing
        return confidences
