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
from statistics import median
from typing import TYPE_CHECKING

from cera_core.generation_options import DEFAULT_MAX_DRAFT_TOKENS, GenerationOptions

if TYPE_CHECKING:
    from cera_core.drafter import Draft

PRIOR_COST_OF_A_ROW = 0.12
"""What one more row costs, in single steps, until it was measured."""
_NUM_SAMPLES = 7
_MAX_SAMPLE_AGE = 512  # rounds; after that a cost is guessed from its neighbours again, so one bad sample cannot stay
_DECAY = 0.98  # of what was learned of acceptance, by each token: the last 50 count
_PRIOR_WEIGHT = 4.0  # tokens that the first guess of an acceptance is worth
_DISTRUST = 2  # the power of a confidence that is taken for a chance until experience says otherwise
_MATCH_LENGTHS = (1, 2, 3, 4, 6, 9, 17)  # buckets begin here
_PRIOR_ACCEPTANCE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of no match length, then of each bucket
_UNNOTICED_SECONDS = 1e-3  # a drafter that takes less is never called slow, however fast the model is
_ASKING_SHARE = 0.01  # of a plain step: what asking a drafter may cost while it does not pay


class RoundCosts:
    """Measured time of a forward by its number of rows; shared by the sessions of one model.

    The cost of a row count is the median of its recent samples. What was not measured lies on the line through its
    neighbours; where only one count was measured, a further row costs `PRIOR_COST_OF_A_ROW` of the first.
    """

    def __init__(self) -> None:
        self._samples: dict[int, tuple[tuple[int, float], ...]] = {}
        self._medians: dict[int, tuple[int, float]] = {}
        self._num_observed = 0

    def observe(self, num_rows: int, seconds: float) -> None:
        """Adds a sample."""
        self._num_observed += 1
        oldest = self._num_observed - _MAX_SAMPLE_AGE
        recent = [sample for sample in self._samples.get(num_rows, ()) if sample[0] >= oldest]
        samples = (*recent[1 - _NUM_SAMPLES :], (self._num_observed, seconds))
        self._samples[num_rows] = samples
        self._medians[num_rows] = self._num_observed, median(seconds for _, seconds in samples)

    def table(self) -> dict[int, float]:
        """Returns seconds by row count, of what was measured lately, in the order of the counts."""
        oldest = self._num_observed - _MAX_SAMPLE_AGE
        return {num_rows: seconds for num_rows, (when, seconds) in sorted(self._medians.items()) if when >= oldest}

    def steps(self, max_rows: int) -> list[float] | None:
        """Returns what forwards of 1 to `max_rows` rows cost, in plain steps; None until a plain step was measured."""
        table = self.table()
        if 1 not in table:
            return None
        return [self._seconds(num_rows, table) / table[1] for num_rows in range(1, max_rows + 1)]

    @property
    def seconds_of_a_step(self) -> float | None:
        """What a plain step took lately; None if that was not measured."""
        when, seconds = self._medians.get(1, (-_MAX_SAMPLE_AGE, 0.0))
        return seconds if when >= self._num_observed - _MAX_SAMPLE_AGE else None

    @staticmethod
    def _seconds(num_rows: int, table: dict[int, float]) -> float:
        if num_rows in table:
            return table[num_rows]
        measured = list(table)
        if len(measured) == 1:
            return table[measured[0]] * (1 + PRIOR_COST_OF_A_ROW * (num_rows - measured[0]))
        index = min(max(bisect_left(measured, num_rows), 1), len(measured) - 1)
        low, high = measured[index - 1], measured[index]
        per_row = max((table[high] - table[low]) / (high - low), 0.0)
        return table[low] + per_row * (num_rows - low)


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
    """

    def __init__(
        self, options: GenerationOptions, costs: RoundCosts, acceptance: Acceptance, suggested_k: int | None = None
    ) -> None:
        asked_for = (options.max_draft_tokens, suggested_k, DEFAULT_MAX_DRAFT_TOKENS)
        self.max_draft_tokens = next(number for number in asked_for if number is not None)
        self._is_adaptive = options.adaptive
        self._costs = costs
        self._acceptance = acceptance
        self._seconds_to_ask = 0.0
        self._seconds_saved = 0.0
        self._num_rounds_to_wait = 0
        self._unverified: Draft | None = None
        self._num_matched = 0

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
        steps = self._costs.steps(1 + len(draft.token_ids))
        if steps is None:
            return 0  # every cost is judged by that of a plain step: take one
        best, best_rate = 0, 1.0
        expected, chance = 1.0, 1.0
        for num_tokens, acceptance in enumerate(self._acceptance.chances(draft), start=1):
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
        step = self._costs.seconds_of_a_step
        if self._is_adaptive and step and self._seconds_saved < self._seconds_to_ask:
            self._num_rounds_to_wait = math.ceil(self._seconds_to_ask / (_ASKING_SHARE * step)) - 1

    def is_too_slow(self, seconds: float) -> bool:
        """Says whether a guess took longer than a plain step, while drafting does not bring that back."""
        step = self._costs.seconds_of_a_step
        if not (self._is_adaptive and step):
            return False
        return seconds > max(step, _UNNOTICED_SECONDS) and seconds > self._seconds_saved

    def observe_forward(self, num_rows: int, seconds: float) -> None:
        """Learns what a forward took."""
        self._costs.observe(num_rows, seconds)

    def observe_round(self, draft: Draft, num_agreed: int, seconds: float) -> None:
        """Learns what the model made of a draft, in the time the round took."""
        self._acceptance.learn(draft, num_agreed)
        step = self._costs.seconds_of_a_step
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
