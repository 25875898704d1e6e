"""Where a text ends: each emitted token passes through here, and the earliest reason wins.

It knows nothing of drafts: an accepted token and one from a plain step are the same to it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal, Protocol, TypeAlias

FinishReason: TypeAlias = Literal["stop", "max_tokens", "context_full", "cancelled", "error"]


class StreamDecoder(Protocol):
    """Turns ids into text piece by piece, as `ModelTokenizer.stream_decoder` makes it."""

    @property
    def is_pending(self) -> bool:
        """Whether part of a character is held back."""

    def push(self, token_id: int) -> str:
        """Returns the text that is certain now."""

    def flush(self) -> str:
        """Returns the text of what was left undecided."""


class StopText:
    """The text of a generation, watched for stop strings.

    Args:
        decoder: Turns ids into text.
        stops: Texts that end the generation; the text is cut before the first of them.
    """

    def __init__(self, decoder: StreamDecoder, stops: Sequence[str] = ()) -> None:
        self._decoder = decoder
        self._stops = stops
        self._longest_stop = max(map(len, stops), default=0)
        self._pending = ""
        self.has_stopped = False

    def push(self, token_id: int, *, may_stop: bool = True) -> bool:
        """Adds a token; returns whether its text completes a stop string.

        Args:
            token_id: The token.
            may_stop: Whether a stop string counts yet.
        """
        self._pending += self._decoder.push(token_id)
        if may_stop:
            self._cut_at_stop()
        return self.has_stopped

    def take(self) -> str:
        """Returns the text that is decided and was not taken before: what may begin a stop string is held back."""
        num_held = 0 if self.has_stopped else self._num_held()
        cut = len(self._pending) - num_held
        text, self._pending = self._pending[:cut], self._pending[cut:]
        return text

    def finish(self) -> str:
        """Returns the rest of the text; nothing follows that could complete a stop string."""
        if not self.has_stopped:
            self._pending += self._decoder.flush()
            self._cut_at_stop()
        text, self._pending = self._pending, ""
        return text

    @property
    def is_undecided(self) -> bool:
        """Whether text is held back: what may begin a stop string, or part of a character."""
        return bool(self._pending) or (self._decoder.is_pending and not self.has_stopped)

    def _cut_at_stop(self) -> None:
        found = [start for stop in self._stops if (start := self._pending.find(stop)) >= 0]
        if found:
            self._pending = self._pending[: min(found)]
            self.has_stopped = True

    def _num_held(self) -> int:
        """Returns the length of the longest end of the pending text with which a stop string begins."""
        for length in range(min(self._longest_stop - 1, len(self._pending)), 0, -1):
            if any(stop.startswith(self._pending[-length:]) for stop in self._stops):
                return length
        return 0


class FinishRules:
    """When a generation ends.

    Args:
        stop_ids: Tokens that end it; they are not emitted.
        max_tokens: The most tokens to emit.
        min_tokens: Stop strings do not count before this many.
        text: Watched for stop strings, if there are any.
    """

    def __init__(
        self, stop_ids: Collection[int], max_tokens: int, min_tokens: int = 0, text: StopText | None = None
    ) -> None:
        self.stop_ids = frozenset(stop_ids)
        self.max_tokens = max_tokens
        self.num_emitted = 0
        self._min_tokens = min_tokens
        self._text = text

    @property
    def num_left(self) -> int:
        """How many tokens may still be emitted."""
        return self.max_tokens - self.num_emitted

    def after(self, token_id: int) -> FinishReason | None:
        """Counts an emitted token; returns why the text ends with it, if it does."""
        self.num_emitted += 1
        if self._text and self._text.push(token_id, may_stop=self.num_emitted >= self._min_tokens):
            return "stop"
        return "max_tokens" if self.num_left <= 0 else None
