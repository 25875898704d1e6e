"""Plugins that watch: called when they are there, harmless when they fail."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from cera_core.foreign_errors import let_interrupt_through

if TYPE_CHECKING:
    import pluggy

    from cera_core.specs import GenerationEvent, RoundEvent

_log = logging.getLogger("cera")


class Observers:
    """The observers among the plugins. One that raises is named in the log once and not called again."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._of_rounds = manager.hook.cera_round_finished.get_hookimpls()
        self._of_generations = manager.hook.cera_generation_finished.get_hookimpls()

    @property
    def watch_rounds(self) -> bool:
        """Whether anybody wants to know of rounds."""
        return bool(self._of_rounds)

    @property
    def watch_generations(self) -> bool:
        """Whether anybody wants to know of generations."""
        return bool(self._of_generations)

    def round_finished(self, event: RoundEvent) -> None:
        """Tells of a round."""
        self._of_rounds = _call(self._of_rounds, event)

    def generation_finished(self, event: GenerationEvent) -> None:
        """Tells of a generation."""
        self._of_generations = _call(self._of_generations, event)


def _call(implementations: list[Any], event: object) -> list[Any]:
    """Calls each implementation; returns those that did not raise."""
    sound = []
    for implementation in implementations:
        try:
            implementation.function(*[event for _ in implementation.argnames])
            sound.append(implementation)
        except BaseException as error:
            let_interrupt_through(error)
            _log.warning("The observer %r failed and is not called again.", implementation.plugin_name, exc_info=True)
    return sound
