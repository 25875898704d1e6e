"""`prediction=`: a text that the answer will resemble, for instance the file that is being edited.

The answer is followed through the prediction like a finger on a page: as long as it agrees, what comes next is drafted;
after a difference the finger goes to the nearest place that the end of the answer matches best.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from cera_core.drafter import NO_DRAFT, Draft, IncrementalDrafter
from cera_core.drafting.confidence import OCCURRENCES_OF_A_GIVEN_TEXT, copy_confidence

MAX_MATCH = 16
"""Tokens before a place that are compared: more would not make the choice among places any better."""
MAX_PLACES = 32
"""Places that are compared after a difference, the nearest ones: what a token costs, however long the prediction."""
TRUST_AT_START = 4
"""Matching tokens that the beginning of an answer counts for, before it has said anything."""


class PredictionDrafter(IncrementalDrafter):
    """Drafts from a prediction of one answer.

    Args:
        prediction: What the answer will resemble.
        num_prompt_tokens: How many tokens of the history stand before the answer.
    """

    def __init__(self, prediction: Sequence[int], num_prompt_tokens: int) -> None:
        super().__init__()
        self._prediction = list(prediction)
        self._num_prompt_tokens = num_prompt_tokens
        self._places: dict[int, list[int]] = defaultdict(list)
        for place, token_id in enumerate(self._prediction):
            self._places[token_id].append(place + 1)
        self._next = 0
        self._match_length = TRUST_AT_START

    def clone(self) -> PredictionDrafter:
        """Makes a drafter for the same answer."""
        return PredictionDrafter(self._prediction, self._num_prompt_tokens)

    def reset(self) -> None:
        """Puts the finger on the beginning."""
        super().reset()
        self._next = 0
        self._match_length = TRUST_AT_START

    def extend(self, new_tokens: Sequence[int]) -> None:
        """Follows the answer, token by token."""
        for position in range(len(self.history) - len(new_tokens), len(self.history)):
            if position >= self._num_prompt_tokens:
                self._follow(position)

    def propose(self, max_k: int) -> Draft:
        """Drafts what stands after the finger; nothing where the answer has left the prediction."""
        if self._match_length == 0:
            return NO_DRAFT
        token_ids = self._prediction[self._next : self._next + max_k]
        return Draft(
            token_ids,
            confidences=[
                copy_confidence(self._match_length + ahead, 1.0, OCCURRENCES_OF_A_GIVEN_TEXT)
                for ahead in range(len(token_ids))
            ],
            match_length=self._match_length,
            source=f"prediction[{self._next}:{self._next + len(token_ids)}]",
        )

    def memory_bytes(self) -> int:
        """Returns the size of the history, and of the prediction with its index at 16 bytes a token."""
        return super().memory_bytes() + 16 * len(self._prediction)

    def _follow(self, position: int) -> None:
        """Moves the finger behind the token of the answer at `position` of the history."""
        token_id = self.history[position]
        if self._match_length and self._next < len(self._prediction) and self._prediction[self._next] == token_id:
            self._next += 1
            self._match_length += 1
            return
        places = self._nearest_places(token_id)
        lengths = [self._num_matching(position, place) for place in places]
        self._match_length = max(lengths, default=0)
        if self._match_length:
            self._next = places[lengths.index(self._match_length)]

    def _nearest_places(self, token_id: int) -> list[int]:
        """Returns places right behind a token in the prediction, the nearest to the finger first.

        An answer goes on more often than back, so a place before the finger counts as further away.
        """
        places = self._places.get(token_id, [])
        middle = bisect_left(places, self._next)
        near = places[max(middle - MAX_PLACES // 2, 0) : middle + MAX_PLACES // 2]
        return sorted(near, key=lambda place: place - self._next if place >= self._next else 4 * (self._next - place))

    def _num_matching(self, position: int, place: int) -> int:
        """Returns how many tokens of the answer up to `position` agree with the prediction before `place`."""
        most = min(MAX_MATCH, place, position + 1 - self._num_prompt_tokens)
        for length in range(most):
            if self.history[position - length] != self._prediction[place - 1 - length]:
                return length
        return most
