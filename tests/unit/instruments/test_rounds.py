"""Rounds in words: nothing of the text is lost, and the decision is the one the budget took."""

from __future__ import annotations

import pytest

from cera_core.drafter import Draft
from cera_core.instruments.rounds import decision_of, expected_rates, rounds_of
from cera_core.specs import RoundEvent
from cera_core.testing.drafters import OracleDrafter
from cera_core.testing.fakes import TableModel
from support.sessions import PROMPT, plain, session_of
from support.spelling import SpellingTokenizer

LETTERS = list("abcdefghijklmnop")


def event(
    num_drafted: int, skip_reason: str | None = None, chances: tuple[float, ...] = (), **values: object
) -> RoundEvent:
    steps = (1.0, 1.5, 2.0)[: len(chances) + 1] if chances else ()
    return RoundEvent(
        position=0, token_ids=(1,), num_drafted=num_drafted, num_accepted=0, drafter=None, source=None,
        skip_reason=skip_reason, draft_seconds=0.0, verify_seconds=0.0, chances=chances, steps=steps, **values,
    )  # fmt: skip


def test_rounds_make_up_the_text_and_show_what_was_guessed_in_vain() -> None:
    tokenizer = SpellingTokenizer(LETTERS)
    text = plain(max_tokens=60).token_ids
    session = session_of(model=TableModel(), tokenizer=tokenizer)
    stream = session.stream(drafter=OracleDrafter([*PROMPT, *text], 16, wrong_every=7), max_tokens=40, explain=True)
    tokens = list(stream)
    rounds = rounds_of(stream.generation, tokens, tokenizer)
    assert "".join(each.chosen + each.accepted for each in rounds) == stream.generation.text
    assert [each.number for each in rounds] == list(range(1, len(rounds) + 1))
    stats = stream.generation.stats
    assert sum(len(each.accepted) for each in rounds) == stats.num_accepted > 0
    assert sum(len(each.rejected) for each in rounds) == stats.num_drafted - stats.num_accepted > 0
    assert {each.drafter for each in rounds if each.accepted} == {"OracleDrafter"}


def test_expected_rates_are_those_of_the_budget() -> None:
    assert expected_rates(event(1, chances=(0.5, 0.5))) == pytest.approx([1, 1.5 / 1.5, 1.75 / 2])


@pytest.mark.parametrize(
    ("round_", "words"),
    [
        (event(0, "the drafter had no guess"), "the drafter had no guess"),
        (event(3), "3 tokens, as asked for"),
        (event(2, chances=(1.0, 1.0)), "2 of 2 guessed tokens: 1.50 times plain speed expected"),
        (event(0, "not worth it", chances=(0.2, 0.2)), "not worth it: at best 0.80 times plain speed"),
    ],
)
def test_decision_is_said_with_what_was_expected(round_: RoundEvent, words: str) -> None:
    assert decision_of(round_) == words


def test_a_guess_that_was_not_verified_is_left_out() -> None:
    guess = Draft([1, 2], drafter="a", source="history[0:2]")
    event_ = event(0, "not worth it", chances=(0.2, 0.2), guess=guess)
    generation = plain(max_tokens=1)
    (only,) = rounds_of(
        type(generation)("", [1], "stop", generation.stats, rounds=[event_]), [], SpellingTokenizer(LETTERS)
    )
    assert (only.left_out, only.rejected, only.drafter, only.source) == ("bc", "", "a", "history[0:2]")
