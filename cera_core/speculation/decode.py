"""The loop: choose a token, guess what follows, verify, keep what the model agrees with.

Each round commits at least one token, and whatever ends it, the history and the cache end at the same token. It knows
nothing of text, files or plugins' names: those are the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from time import perf_counter
from typing import TYPE_CHECKING

from cera_core.drafter import NO_DRAFT, Draft, Drafter
from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import CeraError, ModelError
from cera_core.specs import RoundEvent
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.context import Context
from cera_core.speculation.finish import FinishReason, FinishRules
from cera_core.speculation.model_guard import call_model
from cera_core.speculation.sampling import Sampler
from cera_core.speculation.stats import SpecStats
from cera_core.speculation.verify import verify_draft

if TYPE_CHECKING:
    from cera_core.model import InferenceState, Logits, Model

_NO_TOKEN = -1
_number = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Emission:
    """An emitted token.

    Attributes:
        token_id: The token.
        row: float32[vocab_size], the logits it was chosen from; valid until the next emission.
        drafter: Name of the drafter that guessed it; None if the model chose it.
        finish_reason: Why the generation ends with it; None if it goes on, or if that is not known yet.
    """

    token_id: int
    row: Logits
    drafter: str | None
    finish_reason: FinishReason | None


class DecodeLoop:
    """One generation in a context.

    Args:
        context: Prompt and emitted tokens, with a cache that has caught up; the loop appends to both.
        sampler: Chooses tokens; the history was pushed to it.
        rules: Say when to end.
        drafter: Guesses, or None.
        budget: Says how much of a guess to verify.
        stats: Counts.
        is_cancelled: Asked before each round and after each token.
        on_round: Is told of each round; None costs nothing.

    Attributes:
        finish_reason: Why the generation ended.
    """

    def __init__(
        self,
        context: Context,
        *,
        sampler: Sampler,
        rules: FinishRules,
        drafter: GuardedDrafter | None,
        budget: DraftBudget,
        stats: SpecStats,
        is_cancelled: Callable[[], bool] = lambda: False,
        on_round: Callable[[RoundEvent], None] | None = None,
    ) -> None:
        self.finish_reason: FinishReason | None = None
        self._context = context
        self._model = context.model
        self._state = context.state
        self._history = context.history
        self._sampler = sampler
        self._rules = rules
        self._drafter = drafter
        self._budget = budget
        self._stats = stats
        self._is_cancelled = is_cancelled
        self._on_round = on_round
        self._num_tentative = 0
        self._guess = NO_DRAFT

    def run(self) -> Generator[Emission, None, None]:
        """Emits tokens until there is a reason to end."""
        start = perf_counter()
        reason: FinishReason | None = None
        try:
            while reason is None:
                reason = self._reason_before_token() or (yield from self._round())
            self.finish_reason = reason
        finally:
            self._stats.total_seconds += perf_counter() - start

    def _reason_before_token(self) -> FinishReason | None:
        if self._is_cancelled():
            return "cancelled"
        if self._rules.num_left <= 0:
            return "max_tokens"
        if self._context.num_left <= 0:
            return "context_full"
        return None

    def _round(self) -> Generator[Emission, None, FinishReason | None]:
        """Emits one chosen token and the draft tokens after it that the model agrees with."""
        row = self._context.next_row
        if row is None:
            raise ModelError("The loop was asked to go on although its state lags behind the history.")
        token_id = self._sampler.choose(row)
        if token_id in self._rules.stop_ids:
            return "stop"
        self._budget.begin_round(len(self._history))
        self._guess = NO_DRAFT
        max_draft, limit = self._max_draft()
        self._context.next_row = None  # until the token is in the cache
        reason = yield from self._emit(token_id, row, drafter=None)
        if reason:
            self._plain_step(token_id, "the text ended", 0.0)
            return reason
        draft, skip_reason, seconds = self._ask(max_draft, limit)
        if self._drafter is None or skip_reason:
            self._plain_step(token_id, skip_reason, seconds)
            return None
        return (yield from self._verify(token_id, draft, self._drafter, seconds))

    def _emit(self, token_id: int, row: Logits, drafter: str | None) -> Generator[Emission, None, FinishReason | None]:
        """Commits a token to everything but the cache."""
        self._history.append(token_id)
        self._sampler.push(token_id)
        self._budget.observe_token(token_id)
        self._stats.num_emitted += 1
        reason = self._rules.after(token_id)
        yield Emission(token_id, row, drafter, reason)
        return reason or ("cancelled" if self._is_cancelled() else None)

    def _max_draft(self) -> tuple[int, str]:
        """Returns the most draft tokens that a round has room for, counted before its first token, and what limits.

        What a state could take back after the draft is appended is not known before, only what it can take back now: in
        a state of two tokens no more than two, so that is the most that is drafted there.
        """
        limits = (
            (self._context.num_left - 1, "the context has no room for a draft"),
            (self._rules.num_left - 1, "the number of tokens wanted has no room for a draft"),
            (self._model.max_batch - 1, "the model takes one token a forward"),
            (self._context.rewind_headroom(), "the model cannot rewind now"),
        )
        return min(limits, key=_number)

    def _ask(self, max_draft: int, limit: str) -> tuple[Draft, str, float]:
        """Returns a draft to verify, or why there is none, and the time that took."""
        reason = why_never(self._model, self._state, self._drafter)
        if self._drafter is None or reason:
            return NO_DRAFT, reason, 0.0
        if max_draft <= 0:
            return NO_DRAFT, limit, 0.0
        num_wanted = min(self._budget.num_wanted(), max_draft)
        if num_wanted <= 0:
            return NO_DRAFT, self._budget.why_none_wanted, 0.0
        start = perf_counter()
        draft = self._drafter.draft(self._history.view(), num_wanted)
        seconds = perf_counter() - start
        self._stats.draft_seconds += seconds
        self._budget.observe_asked(seconds)
        self._drafter.judge_pace(self._budget.is_too_slow)
        if not draft.token_ids:
            return NO_DRAFT, self._drafter.why_no_guess(), seconds
        self._guess = draft
        draft = first_tokens(draft, self._num_up_to_stop(draft.token_ids))
        num_to_verify = self._budget.num_to_verify(draft)
        if num_to_verify == 0:
            return NO_DRAFT, "the guess was not worth its cost", seconds
        return first_tokens(draft, num_to_verify), "", seconds

    def _num_up_to_stop(self, token_ids: Sequence[int]) -> int:
        """Returns how many tokens to keep: nothing is emitted after the first stop token."""
        for num_tokens, token_id in enumerate(token_ids, start=1):
            if token_id in self._rules.stop_ids:
                return num_tokens
        return len(token_ids)

    def _plain_step(self, token_id: int, skip_reason: str, draft_seconds: float) -> None:
        start = perf_counter()
        self._context.next_row = self._context.forward([token_id])
        seconds = perf_counter() - start
        self._budget.observe_forward(1, seconds)
        self._stats.count_plain_step(skip_reason, seconds)
        self._tell(1, NO_DRAFT, 0, skip_reason, draft_seconds, seconds)

    def _verify(
        self, token_id: int, draft: Draft, drafter: GuardedDrafter, draft_seconds: float
    ) -> Generator[Emission, None, FinishReason | None]:
        """Verifies a draft, then replays what was accepted through the same finish logic as any other token."""
        num_before = len(self._history)  # with the chosen token, which the verification appends to the cache
        start = perf_counter()
        result = verify_draft(self._model, self._state, token_id, draft.token_ids, self._choose_after)
        seconds = perf_counter() - start
        self._pop_tentative()
        num_agreed = len(result.accepted)
        self._budget.observe_forward(1 + len(draft.token_ids), seconds)
        self._budget.observe_round(draft, num_agreed, seconds)
        drafter.accept(draft, num_agreed)
        reason: FinishReason | None = None
        try:
            for row, accepted_id in zip(result.rows, result.accepted, strict=False):
                if accepted_id in self._rules.stop_ids:
                    reason = "stop"
                    break
                reason = yield from self._emit(accepted_id, row, draft.drafter)
                if reason:
                    break
        finally:  # also when the consumer closes the stream in the middle
            num_kept = len(self._history) - num_before
            call_model(self._model.truncate, self._state, len(self._history))
            self._context.next_row = result.rows[num_kept]
            self._stats.count_round(
                draft.drafter or drafter.name, len(draft.token_ids), num_kept, seconds, self._budget.step_seconds
            )
            self._tell(1 + num_kept, draft, num_kept, "", draft_seconds, seconds)
        return reason

    def _choose_after(self, row: Logits, accepted: Sequence[int]) -> int:
        """Chooses a token after the history and the draft tokens accepted so far, pushing the newest of them.

        A row that nothing can be chosen from agrees with no draft token. The error is left to the next round, which
        meets the row when the tokens before it are emitted, as a plain step would.
        """
        if accepted:
            self._sampler.push(accepted[-1])
            self._num_tentative += 1
        try:
            return self._sampler.choose(row)
        except CeraError:
            return _NO_TOKEN

    def _pop_tentative(self) -> None:
        for _ in range(self._num_tentative):
            self._sampler.pop()
        self._num_tentative = 0

    def _tell(
        self,
        num_tokens: int,
        draft: Draft,
        num_accepted: int,
        skip_reason: str,
        draft_seconds: float,
        verify_seconds: float,
    ) -> None:
        """Tells the observer of a round, if there is one."""
        if self._on_round is None:
            return
        position = len(self._history) - num_tokens
        self._on_round(
            RoundEvent(
                position=position,
                token_ids=tuple(self._history.view()[position:]),
                num_drafted=len(draft.token_ids),
                num_accepted=num_accepted,
                drafter=draft.drafter,
                source=draft.source,
                skip_reason=skip_reason or None,
                guess=self._guess if self._guess.token_ids else None,
                chances=tuple(self._budget.chances),
                steps=tuple(self._budget.steps),
                step_seconds=self._budget.step_seconds,
                draft_seconds=draft_seconds,
                verify_seconds=verify_seconds,
            )
        )


def why_never(model: Model, state: InferenceState, drafter: Drafter | None) -> str:
    """Returns why nothing can be drafted on this model and state at all; empty if it can."""
    if drafter is None:
        return "no drafter was asked for"
    return why_not_verified(model) or ("the state is compressed" if state.is_compressed else "")


def why_not_verified(model: Model) -> str:
    """Returns why no draft can be verified on any state of this model; empty if it can."""
    if not model.supports_all_logits:
        return "the model gives logits for the last token only"
    if not model.supports_rewind:
        return "the model cannot rewind"
    if model.max_batch < 2:
        return "the model takes one token a forward"
    return ""


def first_tokens(draft: Draft, num_tokens: int) -> Draft:
    """Returns the first tokens of a draft."""
    if num_tokens >= len(draft.token_ids):
        return draft
    confidences = draft.confidences[:num_tokens] if draft.confidences is not None else None
    return replace(draft, token_ids=draft.token_ids[:num_tokens], confidences=confidences)


def count_faults(stats: SpecStats, drafter: GuardedDrafter) -> None:
    """Adds the new broken invariants to the stats, which then name each drafter that was there, silent ones too."""
    for name, num_faults in drafter.take_new_faults().items():
        stats.drafter(name).num_faults += num_faults
