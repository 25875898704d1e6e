"""What tests of sessions share: a prompt, plain runs to compare with, and costs that do not depend on the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cera_core.generation import Generation
from cera_core.session import Session
from cera_core.speculation.costs import RoundCosts
from cera_core.testing.fakes import TableModel

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0]
"""As long as the longest draft, which a shorter history would not leave room to rewind."""


class CheapRows(RoundCosts):
    """Costs that make verifying pay, whatever the machine is doing."""

    def __init__(self) -> None:
        super().__init__()
        super().observe(1, 1.0)
        super().observe(16, 1.2)

    def observe(self, num_rows: int, seconds: float, position: int = 0) -> None:
        """Learns nothing."""


def session_of(prompt: Sequence[int] = PROMPT, *, model: TableModel | None = None, **parts: Any) -> Session:
    """Makes a session that holds a prompt."""
    session = Session(model or TableModel(), costs=CheapRows(), **parts)
    if prompt:
        session.append(prompt)
    return session


def plain(prompt: Sequence[int] = PROMPT, *, model: TableModel | None = None, **options: Any) -> Generation:
    """Generates without a drafter in a session of its own."""
    return session_of(prompt, model=model).generate(drafter=None, **options)


def assert_consistent(session: Session) -> None:
    """History and cache end at the same token, and the row is the one after it."""
    context = session._context
    assert context.state.token_ids == session.token_ids
    assert (context.next_row == context.model.row(session.token_ids)).all()
