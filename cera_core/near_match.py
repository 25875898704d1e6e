"""The likely meaning of a name that is not known; knows nothing of where names come from."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ` Did you mean 'x'?` when a known name is near, else nothing; case and kind of dash do not count."""
    by_folded = {_fold(known_name): known_name for known_name in known}
    matches = get_close_matches(_fold(name), by_folded, n=1)
    return f" Did you mean {by_folded[matches[0]]!r}?" if matches else ""


def _fold(name: str) -> str:
    """Makes `Max-Tokens` and `max_tokens` the same."""
    return name.lower().replace("-", "_")
