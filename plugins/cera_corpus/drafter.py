"""The drafter: what most often followed the longest match in one of several corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from cera_core.drafter import NO_DRAFT, Draft, Drafter
from cera_core.drafting.confidence import copy_confidence
from cera_core.drafting.corpora.file import Corpus
from cera_core.drafting.corpora.ordering import MAX_MATCH, SEPARATOR
from cera_core.errors import InvalidInputError
from cera_corpus.search import Match, find_matches

MAX_PLACES = 16
"""Places that are looked at: what a draft costs, however often something occurs."""


class CorpusDrafter(Drafter):
    """Drafts what followed the longest suffix of the history that occurs in a corpus.

    The draft goes on, token by token, with what followed most often. It holds nothing of a session: each draft looks
    up the last tokens anew, which costs the same at any length of history.

    Args:
        corpora: Where to look; on a tie the first wins. Clones share them.
        min_match: The fewest tokens that must match, 1 or more.
        tokens_per_match: How many tokens to draft for each token that matches, at least one in all.
    """

    def __init__(self, corpora: Sequence[Corpus], min_match: int = 2, tokens_per_match: float = 1.0) -> None:
        self.corpora = corpora
        self._min_match = min_match
        self._tokens_per_match = tokens_per_match

    def clone(self) -> CorpusDrafter:
        """Makes a drafter for another session, with the same corpora."""
        return CorpusDrafter(self.corpora, self._min_match, self._tokens_per_match)

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        """Drafts from the longest match that something follows.

        Raises:
            InvalidInputError: A file was written over or is damaged.
        """
        history_end = list(tokens[-MAX_MATCH:])
        if max_k < 1 or not history_end:
            return NO_DRAFT
        found = [match for corpus in self.corpora for match in _matches(corpus, history_end)]
        found.sort(key=lambda match: -match.length)
        for match in found:
            if match.length < self._min_match:
                break
            max_length = max(int(min(self._tokens_per_match * match.length, max_k)), 1)  # the product may be inf
            draft = _continued(match, max_length)
            if draft.token_ids:
                return draft
        return NO_DRAFT


def _matches(corpus: Corpus, history_end: list[int]) -> list[Match]:
    if not corpus.is_whole():
        raise InvalidInputError(f"Corpus '{corpus.path}' was written over while in use. Load the model again.")
    try:
        return find_matches(corpus, history_end)
    except IndexError as error:
        raise _damaged(corpus) from error


def _continued(match: Match, max_length: int) -> Draft:
    """Drafts, one after another, the token that followed most often; of equally frequent ones the first found.

    A separator ends the draft, as does an id that can only come from a damaged file.
    """
    corpus = match.corpus
    confidences: list[float] = []
    try:
        starts = [place + 1 for place in match.places(MAX_PLACES)]
        passages = [corpus.tokens[start : start + max_length].tolist() for start in starts]
        token_ids: list[int] = []
        while len(token_ids) < max_length:
            if passages.count(passages[0]) == len(passages):
                token_ids = passages[0]
                break
            followers = [passage[len(token_ids)] for passage in passages]
            counts = Counter(followers)
            del counts[SEPARATOR]  # which is allowed where there is none
            if not counts:
                break
            ((token_id, count),) = counts.most_common(1)
            confidences.append(copy_confidence(match.length + len(token_ids), count / len(passages), len(passages)))
            token_ids.append(token_id)
            agreeing = [number for number, follower in enumerate(followers) if follower == token_id]
            passages = [passages[number] for number in agreeing]
            starts = [starts[number] for number in agreeing]
        token_ids = list(takewhile(range(corpus.header.vocab_size).__contains__, token_ids))
        source = corpus.source(starts[0], starts[0] + len(token_ids))
    except IndexError as error:
        raise _damaged(corpus) from error
    confidences += [
        copy_confidence(match.length + place, 1.0, len(passages)) for place in range(len(confidences), len(token_ids))
    ]
    return Draft(token_ids, confidences[: len(token_ids)], match.length, source)


def _damaged(corpus: Corpus) -> InvalidInputError:
    return InvalidInputError(
        f"Corpus '{corpus.path}' is damaged. 'cera corpus info' checks it; build it with 'cera corpus build'."
    )
