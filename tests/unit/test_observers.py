"""Plugins that watch: told when they are there, harmless when they fail."""

from __future__ import annotations

import logging
from typing import Any

import pluggy
import pytest

from cera_core.hookspecs import PROJECT_NAME, ObserverHooks, hookimpl
from cera_core.observers import Observers
from cera_core.specs import GenerationEvent, RoundEvent
from cera_core.speculation.stats import SpecStats

ROUND = RoundEvent(
    position=3,
    token_ids=(1, 2),
    num_drafted=4,
    num_accepted=1,
    drafter="echo",
    source=None,
    skip_reason=None,
    draft_seconds=0.1,
    verify_seconds=0.2,
)
GENERATION = GenerationEvent(token_ids=(1, 2), finish_reason="stop", stats=SpecStats())


class Watcher:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl
    def cera_round_finished(self, round: RoundEvent) -> None:  # noqa: A002
        self.seen.append(round)

    @hookimpl
    def cera_generation_finished(self, generation: GenerationEvent) -> None:
        self.seen.append(generation)


class Counter:
    """Wants to know that a round ended, not which."""

    count = 0

    @hookimpl
    def cera_round_finished(self) -> None:
        self.count += 1


class Panic(BaseException):
    """What a Rust extension raises that panics: no `Exception`."""


class Failing(Watcher):
    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.error = error or ValueError("the observer's own")

    @hookimpl
    def cera_round_finished(self, round: RoundEvent) -> None:  # noqa: A002
        super().cera_round_finished(round)
        raise self.error


def observers_of(**plugins: object) -> Observers:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ObserverHooks)
    for name, plugin in plugins.items():
        manager.register(plugin, name)
    return Observers(manager)


def test_nobody_watches_where_there_is_no_observer() -> None:
    observers = observers_of()
    assert (observers.watch_rounds, observers.watch_generations) == (False, False)
    assert (observers_of(counter=Counter()).watch_rounds, observers_of(counter=Counter()).watch_generations) == (
        True,
        False,
    )


def test_every_observer_is_told_and_may_take_no_argument() -> None:
    watcher, counter = Watcher(), Counter()
    observers = observers_of(watcher=watcher, counter=counter)
    observers.round_finished(ROUND)
    observers.generation_finished(GENERATION)
    assert watcher.seen == [ROUND, GENERATION]
    assert counter.count == 1


@pytest.mark.parametrize("error", [ValueError(), SystemExit(3), Panic()], ids=repr)
def test_observer_that_fails_is_named_once_and_not_called_again(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    failing, watcher = Failing(error), Watcher()
    observers = observers_of(watcher=watcher, failing=failing)
    with caplog.at_level(logging.WARNING, "cera"):
        observers.round_finished(ROUND)
        observers.round_finished(ROUND)
        observers.generation_finished(GENERATION)
    assert caplog.messages == ["The observer 'failing' failed and is not called again."]
    assert failing.seen == [ROUND, GENERATION]
    assert watcher.seen == [ROUND, ROUND, GENERATION]


def test_interrupt_by_the_user_is_no_fault_of_the_observer() -> None:
    observers = observers_of(failing=Failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        observers.round_finished(ROUND)


def test_loop_asks_nobody_once_the_last_observer_has_failed() -> None:
    observers = observers_of(failing=Failing())
    observers.round_finished(ROUND)
    assert (observers.watch_rounds, observers.watch_generations) == (False, True)
