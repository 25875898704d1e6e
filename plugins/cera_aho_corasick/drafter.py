"""The drafter: the rest of the phrase inside which the history ends."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from cera_aho_corasick.index import PhraseIndex
from cera_aho_corasick.phrases import save_phrases
from cera_core.drafter import NO_DRAFT, Draft, IncrementalDrafter
from cera_core.drafting.confidence import OCCURRENCES_OF_A_GIVEN_TEXT, copy_confidence


class AhoCorasickDrafter(IncrementalDrafter):
    """Drafts the rest of the phrase with whose beginning the history ends; of several the longest beginning wins.

    A token costs amortised constant time, whatever the number of phrases. Only the last `max_match` tokens matter, so a
    history that was cut costs no more than to feed those again.

    Args:
        index: The compiled phrases; clones share it.
        tokenizer_fingerprint: Names the tokenizer of the phrases, for `save`.
    """

    def __init__(self, index: PhraseIndex, tokenizer_fingerprint: str | None = None) -> None:
        super().__init__()
        self._index = index
        self._tokenizer_fingerprint = tokenizer_fingerprint
        self._reader = index.reader()

    def clone(self) -> AhoCorasickDrafter:
        """Makes a drafter without a session; the phrases are shared."""
        return AhoCorasickDrafter(self._index, self._tokenizer_fingerprint)

    def reset(self) -> None:
        """Forgets the session, not the phrases."""
        super().reset()
        self._reader = self._index.reader()

    def extend(self, new_tokens: Sequence[int]) -> None:
        """Reads the new tokens, or as many as matter."""
        if self._reader is None:
            return
        if len(new_tokens) < self._index.max_match:
            self._reader.feed(new_tokens)
        else:
            self._reader.feed(new_tokens[-self._index.max_match :], afresh=True)

    def truncate(self, length: int) -> bool:
        """Reads again the last tokens that stay."""
        if self._reader is not None:
            self._reader.feed(self.history[max(length - self._index.max_match, 0) : length], afresh=True)
        return True

    def propose(self, max_k: int) -> Draft:
        """Drafts the rest of the phrase."""
        if self._reader is None or self._reader.found is None:
            return NO_DRAFT
        match = self._index.beginning(self._reader.found)
        token_ids = self._index.continuation(match, max_k)
        shares = self._index.shares(match, len(token_ids))
        return Draft(
            token_ids,
            confidences=[
                copy_confidence(length, share, OCCURRENCES_OF_A_GIVEN_TEXT)
                for length, share in enumerate(shares, start=match.length)
            ],
            match_length=match.length,
            source=f"phrases[{match.end}:{match.end + len(token_ids)}]",
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the tokenised phrases to a file, for the option `compiled`.

        Raises:
            InvalidInputError: The file cannot be written.
        """
        save_phrases(Path(path), self._index.phrases, self._tokenizer_fingerprint)
