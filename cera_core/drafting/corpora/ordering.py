"""The order in which a corpus is searched: its places, sorted by the tokens that end there, read backwards.

This is the suffix array of Manber and Myers, "Suffix arrays: a new method for on-line string searches" (SIAM Journal
on Computing 22, 1993), of the reversed text. Reversed, because a history is looked up from its end: the places where
its last token stands are neighbours, among them those where its last two tokens stand, and so on.

It knows nothing of documents or files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

TokenArray: TypeAlias = NDArray[np.int32]

MAX_MATCH = 32
"""Tokens by which places are ordered: a longer match would hardly be more certain, and each doubling costs a sort."""
NUM_ROUNDS = MAX_MATCH.bit_length() - 1
SEPARATOR = -1  # no token has this id, so no match goes past the end of a document


def order_by_ends(tokens: TokenArray, on_round: Callable[[int], None] = lambda done: None) -> TokenArray:
    """Sorts the places of `tokens` by the `MAX_MATCH` tokens that end there, the last first; equal ones by place.

    Each round doubles the number of tokens that count (Manber and Myers, section 3), with NumPy's stable sort in place
    of their buckets. Takes about 40 bytes a token.

    Args:
        tokens: The corpus; the first is a separator, so that no end reaches past the beginning.
        on_round: Is told after each round how many are done.

    Returns:
        The places of all tokens but the separators.
    """
    base = max(len(tokens), int(tokens.max(initial=0)) + 2)
    ranks = tokens.astype(np.int64) - SEPARATOR
    order = np.arange(len(tokens))
    for done in range(NUM_ROUNDS):
        length = 1 << done
        keys = ranks * base
        keys[length:] += ranks[:-length]
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        ranks[order] = np.cumsum(np.diff(keys, prepend=keys[0]) != 0)
        on_round(done + 1)
    num_separators = np.count_nonzero(tokens == SEPARATOR)
    return order[num_separators:].astype(np.int32)


def bounds_by_token(tokens: TokenArray, vocab_size: int) -> TokenArray:
    """Returns where in the order the places of each token begin, and at last where those of the last one end."""
    counts = np.bincount(tokens[tokens != SEPARATOR], minlength=vocab_size)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
