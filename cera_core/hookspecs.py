"""The hooks a plugin may implement: this file and one drafter plugin are all an author needs to read.

A plugin is a module, named by an entry point of the group `cera`, with functions marked by `hookimpl`:

    from cera_core import Drafter, DrafterSpec, hookimpl

    @hookimpl
    def cera_register_drafters(register):
        register(DrafterSpec(name="my-drafter", summary="Guesses well.", create=lambda options, context: MyDrafter()))

Hooks register and observe. The work is done by the objects they hand over; nothing in the decoding loop calls a hook
except an observer that is really there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import typer

    from cera_core.specs import DrafterSpec, GenerationEvent, ModelSpec, RoundEvent

PROJECT_NAME = "cera"

PLUGIN_API = 1
"""The version of the contracts of plugins. A plugin may say which it is written for: `CERA_PLUGIN_API = 1`."""

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


class DrafterHooks:
    """How drafters come in."""

    @hookspec
    def cera_register_drafters(self, register: Callable[[DrafterSpec], None]) -> None:
        """Calls `register` with a `DrafterSpec` for each drafter the plugin has."""


class ModelHooks:
    """How model backends come in."""

    @hookspec
    def cera_register_models(self, register: Callable[[ModelSpec], None]) -> None:
        """Calls `register` with a `ModelSpec` for each backend the plugin has."""


class ObserverHooks:
    """What a plugin may watch. An exception in an observer is reported once and changes nothing."""

    @hookspec
    def cera_round_finished(self, round: RoundEvent) -> None:  # noqa: A002
        """Is called after each round of the loop."""

    @hookspec
    def cera_generation_finished(self, generation: GenerationEvent) -> None:
        """Is called when a generation has ended, whatever the reason."""


class CommandHooks:
    """How a plugin adds to the command line."""

    @hookspec
    def cera_register_commands(self, app: typer.Typer) -> None:
        """Adds commands to `app`, as `@app.command()` does."""
