"""Turns of tests that run in several processes: most share the machine, one that measures time has it to itself."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """Two locks that all processes know: a room for one who is alone or many who are not, and the door to it.

    Who wants to be alone waits in the door, so that nobody else goes in meanwhile; else he might wait for ever.

    Args:
        folder: Where the locks are; the same for all processes.
    """

    def __init__(self, folder: Path) -> None:
        self._door = (folder / "door").open("w")
        self._room = (folder / "room").open("w")

    def close(self) -> None:
        """Gives up both."""
        self._door.close()
        self._room.close()

    @contextmanager
    def turn(self, *, alone: bool) -> Iterator[None]:
        """Waits until the machine can be shared, or is there for one alone."""
        fcntl.flock(self._door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self._room, fcntl.LOCK_UN)
