"""Rule 19: whatever ended a generation, the session goes on like a fresh one that was fed the same tokens."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any

import numpy as np
import pluggy
import pytest

from cera_core.errors import ModelError
from cera_core.hookspecs import PROJECT_NAME, ObserverHooks, hookimpl
from cera_core.instruments.equality import first_divergence
from cera_core.observers import Observers
from cera_core.session import Session
from cera_core.testing.drafters import OracleDrafter
from support.gate import Gate
from support.sessions import PROMPT, CheapRows, assert_consistent, plain, session_of
from support.small_models import SmallModel
from support.spelling import SpellingTokenizer

TEXT = plain(max_tokens=80).token_ids
LETTERS = SpellingTokenizer([*"abcdefghijklmnop"])
ORACLE = OracleDrafter([*PROMPT, *TEXT], 16, wrong_every=11)
DRAFTING: dict[str, Any] = {"drafter": ORACLE, "adaptive": False, "max_draft_tokens": 8}


def spelled(start: int, length: int) -> str:
    return LETTERS.decode(TEXT[start : start + length])


def by_an_error(session: Session) -> None:
    forward_all, session._model.forward_all = session._model.forward_all, lambda ids, state: 1 // 0
    with pytest.raises(ModelError):
        session.generate(**DRAFTING, max_tokens=20)
    session._model.forward_all = forward_all


def by_a_row_of_nan(session: Session) -> None:
    forward_all = session._model.forward_all
    session._model.forward_all = lambda ids, state: forward_all(ids, state) * np.float32("nan")
    with pytest.raises(ModelError):
        session.generate(**DRAFTING, max_tokens=20)
    session._model.forward_all = forward_all


def by_closing_while_text_is_held_back(session: Session) -> None:
    """The loop is a token ahead then, to see whether it completes the stop string; that token goes."""
    with session.stream(**DRAFTING, stop=f"{spelled(3, 1)}#") as stream:
        read = [token.token_id for token in islice(stream, 4)]
    assert session.token_ids == [*PROMPT, *read]


def by_a_consumer_that_fails(session: Session) -> None:
    with suppress(ZeroDivisionError):
        for place, _ in enumerate(session.stream(**DRAFTING, max_tokens=20)):
            if place == 6:
                raise ZeroDivisionError


def by_a_cancel(session: Session) -> None:
    for place, _ in enumerate(session.stream(**DRAFTING, max_tokens=20)):
        if place == 4:
            session.cancel()


ENDS: dict[str, Callable[[Session], Any]] = {
    "budget inside an accepted run": lambda session: session.generate(**DRAFTING, max_tokens=6),
    "stop token inside an accepted run": lambda session: session.generate(**DRAFTING, stop_token_ids=[TEXT[5]]),
    "stop string over two tokens": lambda session: session.generate(**DRAFTING, stop=spelled(4, 2)),
    "full context": lambda session: (session.append(TEXT[:236]), session.generate(**DRAFTING), session.truncate(100)),
    "cancel": by_a_cancel,
    "model error": by_an_error,
    "row of NaN": by_a_row_of_nan,
    "consumer that fails": by_a_consumer_that_fails,
    "stream closed early": lambda session: list(islice(session.stream(**DRAFTING), 5)),
    "stream closed while text was held back": by_closing_while_text_is_held_back,
    "nothing to emit": lambda session: session.generate(**DRAFTING, max_tokens=0),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("options", [{}, {"temperature": 0.9, "seed": 5, "frequency_penalty": 0.7}], ids=str)
def test_rule_19_a_generation_after_any_end_equals_that_of_a_fresh_session_fed_the_same_tokens(
    end: Callable[[Session], Any], options: dict[str, Any]
) -> None:
    session = session_of(tokenizer=LETTERS)
    end(session)
    fresh = session_of(session.token_ids, tokenizer=LETTERS)
    expected = fresh.generate(max_tokens=30, logprobs=2, **options)
    fork = session.fork()
    for each in (session, fork):
        found = each.generate(**DRAFTING, max_tokens=30, logprobs=2, **options)
        assert first_divergence(expected, found) is None
        assert found.text == expected.text
        assert each.token_ids == fresh.token_ids
        assert_consistent(each)


def test_rule_19_after_a_budget_stop_inside_an_accepted_run_every_backend_goes_on_bit_for_bit(
    small_model: SmallModel,
) -> None:
    text = small_model.plain(max_tokens=40).token_ids
    drafter = small_model.mostly_right(text, wrong_every=0)
    session = small_model.session()
    first = session.generate(drafter=drafter, adaptive=False, max_draft_tokens=15, max_tokens=5)
    assert first.stats.num_accepted == 4  # the fifth token is inside the run the drafter guessed right
    fresh = Session(small_model.model, costs=CheapRows(), options=small_model.options)
    fresh.append(session.token_ids)
    options: dict[str, Any] = {"max_tokens": 20, "logprobs": 2, "frequency_penalty": 0.0}
    expected = fresh.generate(**options)
    found = session.generate(drafter=drafter, adaptive=False, max_draft_tokens=15, **options)
    assert first_divergence(expected, found) is None


@pytest.mark.parametrize("num_rounds", [1, 2, 3])
def test_rule_19_a_cancel_from_another_thread_ends_within_one_round_and_the_session_goes_on(num_rounds: int) -> None:
    gate = Gate(num_rounds)
    session = session_of(model=gate)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(session.generate, **DRAFTING, max_tokens=60)
        assert gate.is_reached.wait(10)
        session.cancel()
        gate.may_go_on.set()
        found = future.result(10)
    assert found.finish_reason == "cancelled"
    assert len(gate.forward_sizes) == num_rounds + 1
    assert found.token_ids == TEXT[: len(found.token_ids)]
    session.generate(**DRAFTING, max_tokens=60 - len(found.token_ids))
    assert session.token_ids == [*PROMPT, *TEXT[:60]]
    assert_consistent(session)


def test_rule_19_an_observer_that_fails_leaves_text_and_session_as_they_are() -> None:
    class Failing:
        @hookimpl
        def cera_round_finished(self, round: Any) -> None:  # noqa: A002
            raise RuntimeError

        @hookimpl
        def cera_generation_finished(self, generation: Any) -> None:
            raise RuntimeError

    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ObserverHooks)
    manager.register(Failing())
    session = session_of(observers=Observers(manager))
    for _ in range(2):
        session.generate(**DRAFTING, max_tokens=20)
        assert_consistent(session)
    assert session.token_ids == [*PROMPT, *TEXT[:40]]
