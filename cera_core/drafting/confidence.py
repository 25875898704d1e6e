"""How sure a drafter may be that text goes on as it did before; knows nothing of how the match was found."""

from __future__ import annotations

from collections.abc import Iterable

DOUBT = 4.0
"""How many occurrences the doubt left by each matching token is worth; fitted to answers of a 1.5B model."""
OCCURRENCES_OF_A_GIVEN_TEXT = 4
"""What a place in a text counts for that somebody gave because the answer will be like it; chosen, not fitted."""
MIN_CHANCE = 0.05
"""A token less likely than this, those before it included, is worth its cost on no backend measured."""


def copy_confidence(match_length: int, share: float, num_occurrences: int) -> float:
    """Estimates the chance that the next token is the one that followed an earlier match.

    That is the share of the occurrences that went on with it, less a doubt: of no match at all nothing is known, and
    each token that matches leaves `DOUBT / (num_occurrences + DOUBT)` of the doubt before it. It is the estimate of a
    chain of Dirichlet priors, each the estimate of a context one token shorter (MacKay and Peto, "A hierarchical
    Dirichlet language model", Natural Language Engineering 1, 1995), where all contexts have the same occurrences.

    Args:
        match_length: Number of tokens that match, 1 or more.
        share: The share of the earlier occurrences that went on this way, in 0..1.
        num_occurrences: How many there are, 1 or more.
    """
    return share * (1 - (DOUBT / (num_occurrences + DOUBT)) ** match_length)


def num_worth_drafting(confidences: Iterable[float]) -> int:
    """Returns how many tokens stand before the first whose chance, those before it included, is below `MIN_CHANCE`."""
    chance = 1.0
    num_tokens = 0
    for confidence in confidences:
        chance *= confidence
        if chance < MIN_CHANCE:
            break
        num_tokens += 1
    return num_tokens
