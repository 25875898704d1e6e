"""How sure a drafter may be that text goes on as it did before; knows nothing of how the match was found."""

from __future__ import annotations


def copy_confidence(match_length: int, share: float) -> float:
    """Estimates the chance that the next token is the one that followed an earlier match.

    The formula was fitted to answers of a 1.5B model (docs/explanation/drafters.md): the doubt falls with the number of
    tokens that match, and occurrences that went on in another way count for more than their share.

    Args:
        match_length: Number of tokens that match, 1 or more.
        share: The share of the earlier occurrences that went on this way, in 0..1.
    """
    return share**2 * (1 - 1 / (match_length + 0.5))
