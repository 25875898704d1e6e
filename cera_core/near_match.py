"""The likely meaning of a name that is not known. It knows nothing of where names come from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(name: str, known: Iterable[str], what: str = "known names") -> str:
    """Says in half a sentence which known name was probably meant, else which there are.

    Args:
        name: The name that was not found.
        known: The names there are.
        what: What the names are called, in the plural.
    """
    names = sorted(known)
    by_folded = {_fold(known_name): known_name for known_name in names}
    close = get_close_matches(_fold(name), by_folded, n=1)
    if close:
        return f"did you mean {by_folded[close[0]]!r}?"
    return f"the {what} are {', '.join(names)}." if names else f"there are no {what}."


def _fold(name: str) -> str:
    """Makes `Max-Tokens` and `max_tokens` the same."""
    return name.lower().replace("-", "_")
