"""What to do with whatever foreign code raises: a plugin, a backend, a template.

It knows nothing of who called that code; the caller decides what the error costs.
"""

from __future__ import annotations

from cera_core.errors import CeraError

MAX_QUOTED_LENGTH = 300
"""Characters of a foreign message that are quoted: enough for a reason, not for the data that is at fault."""


def let_interrupt_through(error: BaseException) -> None:
    """Raises a Ctrl-C again. Anything else that a plugin raises stays with the plugin, whatever its class.

    `SystemExit`, a panic of a Rust extension and a cancelled task are no `Exception`, yet no reason to stop a run.
    """
    if isinstance(error, KeyboardInterrupt):
        raise error


def error_line(error: BaseException) -> str:
    """Returns an error on one line, to be quoted in ours; one of our own needs no class name and is quoted whole."""
    try:
        text = " ".join(str(error).split())
    except BaseException as error_in_error:  # it cannot even say what it is
        let_interrupt_through(error_in_error)
        text = ""
    if isinstance(error, CeraError):
        return text
    return f"{type(error).__name__}: {text[:MAX_QUOTED_LENGTH]}".rstrip(": ")
