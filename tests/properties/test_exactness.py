"""A guess never changes the text: whoever guesses, however much, however the prompt was fed, wherever it ended."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cera_core.drafter import Drafter
from cera_core.generation import Generation
from cera_core.session import Session
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter, RandomDrafter
from cera_core.testing.fakes import TableModel
from support.sessions import CheapRows, assert_consistent

MAX_PROMPT = 24
KINDS = ("right", "partly wrong", "always wrong", "random", "broken")


@dataclass(frozen=True)
class Case:
    """A model, a prompt, what is asked of it, and who guesses."""

    vocab_size: int
    order: int
    seed: int
    num_levels: int
    max_batch: int
    prompt: tuple[int, ...]
    options: dict[str, Any] = field(hash=False)
    max_draft_tokens: int | None
    kind: str
    wrong_every: int

    def model(self, max_batch: int | None = None) -> TableModel:
        return TableModel(
            self.vocab_size,
            self.order,
            self.seed,
            num_levels=self.num_levels,
            max_batch=max_batch or self.max_batch,
            max_seq_len=len(self.prompt) + 40,
        )

    def session(self, **parts: Any) -> Session:
        session = Session(parts.pop("model", None) or self.model(), costs=CheapRows(), **parts)
        session.append(self.prompt)
        return session

    def plain(self, **options: Any) -> Generation:
        session = Session(self.model(max_batch=64))
        session.append(self.prompt)
        return session.generate(**{**self.options, **options, "max_draft_tokens": None})

    def drafted_options(self) -> dict[str, Any]:
        return {**self.options, "max_draft_tokens": self.max_draft_tokens, "adaptive": self.max_draft_tokens is None}

    def drafter(self, text: Sequence[int]) -> Drafter:
        whole = [*self.prompt, *text]
        if self.kind == "broken":
            return BrokenDrafter(misbehave)
        if self.kind == "random":
            return RandomDrafter(self.vocab_size, self.seed)
        wrong_every = {"right": 0, "partly wrong": self.wrong_every, "always wrong": 1}[self.kind]
        return OracleDrafter(whole, self.vocab_size, wrong_every)


def misbehave(tokens: Sequence[int], max_k: int) -> object:
    """Answers in a way that depends on the history only."""
    answers: list[Any] = [None, [-1], [10**9], [0] * (max_k + 5), ["0"], [], [tokens[-1]] * max_k, [1.5]]
    if len(tokens) % 9 == 8:
        raise RuntimeError
    return answers[(len(tokens) * 7 + tokens[-1]) % len(answers)]


@st.composite
def cases(draw: st.DrawFn, greedy: bool | None = None) -> Case:
    vocab_size = draw(st.integers(2, 20))
    token_ids = st.integers(0, vocab_size - 1)
    is_greedy = draw(st.booleans()) if greedy is None else greedy
    options: dict[str, Any] = {"max_tokens": draw(st.sampled_from([0, 1, 2, 16, 30]))}
    if not is_greedy:
        options |= {
            "temperature": draw(st.sampled_from([0.2, 0.8, 1.5])),
            "seed": draw(st.integers(0, 2**63 - 1)),
            "top_k": draw(st.sampled_from([0, 1, 3])),
            "top_p": draw(st.sampled_from([1.0, 0.9, 0.4])),
            "min_p": draw(st.sampled_from([0.0, 0.1])),
        }
    options |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "repetition_penalty": st.sampled_from([0.8, 1.3]),
                "presence_penalty": st.sampled_from([-0.7, 0.9]),
                "frequency_penalty": st.sampled_from([-0.4, 0.6]),
                "logit_bias": st.dictionaries(token_ids, st.sampled_from([-float("inf"), -2.0, 3.0]), max_size=1),
                "stop_token_ids": st.lists(token_ids, max_size=2),
                "min_tokens": st.integers(0, options["max_tokens"]),
                "logprobs": st.integers(0, 3),
            },
        )
    )
    banned = {token_id for token_id, bias in options.get("logit_bias", {}).items() if bias == -float("inf")}
    if len(banned | set(options.get("stop_token_ids", ()))) >= vocab_size:
        options.pop("min_tokens", None)  # nothing could be chosen
    return Case(
        vocab_size=vocab_size,
        order=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 10_000)),
        num_levels=draw(st.sampled_from([1, 2, 3, 1000])),
        max_batch=draw(st.sampled_from([1, 2, 5, 16, 64])),
        prompt=tuple(draw(st.lists(token_ids, min_size=1, max_size=MAX_PROMPT))),
        options=options,
        max_draft_tokens=draw(st.sampled_from([None, 1, 8, 15])),
        kind=draw(st.sampled_from(KINDS)),
        wrong_every=draw(st.integers(2, 7)),
    )


def assert_same(found: Generation, expected: Generation) -> None:
    assert found.token_ids == expected.token_ids
    assert found.finish_reason == expected.finish_reason
    assert found.logprobs == expected.logprobs
    assert found.seed == expected.seed


def assert_counted(generation: Generation) -> None:
    stats = generation.stats
    assert stats.num_emitted == len(generation.token_ids) == stats.num_plain_steps + stats.num_emitted_by_rounds
    assert stats.num_emitted_by_rounds == stats.num_rounds + stats.num_accepted
    assert sum(stats.skip_reasons.values()) == stats.num_plain_steps
    assert sum(each.num_drafted for each in stats.drafters.values()) == stats.num_drafted
    assert sum(each.num_accepted for each in stats.drafters.values()) == stats.num_accepted
    for each in stats.drafters.values():
        assert sum(each.drafted_by_position) == each.num_drafted
        assert sum(each.accepted_by_position) == each.num_accepted


@settings(max_examples=250)
@given(case=cases())
def test_text_and_log_probabilities_with_drafts_equal_those_without(case: Case) -> None:
    expected = case.plain()
    session = case.session()
    found = session.generate(drafter=case.drafter(expected.token_ids), **case.drafted_options())
    assert_same(found, expected)
    assert_counted(found)
    assert session.token_ids == [*case.prompt, *expected.token_ids]
    assert_consistent(session)


@settings(max_examples=80)
@given(case=cases())
def test_going_on_after_any_end_equals_a_fresh_session_fed_the_same_tokens(case: Case) -> None:
    text = case.plain(max_tokens=40, stop_token_ids=()).token_ids
    session = case.session()
    drafter = case.drafter(text)
    for _ in range(2):
        session.generate(drafter=drafter, **case.drafted_options())
        fresh = Session(case.model(max_batch=64))
        fresh.append(session.token_ids)
        expected = fresh.generate(**{**case.options, "max_draft_tokens": None})
        assert_same(session.generate(drafter=drafter, **case.drafted_options()), expected)
        assert session.token_ids == fresh.token_ids
        assert_consistent(session)


@settings(max_examples=80)
@given(case=cases(), data=st.data())
def test_cut_anywhere_and_grown_again_equals_a_fresh_session(case: Case, data: st.DataObject) -> None:
    """Drafters, cache and sampler answer like fresh ones after a history that shrank, and as a fork too."""
    session = case.session()
    drafter = case.drafter(case.plain().token_ids)
    session.generate(drafter=drafter, **case.drafted_options())
    session.truncate(data.draw(st.integers(0, session.position), label="length"))
    session.append(data.draw(st.lists(st.integers(0, case.vocab_size - 1), min_size=1, max_size=3), label="added"))
    fresh = Session(case.model(max_batch=64))
    fresh.append(session.token_ids)
    expected = fresh.generate(**{**case.options, "max_draft_tokens": None})
    fork = session.fork()
    assert_same(session.generate(drafter=drafter, **case.drafted_options()), expected)
    assert_same(fork.generate(drafter=drafter, **case.drafted_options()), expected)
    assert_consistent(session)
    assert_consistent(fork)


@settings(max_examples=60)
@given(case=cases(), headroom=st.integers(0, 6))
def test_model_that_can_rewind_a_little_says_the_same(case: Case, headroom: int) -> None:
    model = case.model()
    model._headroom = headroom
    expected = case.plain()
    session = case.session(model=model)
    found = session.generate(drafter=case.drafter(expected.token_ids), **case.drafted_options())
    assert_same(found, expected)
    assert found.stats.num_drafted == 0 or headroom > 0
    assert_counted(found)


@settings(max_examples=25)
@given(case=cases())
def test_two_sessions_on_two_threads_say_what_each_says_alone(case: Case) -> None:
    expected = case.plain()
    model, costs, both = case.model(), CheapRows(), threading.Barrier(2)

    def generated(_: int) -> Generation:
        session = Session(model, costs=costs)
        session.append(case.prompt)
        both.wait()
        return session.generate(drafter=case.drafter(expected.token_ids), **case.drafted_options())

    with ThreadPoolExecutor(2) as pool:
        for found in pool.map(generated, range(2)):
            assert_same(found, expected)


def case_of(**changes: Any) -> Case:
    values: dict[str, Any] = {
        "vocab_size": 16,
        "order": 2,
        "seed": 7,
        "num_levels": 1000,
        "max_batch": 64,
        "prompt": tuple(range(16)),
        "options": {"max_tokens": 40},
        "max_draft_tokens": 8,
        "kind": "partly wrong",
        "wrong_every": 5,
    }
    return Case(**{**values, **changes})


def test_the_comparisons_above_accept_and_reject_drafts() -> None:
    """Equality proves nothing where nothing was drafted: each way to draft accepts tokens and rejects some."""
    sampled = {"max_tokens": 40, "temperature": 0.8, "seed": 3, "top_p": 0.9, "repetition_penalty": 1.2}
    for options in ({"max_tokens": 40}, sampled):
        for max_draft_tokens in (None, 1, 8, 15):
            for num_levels in (3, 1000):
                case = case_of(options=options, max_draft_tokens=max_draft_tokens, num_levels=num_levels)
                text = case.plain().token_ids
                stats = case.session().generate(drafter=case.drafter(text), **case.drafted_options()).stats
                assert stats.num_drafted > stats.num_accepted > 0
    for kind, accepts, rejects in (("right", True, False), ("always wrong", False, True), ("random", True, True)):
        case = case_of(kind=kind, vocab_size=3, prompt=(0, 1, 2) * 5)
        stats = case.session().generate(drafter=case.drafter(case.plain().token_ids), **case.drafted_options()).stats
        assert (stats.num_accepted > 0, stats.num_drafted > stats.num_accepted) == (accepts, rejects)
