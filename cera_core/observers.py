"""Plugins that watch: called when they are there, harmless when they fail."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cera_core.foreign_errors import let_interrupt_through
from cera_core.origins import with_package

if TYPE_CHECKING:
    import pluggy

    from cera_core.specs import GenerationEvent, RoundEvent

_log = logging.getLogger("cera")


class Observers:
    """The observers among the plugins. One that raises is named in the log once and not called again."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._of_rounds = _callers(manager, "cera_round_finished")
        self._of_generations = _callers(manager, "cera_generation_finished")

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
        self._of_rounds = [caller for caller in self._of_rounds if _is_well(caller, round=event)]

    def generation_finished(self, event: GenerationEvent) -> None:
        """Tells of a generation."""
        self._of_generations = [caller for caller in self._of_generations if _is_well(caller, generation=event)]


def _callers(manager: pluggy.PluginManager, hook: str) -> list[pluggy.HookCaller]:
    """Returns a caller for each plugin that implements a hook, so that one which fails does not cost the others."""
    implementations = getattr(manager.hook, hook).get_hookimpls()
    everybody = manager.get_plugins()
    return [manager.subset_hook_caller(hook, everybody - {found.plugin}) for found in implementations]


def _is_well(caller: pluggy.HookCaller, **event: object) -> bool:
    """Calls an observer; one that raises is named in the log."""
    try:
        caller(**event)
    except BaseException as error:
        let_interrupt_through(error)
        (implementation,) = caller.get_hookimpls()
        name = with_package(implementation.plugin_name, implementation.function)
        _log.warning("The observer %s failed and is not called again.", name, exc_info=True)
        return False
    return True
