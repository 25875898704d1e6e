"""Prompt lookup: what followed the last few tokens the last time they occurred.

The method is Apoorv Saxena's (https://github.com/apoorvumang/prompt-lookup-decoding, 2023). `prompt_lookup` says in a
few lines what is drafted; `PromptLookupDrafter` finds the same without searching the history.

It is also the example of a drafter plugin: options, a drafter, and a hook that hands over a `DrafterSpec`; the
package's entry point in the group `cera` names this module. It knows nothing of text, models or sessions.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from sys import getsizeof

from pydantic import Field, model_validator

from cera_core import Draft, DrafterContext, DrafterSpec, IncrementalDrafter, InvalidInputError, PluginOptions, hookimpl
from cera_core.drafter import NO_DRAFT
from cera_core.drafting.confidence import copy_confidence

DEFAULT_NGRAM_MAX = 4
DEFAULT_NGRAM_MIN = 2
LARGEST_NGRAM_MAX = 255
"""There is an index for each n-gram length, in memory as in time."""
MAX_OCCURRENCES_COMPARED = 8
MAX_MATCH_COUNTED = 32


def prompt_lookup(tokens: Sequence[int], ngram: int, max_k: int) -> list[int]:
    """Returns what followed the most recent earlier occurrence of the last `ngram` tokens, by plain search.

    Args:
        tokens: The history.
        ngram: Number of tokens to look up.
        max_k: The most tokens to return; fewer where the history ends before.

    Returns:
        The draft; empty if there is no earlier occurrence, or if `ngram` or `max_k` is 0.
    """
    if ngram < 1 or max_k < 1:
        return []
    pattern = list(tokens[-ngram:])
    for start in range(len(tokens) - ngram - 1, -1, -1):
        if list(tokens[start : start + ngram]) == pattern:
            return list(tokens[start + ngram : start + ngram + max_k])
    return []


class PromptLookupOptions(PluginOptions):
    """Options of `prompt-lookup`."""

    ngram_max: int = Field(
        DEFAULT_NGRAM_MAX,
        ge=0,
        le=LARGEST_NGRAM_MAX,
        description="Look up this many tokens at the end of the history first; 0 never drafts.",
    )
    ngram_min: int = Field(
        default_factory=lambda validated: min(DEFAULT_NGRAM_MIN, validated.get("ngram_max", DEFAULT_NGRAM_MIN)),
        ge=0,
        description=f"Without a match look up fewer, down to this many (by default {DEFAULT_NGRAM_MIN}, or ngram_max "
        "if that is less).",
    )

    @model_validator(mode="after")
    def _min_is_at_most_max(self) -> PromptLookupOptions:
        if self.ngram_min > self.ngram_max:
            raise ValueError(
                f"'ngram_min' must be at most 'ngram_max', found {self.ngram_min} and {self.ngram_max}; "
                "lower the one or raise the other"
            )
        return self


class NgramIndex:
    """For each position of a history, where the `ngram` tokens that end there had ended before."""

    def __init__(self, ngram: int) -> None:
        self.ngram = ngram
        self.previous_ends = array("i")  # -1 if never
        self._last_ends: dict[bytes, int] = {}

    def extend(self, history: array[int]) -> None:
        """Enters the positions that are new in `history`."""
        for end in range(len(self.previous_ends), len(history)):
            key = self._key(history, end)
            self.previous_ends.append(self._last_ends.get(key, -1))
            self._last_ends[key] = end

    def truncate(self, history: array[int], length: int) -> None:
        """Takes back the positions from `length` on, the last one first."""
        while len(self.previous_ends) > length:
            previous_end = self.previous_ends.pop()
            key = self._key(history, len(self.previous_ends))
            if previous_end < 0:
                del self._last_ends[key]
            else:
                self._last_ends[key] = previous_end

    def ends_before(self, end: int, limit: int) -> list[int]:
        """Returns where the tokens that end at `end` had ended before, the most recent first, at most `limit`."""
        ends: list[int] = []
        while len(ends) < limit and (end := self.previous_ends[end]) >= 0:
            ends.append(end)
        return ends

    def memory_bytes(self) -> int:
        """Returns the size in bytes: of the two containers, and of a key and a position for each entry."""
        entry = getsizeof(bytes(4 * self.ngram)) + getsizeof(len(self.previous_ends))
        return getsizeof(self.previous_ends) + getsizeof(self._last_ends) + entry * len(self._last_ends)

    def _key(self, history: array[int], end: int) -> bytes:
        """Returns the tokens that end at `end`; bytes take less memory than a tuple."""
        return history[max(end + 1 - self.ngram, 0) : end + 1].tobytes()


class PromptLookupDrafter(IncrementalDrafter):
    """Prompt lookup for the longest n-gram, from `ngram_max` tokens down to `ngram_min`, that occurred before.

    A token costs two dictionary accesses for each n-gram length, however long the history is, and as much again to
    take back. Memory is bounded by the history: at most about 200 bytes a token for each n-gram length, where no
    n-gram repeats.
    """

    def __init__(self, ngram_max: int = DEFAULT_NGRAM_MAX, ngram_min: int = DEFAULT_NGRAM_MIN) -> None:
        super().__init__()
        if not 0 <= ngram_min <= ngram_max <= LARGEST_NGRAM_MAX:
            raise InvalidInputError(
                f"A prompt-lookup drafter needs 0 <= ngram_min <= ngram_max <= {LARGEST_NGRAM_MAX}, found "
                f"{ngram_min} and {ngram_max}."
            )
        self.ngram_max = ngram_max
        self.ngram_min = ngram_min
        self._indexes = self._new_indexes()

    def _new_indexes(self) -> list[NgramIndex]:
        """Makes empty indexes, that of the longest n-grams first."""
        return [NgramIndex(ngram) for ngram in range(self.ngram_max, max(self.ngram_min, 1) - 1, -1)]

    def clone(self) -> PromptLookupDrafter:
        """Makes an empty drafter with the same options."""
        return PromptLookupDrafter(self.ngram_max, self.ngram_min)

    def reset(self) -> None:
        """Forgets the session."""
        super().reset()
        self._indexes = self._new_indexes()

    def extend(self, new_tokens: Sequence[int]) -> None:
        """Enters the n-grams that end in the new tokens."""
        for index in self._indexes:
            index.extend(self.history)

    def truncate(self, length: int) -> bool:
        """Takes the n-grams back that end at `length` or later."""
        for index in self._indexes:
            index.truncate(self.history, length)
        return True

    def propose(self, max_k: int) -> Draft:
        """Drafts what followed the longest n-gram's most recent earlier occurrence."""
        for index in self._indexes:
            ends = index.ends_before(len(self.history) - 1, MAX_OCCURRENCES_COMPARED) if self.history else []
            if ends:
                return self._draft_after(ends, max_k)
        return NO_DRAFT

    def _draft_after(self, ends: list[int], max_k: int) -> Draft:
        """Drafts what stands after the first of `ends`; the others say how sure that is."""
        start = ends[0] + 1
        token_ids = self.history[start : start + max_k].tolist()
        match_length = self._match_length(ends[0])
        return Draft(
            token_ids,
            confidences=self._confidences(token_ids, ends, match_length),
            match_length=match_length,
            source=f"history[{start}:{start + len(token_ids)}]",
        )

    def _match_length(self, end: int) -> int:
        """Counts the tokens that are the same before `end` and at the end, up to `MAX_MATCH_COUNTED`."""
        history, last = self.history, len(self.history) - 1
        most = min(end + 1, MAX_MATCH_COUNTED)
        differing = (length for length in range(most) if history[end - length] != history[last - length])
        return next(differing, most)

    def _confidences(self, token_ids: list[int], ends: list[int], match_length: int) -> list[float]:
        """Returns for each drafted token the chance that it comes, given that those before it did."""
        confidences: list[float] = []
        for offset, token_id in enumerate(token_ids):
            agreeing = [end for end in ends if self.history[end + 1 + offset] == token_id]
            confidences.append(copy_confidence(match_length + offset, len(agreeing) / len(ends), len(ends)))
            ends = agreeing
        return confidences

    def memory_bytes(self) -> int:
        """Returns the size of the history and its indexes, in bytes."""
        return super().memory_bytes() + sum(index.memory_bytes() for index in self._indexes)


def _create(options: PromptLookupOptions, context: DrafterContext) -> PromptLookupDrafter:
    """Makes the drafter from checked options; it needs nothing of the context."""
    del context
    return PromptLookupDrafter(options.ngram_max, options.ngram_min)


@hookimpl
def cera_register_drafters(register: Callable[[DrafterSpec], None]) -> None:
    """Hands `prompt-lookup` over to cera."""
    register(
        DrafterSpec(
            name="prompt-lookup",
            summary="What followed the last few tokens the last time they occurred.",
            options=PromptLookupOptions,
            create=_create,
        )
    )
