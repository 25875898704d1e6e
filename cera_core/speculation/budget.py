"""How many tokens to draft now: costs measured, acceptance learned.

A draft of d tokens turns a step of one row into a round of 1 + d rows. It is worth its cost when the tokens it is
expected to bring, by the second, are more than those of any shorter draft, none included:

    (1 + q1 + q1 q2 + ... + q1..qd) / cost(1 + d)

where q_i is the chance that the model agrees with the i-th token given that it agreed with those before it. On a
batch-invariant backend the budget changes the speed only, never the text. It knows nothing of models or drafters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cera_core.drafting.acceptance import Acceptance
from cera_core.generation_options import DEFAULT_MAX_DRAFT_TOKENS, GenerationOptions
from cera_core.speculation.costs import RoundCosts

if TYPE_CHECKING:
    from cera_core.drafter import Draft

_UNNOTICED_SECONDS = 1e-3  # a drafter that takes less is never called slow, however fast the model is
_ASKING_SHARE = 0.01  # of a plain step: what asking a drafter may cost while it does not pay


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
        self._was_asked = False
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

    @property
    def step_seconds(self) -> float | None:
        """What a plain step of this round's context takes; None if that was not measured lately."""
        return self._costs.seconds_of_a_step(self._position)

    def observe_asked(self, seconds: float) -> None:
        """Learns what asking the drafter took, and waits if that is much for what it brings.

        The first time does not count: the drafter read the prompt, which it has to do once however often it is asked.
        """
        if not self._was_asked:
            self._was_asked = True
            return
        self._seconds_to_ask += (seconds - self._seconds_to_ask) * 0.2 if self._seconds_to_ask else seconds
        self._seconds_saved *= 0.95
        step = self.step_seconds
        if self._is_adaptive and step and self._seconds_saved < self._seconds_to_ask:
            self._num_rounds_to_wait = math.ceil(self._seconds_to_ask / (_ASKING_SHARE * step)) - 1

    def is_too_slow(self, seconds: float) -> bool:
        """Says whether a guess took longer than a plain step, while drafting does not bring that back."""
        step = self.step_seconds
        if not (self._is_adaptive and step):
            return False
        return seconds > max(step, _UNNOTICED_SECONDS) and seconds > self._seconds_saved

    def observe_forward(self, num_rows: int, seconds: float) -> None:
        """Learns what a forward took."""
        self._costs.observe(num_rows, seconds, self._position)

    def observe_round(self, draft: Draft, num_agreed: int, seconds: float) -> None:
        """Learns what the model made of a draft, in the time the round took."""
        self._acceptance.learn(draft, num_agreed)
        step = self.step_seconds
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
