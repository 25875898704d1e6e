"""How often the model agrees with draft tokens, learned of each drafter; knows nothing of what a forward costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

from cera_core.drafter import Draft

_Key: TypeAlias = tuple[str | None, str, int]

_DECAY = 0.98  # of what was learned, by each token: the last 50 count
_PRIOR_WEIGHT = 10.0  # tokens that the first guess of an acceptance is worth
_MATCH_LENGTHS = (1, 2, 3, 4, 6, 9, 17)  # buckets begin here
_PRIOR_ACCEPTANCE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of no match length, then of each bucket


class Acceptance:
    """How often the model agrees with a draft token, by its drafter and what that says of it.

    That is the token's confidence where the drafter has one, else the match length of the draft.
    """

    def __init__(self) -> None:
        self._num_agreed: dict[_Key, float] = {}
        self._num_judged: dict[_Key, float] = {}

    def chances(self, draft: Draft) -> list[float]:
        """Returns for each token the chance that it is accepted given that those before it were."""
        return [
            self._num_agreed[key] / self._num_judged[key] if key in self._num_judged else prior
            for key, prior in _keys_and_priors(draft)
        ]

    def expected(self, draft: Draft) -> float:
        """Returns how many tokens of a draft the model is expected to agree with."""
        expected, chance = 0.0, 1.0
        for acceptance in self.chances(draft):
            chance *= acceptance
            expected += chance
        return expected

    def learn(self, draft: Draft, num_agreed: int, num_known: int | None = None) -> None:
        """Learns from a draft that agreed with the text in its first `num_agreed` tokens.

        Args:
            draft: The draft.
            num_agreed: How many of its tokens were right; the next, if it is known, was wrong.
            num_known: For how many of its tokens it is known whether they were right; None for up to the first wrong.
        """
        for position, (key, prior) in enumerate(_keys_and_priors(draft)[: num_agreed + 1][:num_known]):
            self._num_judged[key] = self._num_judged.get(key, _PRIOR_WEIGHT) * _DECAY + 1
            self._num_agreed[key] = self._num_agreed.get(key, _PRIOR_WEIGHT * prior) * _DECAY + (position < num_agreed)


def _keys_and_priors(draft: Draft) -> Sequence[tuple[_Key, float]]:
    """Returns for each token what its acceptance is learned under, and a first guess."""
    if draft.confidences is not None:
        return [((draft.drafter, "confidence", round(10 * chance)), chance) for chance in draft.confidences]
    bucket = 0 if draft.match_length is None else bisect_left(_MATCH_LENGTHS, draft.match_length + 1)
    return [((draft.drafter, "match length", bucket), _PRIOR_ACCEPTANCE[bucket])] * len(draft.token_ids)
