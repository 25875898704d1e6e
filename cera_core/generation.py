"""What a generation gives: its tokens as they come, and the whole when it has ended."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import InvalidInputError
from cera_core.speculation.finish import FinishReason
from cera_core.speculation.sampling import log_softmax
from cera_core.speculation.stats import SpecStats

if TYPE_CHECKING:
    from cera_core.model import Logits


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities at one position, of the model's own distribution before any option acts on it.

    Attributes:
        token_id: The emitted token.
        logprob: Its log-probability.
        top: The likeliest tokens with theirs, best first; as many as `logprobs` asked for.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Token:
    """An emitted token.

    Attributes:
        token_id: The token.
        text: The text that became certain with it; may be empty, or hold text of tokens before it.
        from_draft: Whether a drafter guessed it and the model agreed.
        drafter: The drafter's name.
        logprobs: If they were asked for.
    """

    token_id: int
    text: str
    from_draft: bool = False
    drafter: str | None = None
    logprobs: TokenLogprobs | None = None


@dataclass(frozen=True, slots=True)
class Generation:
    """What a generation gave.

    Attributes:
        text: Cut before a stop string. Together the texts of a stream's tokens.
        token_ids: With a stop string, up to the token that completes it.
        finish_reason: `stop`, `max_tokens`, `context_full`, `cancelled` or `error`.
        stats: What was counted.
        logprobs: For each token, if they were asked for.
        seed: With which the same options give the same text again; None if it was greedy.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    stats: SpecStats
    logprobs: list[TokenLogprobs] | None = None
    seed: int | None = None


class TokenStream(Iterator[Token]):
    """The tokens of a generation as they come.

    Closing it, or dropping it, ends the generation; the session goes on from the last token that was handed out.
    """

    def __init__(self, tokens: Generator[Token, None, None], outcome: Outcome) -> None:
        self._tokens = tokens
        self._outcome = outcome

    def __next__(self) -> Token:
        return next(self._tokens)

    def close(self) -> None:
        """Ends the generation here; `generation` then says `cancelled`."""
        self._tokens.close()

    @property
    def generation(self) -> Generation:
        """The whole result, once the stream has ended.

        Raises:
            InvalidInputError: It has not ended.
        """
        if self._outcome.generation is None:
            raise InvalidInputError("'generation' is there when the stream has ended; read or close it first.")
        return self._outcome.generation


@dataclass(slots=True)
class Outcome:
    """A generation while it runs; `generation` is there when it has ended."""

    stats: SpecStats
    seed: int | None
    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprobs] | None = None
    generation: Generation | None = None

    def add(self, token: Token) -> None:
        """Notes an emitted token."""
        self.token_ids.append(token.token_id)
        self.texts.append(token.text)
        if self.logprobs is not None and token.logprobs is not None:
            self.logprobs.append(token.logprobs)

    def finish(self, reason: FinishReason) -> None:
        """Makes the result."""
        self.generation = Generation("".join(self.texts), self.token_ids, reason, self.stats, self.logprobs, self.seed)


def token_logprobs(row: Logits, token_id: int, num_top: int | None) -> TokenLogprobs | None:
    """Returns the log-probabilities at one position; None if `num_top` is.

    Args:
        row: float32[vocab_size], the logits the token was chosen from.
        token_id: The token.
        num_top: How many of the likeliest tokens to name.
    """
    if num_top is None:
        return None
    logprobs = log_softmax(row)
    best = np.lexsort((np.arange(len(row)), -logprobs))[:num_top] if num_top else ()
    top = tuple((int(best_id), float(logprobs[best_id])) for best_id in best)
    return TokenLogprobs(token_id, float(logprobs[token_id]), top)
