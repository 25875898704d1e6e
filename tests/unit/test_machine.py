"""Readings of the machine are plausible, or None where the system gives none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cera_core import machine


def test_processor_has_a_name_and_there_is_at_least_one() -> None:
    assert machine.processor_name()
    assert machine.num_usable_processors() >= 1


def test_bandwidth_is_that_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_BANDWIDTH_SECONDS", 0.01)
    assert 1e8 < machine.memory_bandwidth() < 1e13


def test_waiting_never_shrinks_and_is_none_where_it_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = machine.seconds_waited(), machine.seconds_waited()
    if first is not None and second is not None:
        assert 0 <= first <= second
    monkeypatch.setattr(Path, "glob", lambda self, pattern: iter(()))
    assert machine.seconds_waited() is None
