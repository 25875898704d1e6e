"""Puts a generation's rounds into words: which token came from whom, what was guessed in vain, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cera_core.generation import Generation, Token
    from cera_core.specs import RoundEvent, Tokenizer


@dataclass(frozen=True, slots=True)
class Round:
    """One round as people read it.

    Attributes:
        number: From 1 on.
        chosen: Text of the token the model chose.
        accepted: Text of the draft tokens that were accepted.
        rejected: Text of the draft tokens that were verified in vain.
        left_out: Text of the guess beyond what was verified.
        drafter: Who guessed; None if nobody did.
        source: Where the guess came from, as the drafter says.
        decision: Why as much was verified as was.
        draft_ms: Milliseconds of drafting.
        verify_ms: Milliseconds of the model.
    """

    number: int
    chosen: str
    accepted: str
    rejected: str
    left_out: str
    drafter: str | None
    source: str | None
    decision: str
    draft_ms: float
    verify_ms: float


def rounds_of(generation: Generation, tokens: Sequence[Token], tokenizer: Tokenizer) -> list[Round]:
    """Returns the rounds of a generation made with `explain=True`.

    Args:
        generation: The whole.
        tokens: What its stream handed out.
        tokenizer: Turns guesses into text.
    """
    rounds = []
    num_done = 0
    for number, event in enumerate(generation.rounds or (), start=1):
        texts = [token.text for token in tokens[num_done : num_done + len(event.token_ids)]]
        num_done += len(event.token_ids)
        guess = list(event.guess.token_ids) if event.guess else []
        rounds.append(
            Round(
                number,
                "".join(texts[:1]),
                "".join(texts[1:]),
                tokenizer.decode(guess[event.num_accepted : event.num_drafted]),
                tokenizer.decode(guess[event.num_drafted :]),
                event.drafter or (event.guess.drafter if event.guess else None),
                event.source or (event.guess.source if event.guess else None),
                decision_of(event),
                1e3 * event.draft_seconds,
                1e3 * event.verify_seconds,
            )
        )
    return rounds


def decision_of(event: RoundEvent) -> str:
    """Says why as many tokens were verified as were, with the speed that was expected of it."""
    if event.skip_reason and not event.chances:
        return event.skip_reason
    if not event.chances:
        return f"{event.num_drafted} tokens, as asked for"
    rate = expected_rates(event)[event.num_drafted]
    if event.skip_reason:
        return f"{event.skip_reason}: at best {max(expected_rates(event)[1:]):.2f} times plain speed"
    return f"{event.num_drafted} of {len(event.chances)} guessed tokens: {rate:.2f} times plain speed expected"


def expected_rates(event: RoundEvent) -> list[float]:
    """Returns for 0, 1, ... verified tokens how many times as fast as plain steps the budget expected it to be."""
    expected = chance = 1.0
    rates = [1.0]
    for acceptance, steps in zip(event.chances, event.steps[1:], strict=True):
        chance *= acceptance
        expected += chance
        rates.append(expected / steps)
    return rates
