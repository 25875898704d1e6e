"""What a generation gives: its tokens as they come, and the whole when it has ended."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from cera_core.errors import InvalidInputError
from cera_core.speculation.finish import FinishReason
from cera_core.speculation.sampling import likeliest, log_softmax
from cera_core.speculation.stats import SpecStats

if TYPE_CHECKING:
    from cera_core.model import Logits
    from cera_core.specs import RoundEvent
    from cera_core.speculation.decode import DecodeLoop
    from cera_core.speculation.finish import StopText


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities at one position, of the model's own distribution before any option acts on it.

    Attributes:
        token_id: The emitted token.
        logprob: Its log-probability.
        top: The likeliest tokens with theirs, best first, the lowest id on a tie; as many as `logprobs` asked for,
            fewer where the others are impossible.
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
        rounds: What was guessed, decided and spent in each round, if `explain` asked for it.
    """

    text: str
    token_ids: list[int]
    finish_reason: FinishReason
    stats: SpecStats
    logprobs: list[TokenLogprobs] | None = None
    seed: int | None = None
    rounds: list[RoundEvent] | None = None


class TokenStream(Iterator[Token]):
    """The tokens of a generation as they come.

    Closing it, or dropping it, ends the generation; the session goes on from the last token that was handed out. A
    `with` statement closes it whatever happens inside.
    """

    def __init__(self, tokens: Generator[Token, None, None], outcome: Outcome) -> None:
        self._tokens = tokens
        self._outcome = outcome

    def __next__(self) -> Token:
        return next(self._tokens)

    def close(self) -> None:
        """Ends the generation here; `generation` then says `cancelled`, unless it had ended by itself."""
        self._tokens.close()
        if self._outcome.generation is None:  # it was never begun
            self._outcome.finish_reason = "cancelled"
            self._outcome.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def generation(self) -> Generation:
        """The whole result, once the stream has ended.

        Raises:
            InvalidInputError: It has not ended.
        """
        if self._outcome.generation is None:
            raise InvalidInputError("'generation' is there when the stream has ended; read or close it first.")
        return self._outcome.generation


def collected(stream: TokenStream) -> Generation:
    """Reads a stream to its end and returns the whole."""
    for _ in stream:
        pass
    return stream.generation


@dataclass(slots=True)
class Outcome:
    """A generation while it runs: what was handed out, and `generation` when it has ended."""

    stats: SpecStats
    seed: int | None
    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprobs] | None = None
    rounds: list[RoundEvent] | None = None
    finish_reason: FinishReason = "error"
    generation: Generation | None = None
    paused_seconds: float = 0.0

    def hand_out(self, token: Token) -> Generator[Token, None, None]:
        """Notes a token and yields it; the time the consumer takes is no part of the generation."""
        self.token_ids.append(token.token_id)
        self.texts.append(token.text)
        if self.logprobs is not None and token.logprobs is not None:
            self.logprobs.append(token.logprobs)
        start = perf_counter()
        try:
            yield token
        finally:
            self.paused_seconds += perf_counter() - start

    def finish(self) -> None:
        """Makes the result."""
        self.stats.num_emitted = len(self.token_ids)
        self.generation = Generation(
            "".join(self.texts), self.token_ids, self.finish_reason, self.stats, self.logprobs, self.seed, self.rounds
        )


def handed_out(
    loop: DecodeLoop, text: StopText | None, num_logprobs: int | None, outcome: Outcome
) -> Generator[Token, None, None]:
    """Runs the loop and hands out its tokens; one whose text is not certain yet waits for the next.

    Args:
        loop: Emits.
        text: What the loop's rules push the tokens to; None without a tokenizer.
        num_logprobs: How many alternatives to name; None for no log-probabilities.
        outcome: Notes what was handed out.
    """
    waiting: Token | None = None
    emissions = loop.run()
    try:
        for emission in emissions:
            if waiting:
                yield from outcome.hand_out(waiting)
            waiting = Token(
                emission.token_id,
                text.take() if text else "",
                emission.drafter is not None,
                emission.drafter,
                token_logprobs(emission.row, emission.token_id, num_logprobs),
            )
            if not (emission.finish_reason or (text and text.is_undecided)):
                token, waiting = waiting, None
                yield from outcome.hand_out(token)
    finally:
        emissions.close()
        outcome.stats.total_seconds -= outcome.paused_seconds
    outcome.finish_reason = loop.finish_reason or "error"
    if waiting:
        rest = text.finish() if text else ""
        yield from outcome.hand_out(replace(waiting, text=waiting.text + rest))


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
    top = tuple((int(best_id), float(logprobs[best_id])) for best_id in likeliest(logprobs, num_top))
    return TokenLogprobs(token_id, float(logprobs[token_id]), top)
