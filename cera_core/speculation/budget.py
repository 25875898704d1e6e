"""How many tokens to draft now: costs measured, acceptance learned.

A draft of d tokens turns a step of one row into a round of 1 + d rows. It is worth its cost when the tokens it is
expected to bring, by the second, are more than those of any shorter draft, none included:

    (1 + q1 + q1 q2 + ... + q1..qd) / cost(1 + d)

where q_i is the chance that the model agrees with the i-th token given that it agreed with those before it. On a
batch-invariant backend the budget changes the speed only, never the text. It knows nothing of models or drafters.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cera_core.generation_options import DEFAULT_MAX_DRAFT_TOKENS, GenerationOptions
from cera_core.speculation.costs import RoundCosts

if TYPE_CHECKING:
    from cera_core.drafter import Draft

_DECAY = 0.98  # of what was learned of acceptance, by each token: the last 50 count
_PRIOR_WEIGHT = 4.0  # tokens that the first guess of an acceptance is worth
_DISTRUST = 2  # the power of a confidence that is taken for a chance until experience says otherwise
_MATCH_LENGTHS = (1, 2, 3, 4, 6, 9, 17)  # buckets begin here
_PRIOR_ACCEPTANCE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of no match length, then of each bucket
_UNNOTICED_SECONDS = 1e-3  # a drafter that takes less is never called slow, however fast the model is
_ASKING_SHARE = 0.01  # of a plain step: what asking a drafter may cost while it does not pay


class Acceptance:
    """How often the model agrees with a draft token, by what the drafter says of it.

    That is the token's confidence where the drafter has one, else the match length of the draft.
    """

    def __init__(self) -> None:
        self._num_agreed: dict[tuple[str, int], float] = {}
        self._num_judged: dict[tuple[str, int], float] = {}

    def chances(self, draft: Draft) -> list[float]:
        """Returns for each token the chance that it is accepted given that those before it were."""
        return [
            self._num_agreed[key] / self._num_judged[key] if key in self._num_judged else prior
            for key, prior in _keys_and_priors(draft)
        ]

    def learn(self, draft: Draft, num_agreed: int) -> None:
        """Learns from a draft that agreed with the text in its first `num_agreed` tokens."""
        for position, (key, prior) in enumerate(_keys_and_priors(draft)[: num_agreed + 1]):
            self._num_judged[key] = self._num_judged.get(key, _PRIOR_WEIGHT) * _DECAY + 1
            self._num_agreed[key] = self._num_agreed.get(key, _PRIOR_WEIGHT * prior) * _DECAY + (position < num_agreed)


class DraftBudget:
    """Decides for one session, round by round, whether to ask the drafter and how much of its draft to verify.

    What was drafted and then not verified is compared with the text that came instead, so acceptance is learned while
    the gate is closed, at no cost: that is what opens it again.

    Args:
        options: `adaptive`, and `max_draft_tokens` as the fixed or largest number of tokens.
        costs: What a forward costs.
        acceptance: What was learned of the drafter before.
        suggested_k: What the drafter suggests where `max_draft_tokens` is not given.

    Attributes:
        max_draft_tokens: The most tokens to ask for.
        chances: Of the tokens of this round's draft, each given those before it; empty where nothing was decided.
        steps: What forwards of one row and more would have cost in this round, likewise.
    """

    def __init__(
        self, options: GenerationOptions, costs: RoundCosts, acceptance: Acceptance, suggested_k: int | None = None
    ) -> None:
        asked_for = (options.max_draft_tokens, suggested_k, DEFAULT_MAX_DRAFT_TOKENS)
        self.max_draft_tokens = next(number for number in asked_for if number is not None)
        self.chances: Sequence[float] = ()
        self.steps: Sequence[float] = ()
        self._is_adaptive = options.adaptive
        self._costs = costs
        self._acceptance = acceptance
        self._seconds_to_ask = 0.0
        self._seconds_saved = 0.0
        self._num_rounds_to_wait = 0
        self._unverified: Draft | None = None
        self._num_matched = 0
        self._position = 0

    def begin_round(self, position: int) -> None:
        """Begins a round whose forward finds `position` tokens in the cache, on which its cost depends."""
        self._position = position
        self.chances = self.steps = ()

    def num_wanted(self) -> int:
        """Returns how many tokens to ask the drafter for; 0 while asking would cost more than it brings."""
        if self._num_rounds_to_wait > 0:
            self._num_rounds_to_wait -= 1
            return 0
        return self.max_draft_tokens

    @property
    def why_none_wanted(self) -> str:
        """Why `num_wanted` was 0."""
        return "asking the drafter costs more than it brings" if self.max_draft_tokens else "'max_draft_tokens' is 0"

    def num_to_verify(self, draft: Draft) -> int:
        """Returns how many tokens of a draft to verify: those that make tokens come fastest."""
        if not self._is_adaptive:
            return len(draft.token_ids)
        steps = self._costs.steps(1 + len(draft.token_ids), self._position)
        if steps is None:
            return 0  # every cost is judged by that of a plain step: take one
        self.chances, self.steps = self._acceptance.chances(draft), steps
        best, best_rate = 0, 1.0
        expected, chance = 1.0, 1.0
        for num_tokens, acceptance in enumerate(self.chances, start=1):
            chance *= acceptance
            expected += chance
            rate = expected / steps[num_tokens]
            if rate > best_rate:
                best, best_rate = num_tokens, rate
        if best == 0 and self._unverified is None:
            self._unverified, self._num_matched = draft, 0
        return best

    def observe_asked(self, seconds: float) -> None:
        """Learns what asking the drafter took, and waits if that is much for what it brings."""
        self._seconds_to_ask += (seconds - self._seconds_to_ask) * 0.2 if self._seconds_to_ask else seconds
        self._seconds_saved *= 0.95
        step = self._costs.seconds_of_a_step(self._position)
        if self._is_adaptive and step and self._seconds_saved < self._seconds_to_ask:
            self._num_rounds_to_wait = math.ceil(self._seconds_to_ask / (_ASKING_SHARE * step)) - 1

    def is_too_slow(self, seconds: float) -> bool:
        """Says whether a guess took longer than a plain step, while drafting does not bring that back."""
        step = self._costs.seconds_of_a_step(self._position)
        if not (self._is_adaptive and step):
            return False
        return seconds > max(step, _UNNOTICED_SECONDS) and seconds > self._seconds_saved

    def observe_forward(self, num_rows: int, seconds: float) -> None:
        """Learns what a forward took."""
        self._costs.observe(num_rows, seconds, self._position)

    def observe_round(self, draft: Draft, num_agreed: int, seconds: float) -> None:
        """Learns what the model made of a draft, in the time the round took."""
        self._acceptance.learn(draft, num_agreed)
        step = self._costs.seconds_of_a_step(self._position)
        if step:
            self._seconds_saved += 0.05 * ((1 + num_agreed) * step - seconds)

    def observe_token(self, token_id: int) -> None:
        """Compares a committed token with the draft that was not verified."""
        if self._unverified is None:
            return
        draft = self._unverified
        if draft.token_ids[self._num_matched] == token_id:
            self._num_matched += 1
            if self._num_matched < len(draft.token_ids):
                return
        self._acceptance.learn(draft, self._num_matched)
        self._unverified = None


def _keys_and_priors(draft: Draft) -> Sequence[tuple[tuple[str, int], float]]:
    """Returns for each token what its acceptance is learned under, and a first guess."""
    if draft.confidences is not None:
        return [(("confidence", round(10 * confidence)), confidence**_DISTRUST) for confidence in draft.confidences]
    bucket = 0 if draft.match_length is None else bisect_left(_MATCH_LENGTHS, draft.match_length + 1)
    return [(("match length", bucket), _PRIOR_ACCEPTANCE[bucket])] * len(draft.token_ids)
