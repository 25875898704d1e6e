"""A model that a test holds up in the middle of a generation."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from cera_core.model import InferenceState
from cera_core.testing.fakes import TableModel


class Gate(TableModel):
    """Waits at one forward until the test lets it go on."""

    def __init__(self, num_before: int) -> None:
        super().__init__(max_batch=16)
        self.num_before = num_before
        self.is_reached = threading.Event()
        self.may_go_on = threading.Event()

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Any:
        if len(self.forward_sizes) == self.num_before:
            self.is_reached.set()
            assert self.may_go_on.wait(10)
        return super().forward_all(token_ids, state)
