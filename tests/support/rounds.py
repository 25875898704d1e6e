"""What the rounds of a session were, as an observer plugin is told."""

from __future__ import annotations

import pluggy

from cera_core.hookspecs import PROJECT_NAME, ObserverHooks, hookimpl
from cera_core.observers import Observers
from cera_core.specs import GenerationEvent, RoundEvent


class RoundLog:
    """An observer that keeps what it is told; `observers` goes to a session."""

    def __init__(self) -> None:
        self.rounds: list[RoundEvent] = []
        self.generations: list[GenerationEvent] = []
        manager = pluggy.PluginManager(PROJECT_NAME)
        manager.add_hookspecs(ObserverHooks)
        manager.register(self)
        self.observers = Observers(manager)

    @hookimpl
    def cera_round_finished(self, round: RoundEvent) -> None:  # noqa: A002
        self.rounds.append(round)

    @hookimpl
    def cera_generation_finished(self, generation: GenerationEvent) -> None:
        self.generations.append(generation)
