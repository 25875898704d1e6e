"""A clock that a test moves, and a model and drafters that take their time on it, whatever the load."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from cera_core.drafter import Draft, Drafter
from cera_core.model import InferenceState
from cera_core.testing.fakes import ScriptedModel

Cost = Callable[[int], float]
"""Seconds of a forward by its number of rows."""


class Clock:
    """Stands still unless told how long something took."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def replace_everywhere(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes the modules of cera look at this clock."""
        for name, module in list(sys.modules.items()):
            if name.startswith("cera_core") and hasattr(module, "perf_counter"):
                monkeypatch.setattr(module, "perf_counter", self)


class TimedModel(ScriptedModel):
    """Says a script, and takes the time that a cost says."""

    def __init__(self, script: Sequence[int], clock: Clock, cost: Cost, vocab_size: int) -> None:
        super().__init__(script, vocab_size, max_seq_len=len(script))
        self._clock = clock
        self._cost = cost

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Any:
        self._clock.now += self._cost(len(token_ids))
        return super().forward_all(token_ids, state)


class TimedDrafter(Drafter):
    """Takes a time to guess what another drafter guesses."""

    def __init__(self, drafter: Drafter, clock: Clock, seconds: float) -> None:
        self._drafter, self._clock, self._seconds = drafter, clock, seconds
        self.suggested_k = drafter.suggested_k

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft | Sequence[int]:
        self._clock.now += self._seconds
        return self._drafter.draft(tokens, max_k)

    def accept(self, draft: Draft, num_accepted: int) -> None:
        self._drafter.accept(draft, num_accepted)

    def clone(self) -> TimedDrafter:
        return TimedDrafter(self._drafter.clone(), self._clock, self._seconds)
