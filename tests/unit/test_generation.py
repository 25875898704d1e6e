"""What a generation gives: one event a token, text that joins up, log-probabilities, and the whole at the end."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core.errors import InvalidInputError
from cera_core.generation import Token, TokenStream, token_logprobs
from cera_core.session import Session
from cera_core.testing.drafters import OracleDrafter
from cera_core.testing.fakes import ScriptedModel, TableModel
from support.sessions import PROMPT, assert_consistent, plain, session_of
from support.spelling import SpellingTokenizer

EURO = "€".encode()
PIECES = ["a", "b", "", EURO[:1], EURO[1:2], EURO[2:], "EN", "D", "€b"]
HISTORY = [0] * 32


def speaking(script: Sequence[int], pieces: Sequence[str | bytes] = PIECES) -> Session:
    """Makes a session whose model says a script, of a length that divides 32."""
    return session_of(HISTORY, model=ScriptedModel(script, vocab_size=len(pieces)), tokenizer=SpellingTokenizer(pieces))


def guessing(script: Sequence[int]) -> OracleDrafter:
    return OracleDrafter([*HISTORY, *script * 4])


def texts_of(stream: TokenStream) -> list[tuple[int, str]]:
    return [(token.token_id, token.text) for token in stream]


def test_text_of_a_character_over_several_tokens_comes_when_it_is_complete() -> None:
    stream = speaking([0, 3, 4, 5]).stream(max_tokens=6)
    assert texts_of(stream) == [(0, "a"), (3, ""), (4, ""), (5, "€"), (0, "a"), (3, "�")]
    assert stream.generation.text == "a€a�"


def test_text_that_may_begin_a_stop_string_waits() -> None:
    stream = speaking([0, 6, 1, 6]).stream(max_tokens=6, stop="END")
    assert texts_of(stream) == [(0, "a"), (6, ""), (1, "ENb"), (6, ""), (0, "ENa"), (6, "EN")]
    stream = speaking([0, 6, 7, 1]).stream(max_tokens=6, stop="END")
    assert texts_of(stream) == [(0, "a"), (6, ""), (7, "")]
    assert (stream.generation.text, stream.generation.finish_reason) == ("a", "stop")


def test_last_event_carries_what_was_held_back_whatever_ends_the_text() -> None:
    for options in ({"max_tokens": 2}, {"stop_token_ids": [1]}):
        stream = speaking([0, 6, 1, 1]).stream(stop="END", **options)
        assert texts_of(stream) == [(0, "a"), (6, "EN")]
    session = speaking([6, 6])
    stream = session.stream(stop="END")
    assert next(stream).text == ""
    session.cancel()
    assert texts_of(stream) == [(6, "ENEN")]
    assert stream.generation.finish_reason == "cancelled"


pieces_of_scripts = st.lists(st.integers(0, len(PIECES) - 1), min_size=1, max_size=16).map(
    lambda script: (script * 16)[: 1 << (len(script) - 1).bit_length()]
)


@given(
    script=pieces_of_scripts,
    stop=st.sets(st.sampled_from(["END", "b", "ba", "€", "ENEN", "DD", "aab"]), max_size=3),
    max_tokens=st.integers(0, 20),
    min_tokens=st.integers(0, 5),
    drafts=st.booleans(),
)
def test_joined_events_are_the_text_and_the_text_is_that_of_the_ids(
    script: list[int], stop: set[str], max_tokens: int, min_tokens: int, drafts: bool
) -> None:
    session = speaking(script)
    options: dict[str, Any] = {
        "stop": sorted(stop),
        "max_tokens": max_tokens,
        "min_tokens": min(min_tokens, max_tokens),
        "drafter": guessing(script) if drafts else None,
        "adaptive": False,
    }
    stream = session.stream(**options)
    events = texts_of(stream)
    generation = stream.generation
    assert "".join(text for _, text in events) == generation.text
    assert [token_id for token_id, _ in events] == generation.token_ids == session.token_ids[len(HISTORY) :]
    whole = SpellingTokenizer(PIECES).decode(generation.token_ids)
    assert whole.startswith(generation.text)
    if generation.finish_reason == "max_tokens":
        assert whole == generation.text
    else:
        assert any(whole[len(generation.text) :].startswith(text) for text in stop)
    assert_consistent(session)


@given(script=pieces_of_scripts, num_read=st.integers(0, 12), drafts=st.booleans())
def test_closed_stream_ends_ids_text_and_session_at_the_last_token_handed_out(
    script: list[int], num_read: int, drafts: bool
) -> None:
    """Also where the loop was a token ahead, to see what a held-back text becomes."""
    session = speaking(script)
    drafter = guessing(script) if drafts else None
    with session.stream(stop=["END", "bab"], max_tokens=16, drafter=drafter, adaptive=False, logprobs=0) as stream:
        read = list(itertools.islice(stream, num_read))
    generation = stream.generation
    assert generation.token_ids == [token.token_id for token in read]
    assert generation.text == "".join(token.text for token in read)
    assert generation.stats.num_emitted == len(read) == len(generation.logprobs or ())
    assert session.token_ids == HISTORY + generation.token_ids
    first = generation.token_ids
    rest = session.generate(max_tokens=16 - len(first), drafter=drafter, adaptive=False).token_ids
    assert first + rest == speaking(script).generate(max_tokens=16).token_ids


def test_generation_is_there_when_the_stream_has_ended_and_not_before() -> None:
    stream = session_of().stream(max_tokens=2)
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="when the stream has ended; read or close it first"):
            _ = stream.generation
        next(stream)
    assert list(stream) == []
    assert stream.generation.token_ids == plain(max_tokens=2).token_ids


def test_closed_before_the_first_token_is_cancelled() -> None:
    stream = session_of().stream(max_tokens=2)
    stream.close()
    assert (stream.generation.finish_reason, stream.generation.token_ids, stream.generation.text) == (
        "cancelled",
        [],
        "",
    )
    assert list(stream) == []


def test_closing_twice_or_after_the_end_changes_nothing() -> None:
    stream = session_of().stream(max_tokens=2)
    assert len(list(stream)) == 2
    stream.close()
    stream.close()
    assert stream.generation.finish_reason == "max_tokens"


def test_closed_with_the_last_token_in_hand_ended_by_itself() -> None:
    stream = session_of().stream(max_tokens=2)
    next(stream)
    next(stream)
    stream.close()
    assert stream.generation.finish_reason == "max_tokens"


def test_with_statement_closes_whatever_happens_inside() -> None:
    session = session_of()
    stream = session.stream(max_tokens=9)

    def consume() -> None:
        with stream:
            raise ZeroDivisionError(next(stream))

    with pytest.raises(ZeroDivisionError):
        consume()
    assert stream.generation.finish_reason == "cancelled"
    assert session.generate(max_tokens=1).token_ids == plain(max_tokens=2).token_ids[1:]


@pytest.mark.parametrize("read_at_the_end", [True, False])
def test_time_the_consumer_takes_is_not_counted(read_at_the_end: bool) -> None:
    session = session_of()
    stream = session.stream(max_tokens=3, drafter=OracleDrafter([]))
    next(stream)
    time.sleep(0.2)
    if read_at_the_end:
        list(stream)
    stream.close()
    assert 0 < stream.generation.stats.total_seconds < 0.15


def test_times_are_parts_of_the_whole() -> None:
    text = plain(max_tokens=30).token_ids
    stats = session_of().generate(max_tokens=30, adaptive=False, drafter=OracleDrafter(PROMPT + text, 16, 5)).stats
    parts = stats.draft_seconds + stats.verify_seconds + stats.plain_seconds
    assert 0 < parts < stats.total_seconds
    assert stats.prefill_seconds > 0


def test_log_probabilities_are_of_the_models_own_distribution() -> None:
    model = TableModel()
    options = {"temperature": 0.5, "seed": 3, "top_k": 3, "logit_bias": {2: 1.0}, "presence_penalty": 0.5}
    generation = session_of(model=model).generate(max_tokens=20, logprobs=3, **options)
    prefix = list(PROMPT)
    for token_id, found in zip(generation.token_ids, generation.logprobs or [], strict=True):
        row = model.row(prefix).astype(np.float64)
        expected = row - np.log(np.exp(row).sum())
        assert found.token_id == token_id
        assert found.logprob == pytest.approx(expected[token_id])
        best = sorted(range(16), key=lambda candidate: (-expected[candidate], candidate))[:3]
        assert [candidate for candidate, _ in found.top] == best
        assert [value for _, value in found.top] == pytest.approx(expected[best])
        prefix.append(token_id)


@pytest.mark.parametrize("num_levels", [2, 1000])
@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 9}])
def test_log_probabilities_of_accepted_tokens_equal_those_of_a_plain_run(
    num_levels: int, options: dict[str, Any]
) -> None:
    options = {"max_tokens": 40, "logprobs": 2, **options}
    expected = plain(model=TableModel(num_levels=num_levels), **options)
    drafter = OracleDrafter(PROMPT + expected.token_ids, 16, wrong_every=5)
    session = session_of(model=TableModel(num_levels=num_levels))
    generation = session.generate(drafter=drafter, adaptive=False, **options)
    assert generation.logprobs == expected.logprobs
    assert generation.stats.num_drafted > generation.stats.num_accepted > 0


@pytest.mark.parametrize(
    ("num_top", "ids"), [(None, None), (0, ()), (2, (1, 3)), (5, (1, 3, 4, 0)), (99, (1, 3, 4, 0))]
)
def test_as_many_alternatives_as_asked_for_the_lowest_id_first_in_a_tie(num_top: int | None, ids: Any) -> None:
    row = np.array([0, 2, math.nan, 2, 1], np.float32)
    found = token_logprobs(row, 1, num_top)
    assert (None if found is None else tuple(token_id for token_id, _ in found.top)) == ids


def test_log_probability_of_an_impossible_token_is_minus_infinity() -> None:
    found = token_logprobs(np.array([-math.inf, 1], np.float32), 0, 2)
    assert found is not None
    assert found.logprob == -math.inf
    assert found.top == ((1, 0.0),)


def test_token_without_a_tokenizer_has_no_text() -> None:
    token = next(session_of().stream(max_tokens=1))
    assert token == Token(plain(max_tokens=1).token_ids[0], "")
