"""A drafter behind a guard: what it returns is checked, what it raises stays here.

A guess can only save time, so a drafter that breaks its contract costs its guess, is counted and said out loud once;
one that goes on is left alone for the rest of the session. A drafter that never returns, or takes the process down, is
beyond what a process can guard against.
"""

from __future__ import annotations

import logging
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from time import perf_counter
from typing import Any

from cera_core.drafter import NO_DRAFT, Draft, Drafter
from cera_core.foreign_errors import error_line, let_interrupt_through
from cera_core.origins import with_package

MAX_CONSECUTIVE_FAULTS = 3
MANY_SILENT_ROUNDS = 256
"""A drafter that never had a guess in so many rounds of a session is named in the log: perhaps nobody noticed."""
_WHY_NO_GUESS = ("the drafter failed", "the drafter had no guess", "the drafter is quarantined")
_log = logging.getLogger("cera")


class DrafterGroup(Drafter):
    """Drafters that are asked together.

    Attributes:
        members: The drafters, each behind its own guard, so that one that fails does not cost the others.
    """

    members: Sequence[GuardedDrafter]


class GuardedDrafter(Drafter):
    """A drafter of one session whose answers can be used as they are.

    Attributes:
        name: What the drafter is called in stats and messages.
        num_faults: Broken invariants so far, by kind.
        is_quarantined: It broke them too often in a row, and is asked no more until `reset`.
    """

    def __init__(self, name: str, drafter: Drafter, vocab_size: int) -> None:
        self.name = name
        self.suggested_k = _suggested_k(drafter)
        self.num_faults: Counter[str] = Counter()
        self.is_quarantined = False
        self._drafter = drafter
        self._vocab_size = vocab_size
        self._num_consecutive_faults = 0
        self._num_faults_taken: Counter[str] = Counter()
        self._num_slow_guesses = 0
        self._seconds_of_guess = 0.0
        self._num_silent_rounds: int | None = 0  # None once it had a guess

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Asks the drafter; whatever it does, the answer is at most `max_k` ids of the vocabulary."""
        if self.is_quarantined:
            return NO_DRAFT
        num_faults = self.num_faults.total()
        start = perf_counter()
        try:
            draft = self._checked(self._drafter.draft(tokens, max_k), max_k)
        except BaseException as error:
            let_interrupt_through(error)
            self._fault(type(error).__name__, f"failed with {error_line(error)}")
            draft = NO_DRAFT
        self._seconds_of_guess = perf_counter() - start
        self._settle(num_faults)
        if self._num_silent_rounds is not None:
            self._note_silence(draft)
        return draft

    def why_no_guess(self) -> str:
        """Returns why the last draft was empty; of a group the first that holds for one of them."""
        failed, had_none, is_quarantined = _WHY_NO_GUESS
        if self.is_quarantined:
            return is_quarantined
        if self._num_consecutive_faults:
            return failed
        return min((member.why_no_guess() for member in self._members()), key=_WHY_NO_GUESS.index, default=had_none)

    def accept(self, draft: Draft, num_accepted: int) -> None:
        """Passes the feedback on."""
        if self.is_quarantined:
            return
        num_faults = self.num_faults.total()
        try:
            self._drafter.accept(draft, num_accepted)
        except BaseException as error:
            let_interrupt_through(error)
            self._fault(type(error).__name__, f"failed in 'accept' with {error_line(error)}")
            self._settle(num_faults)

    def judge_pace(self, is_too_slow: Callable[[float], bool]) -> None:
        """Ends a drafter whose last few guesses, given in seconds, all took too long; of a group each member by itself.

        A single one may have been the machine's fault, and is none of the drafter.
        """
        for member in self._members():
            member.judge_pace(is_too_slow)
        seconds, self._seconds_of_guess = self._seconds_of_guess, 0.0
        if self._members() or not is_too_slow(seconds):
            self._num_slow_guesses = 0
            return
        self._num_slow_guesses += 1
        if self._num_slow_guesses == MAX_CONSECUTIVE_FAULTS:
            self.num_faults["slow"] += self._num_slow_guesses
            self._quarantine(f"was slower than plain decoding ({1e3 * seconds:.0f} ms a guess)", self._num_slow_guesses)

    def reset(self) -> None:
        """Forgets the session, and gives the drafter another chance."""
        self._num_consecutive_faults = self._num_slow_guesses = 0
        self.is_quarantined = False
        try:
            self._drafter.reset()
        except BaseException as error:
            let_interrupt_through(error)
            self._fault(type(error).__name__, f"failed in 'reset' with {error_line(error)}")
            self.is_quarantined = True

    def clone(self) -> GuardedDrafter:
        """Guards a clone of the drafter; one that cannot be cloned is quarantined from the start."""
        try:
            clone = self._drafter.clone()
            if not isinstance(clone, Drafter):
                raise TypeError(f"'clone' must return a Drafter; it returned {type(clone).__name__}")
        except BaseException as error:
            let_interrupt_through(error)
            guarded = GuardedDrafter(self.name, self._drafter, self._vocab_size)
            guarded._fault(type(error).__name__, f"failed in 'clone' with {error_line(error)}")
            guarded.is_quarantined = True
            return guarded
        return GuardedDrafter(self.name, clone, self._vocab_size)

    def take_new_faults(self) -> dict[str, Counter[str]]:
        """Returns the invariants broken since the last call, by drafter; the members of a group are in it too."""
        new = self.num_faults - self._num_faults_taken
        self._num_faults_taken = self.num_faults.copy()
        taken = {self.name: new}
        for member in self._members():
            taken |= member.take_new_faults()
        return taken

    def memory_bytes(self) -> int:
        """Returns what the drafter says, or 0 where it says nothing of use."""
        try:
            return max(operator.index(self._drafter.memory_bytes()), 0)
        except BaseException as error:
            let_interrupt_through(error)
            return 0

    def _members(self) -> Sequence[GuardedDrafter]:
        return self._drafter.members if isinstance(self._drafter, DrafterGroup) else ()

    def _checked(self, answer: object, max_k: int) -> Draft:
        """Returns the part of an answer that can be used; counts what cannot."""
        draft = answer if isinstance(answer, Draft) else Draft(_as_ids(answer))
        token_ids: list[int] = []
        for token_id in islice(draft.token_ids, max_k + 1):
            if len(token_ids) == max_k:
                self._fault("too_long", f"returned more than the {max_k} tokens asked for")
                break
            value = operator.index(token_id)
            if not 0 <= value < self._vocab_size:
                found = value if value.bit_length() < 64 else "of more than 63 bits"
                self._fault("outside_vocabulary", f"returned the id {found} of a vocabulary of {self._vocab_size}")
                break
            token_ids.append(value)
        return Draft(
            token_ids,
            self._checked_confidences(draft.confidences, len(token_ids)),
            None if draft.match_length is None else operator.index(draft.match_length),
            draft.source if type(draft.source) is str else None,
            draft.drafter if type(draft.drafter) is str else self.name,
        )

    def _checked_confidences(self, confidences: Sequence[float] | None, num_tokens: int) -> list[float] | None:
        if confidences is None:
            return None
        values = [float(confidence) for confidence in islice(confidences, num_tokens)]
        if len(values) == num_tokens and all(0 <= value <= 1 for value in values):
            return values
        self._fault("confidences", f"must give each token a confidence in 0..1, and gave {values!r:.80}")
        return None

    def _fault(self, kind: str, what: str) -> None:
        """Counts a fault, and says the first one out loud."""
        if not self.num_faults:
            _log.warning("The drafter %s %s; the text is not affected.", self._name_and_package(), what)
        self.num_faults[kind] += 1

    def _quarantine(self, why: str, num_times: int) -> None:
        self.is_quarantined = True
        _log.warning(
            "The drafter %s %s %d times in a row and is not asked again in this session.",
            self._name_and_package(),
            why,
            num_times,
        )

    def _name_and_package(self) -> str:
        return with_package(self.name, type(self._drafter))

    def _note_silence(self, draft: Draft) -> None:
        """Says once that a drafter never had a guess."""
        if draft.token_ids or self._num_silent_rounds is None:
            self._num_silent_rounds = None
            return
        self._num_silent_rounds += 1
        if self._num_silent_rounds == MANY_SILENT_ROUNDS:
            _log.warning(
                "The drafter %r had no guess in %d rounds, so it saves nothing; check what it drafts from, or choose "
                "another.",
                self.name,
                MANY_SILENT_ROUNDS,
            )

    def _settle(self, num_faults_before: int) -> None:
        """Quarantines the drafter after too many faults in a row."""
        is_faulty = self.num_faults.total() > num_faults_before
        self._num_consecutive_faults = self._num_consecutive_faults + 1 if is_faulty else 0
        if self._num_consecutive_faults >= MAX_CONSECUTIVE_FAULTS:
            self._quarantine("broke its contract", self._num_consecutive_faults)


def _as_ids(answer: object) -> Any:
    """Returns an answer that is no `Draft` if it can be a sequence of ids at all."""
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise TypeError(f"'draft' must return a Draft or token ids; it returned {type(answer).__name__}")
    return answer


def _suggested_k(drafter: Drafter) -> int | None:
    try:
        value = operator.index(drafter.suggested_k)  # type: ignore[arg-type]  # of None too: that is no number
    except BaseException as error:
        let_interrupt_through(error)
        return None
    return value if value >= 0 else None
