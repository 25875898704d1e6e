"""Shows every call of a hook, one line each on standard error, for the author of a plugin who wonders what happens.

It is asked for by `CERA_TRACE_PLUGINS=1`, and costs nothing otherwise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cera_core.foreign_errors import error_line

if TYPE_CHECKING:
    import pluggy

MAX_ARGUMENT_LENGTH = 60
"""Characters of an argument that are shown."""


def trace_hook_calls(manager: pluggy.PluginManager) -> None:
    """Lets every call of a hook through this manager be shown when it returns."""
    began = threading.local()

    def before(hook: str, implementations: Sequence[Any], arguments: Mapping[str, object]) -> None:
        began.at = [*getattr(began, "at", []), perf_counter()]

    def after(outcome: Any, hook: str, implementations: Sequence[Any], arguments: Mapping[str, object]) -> None:
        milliseconds = 1e3 * (perf_counter() - began.at.pop())
        shown = ", ".join(f"{name}={_shortened(value)}" for name, value in arguments.items())
        failed = f" raised {error_line(outcome.exception)}" if outcome.exception else ""
        for implementation in implementations:
            call = f"{implementation.plugin_name}: {hook}({shown})"
            sys.stderr.write(f"trace: {call}{failed} in {milliseconds:.3f} ms\n")

    manager.add_hookcall_monitoring(before, after)


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_ARGUMENT_LENGTH else f"{text[: MAX_ARGUMENT_LENGTH - 3]}..."
