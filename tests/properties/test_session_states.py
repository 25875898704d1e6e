"""Whatever a session went through, it goes on like a fresh one that was fed the same tokens."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cera_core.drafter import Drafter
from cera_core.generation import Generation
from cera_core.session import Session
from cera_core.testing.drafters import OracleDrafter, RandomDrafter
from cera_core.testing.fakes import TableModel
from support.sessions import CheapRows
from support.spelling import SpellingTokenizer

PIECES = ["a", "b", "ab", "€", b"\xe2\x82", b"\xac"]
END_ID = 2
VOCAB_SIZE = len(PIECES)
MAX_SEQ_LEN = 60
token_ids = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=6)
options_of_a_call = st.fixed_dictionaries(
    {"max_tokens": st.integers(0, 14)},
    optional={
        "temperature": st.just(0.9),
        "seed": st.integers(0, 5),
        "frequency_penalty": st.just(0.8),
        "repetition_penalty": st.just(1.3),
        "stop": st.lists(st.sampled_from(["bab", "€", "aa", "ab", "ba", "€a"]), min_size=1, max_size=3),
        "stop_token_ids": st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=2),
        "ignore_eos": st.booleans(),
        "min_tokens": st.integers(0, 5),
        "logit_bias": st.dictionaries(st.integers(0, VOCAB_SIZE - 1), st.just(-float("inf")), max_size=2),
        "logprobs": st.just(1),
    },
).map(lambda options: {**options, "min_tokens": min(options.get("min_tokens", 0), options["max_tokens"])})
ways_to_draft = st.tuples(
    st.sampled_from(["none", "oracle", "poor oracle", "random"]), st.sampled_from([None, 1, 4, 15])
)


class SessionMachine(RuleBasedStateMachine):
    """Compares one session, and what was forked from it, with fresh sessions that decode plainly."""

    @initialize(seed=st.integers(0, 1000), num_levels=st.sampled_from([2, 1000]), headroom=st.sampled_from([None, 3]))
    def begin(self, seed: int, num_levels: int, headroom: int | None) -> None:
        def model() -> TableModel:
            return TableModel(VOCAB_SIZE, 2, seed, num_levels=num_levels, max_batch=8, max_seq_len=MAX_SEQ_LEN)

        self.model = model
        drafting_model = model()
        drafting_model._headroom = headroom
        self.session = Session(drafting_model, SpellingTokenizer(PIECES, end_ids=[END_ID]), costs=CheapRows())
        self.random = RandomDrafter(VOCAB_SIZE, seed)
        self.tokens: list[int] = []

    def expected(self, options: dict[str, Any]) -> Generation:
        fresh = Session(self.model(), SpellingTokenizer(PIECES, end_ids=[END_ID]))
        fresh.append(self.tokens)
        return fresh.generate(**options)

    def drafter(self, kind: str, options: dict[str, Any]) -> Drafter | None:
        if kind in ("none", "random"):
            return {"none": None, "random": self.random}[kind]
        text = self.expected(
            {**options, "max_tokens": 20, "stop": (), "stop_token_ids": (), "ignore_eos": True, "min_tokens": 0}
        ).token_ids
        return OracleDrafter([*self.tokens, *text], VOCAB_SIZE, 0 if kind == "oracle" else 3)

    def drafting(self, way: tuple[str, int | None], options: dict[str, Any]) -> dict[str, Any]:
        kind, max_draft_tokens = way
        options = {**options, "drafter": self.drafter(kind, options), "adaptive": max_draft_tokens is None}
        return options if max_draft_tokens is None else {**options, "max_draft_tokens": max_draft_tokens}

    @rule(added=token_ids)
    def append(self, added: list[int]) -> None:
        if len(self.tokens) + len(added) <= MAX_SEQ_LEN:
            self.session.append(added)
            self.tokens += added

    @precondition(lambda self: self.tokens)
    @rule(options=options_of_a_call, way=ways_to_draft)
    def generate(self, options: dict[str, Any], way: tuple[str, int | None]) -> None:
        options = {"seed": 1, **options}
        expected = self.expected(options)
        found = self.session.generate(**self.drafting(way, options))
        assert (found.token_ids, found.text) == (expected.token_ids, expected.text)
        assert (found.finish_reason, found.logprobs) == (expected.finish_reason, expected.logprobs)
        self.tokens += found.token_ids

    @precondition(lambda self: self.tokens)
    @rule(options=options_of_a_call, way=ways_to_draft, num_read=st.integers(0, 6))
    def close_early(self, options: dict[str, Any], way: tuple[str, int | None], num_read: int) -> None:
        options = {"seed": 1, **options}
        expected = self.expected(options)
        with self.session.stream(**self.drafting(way, options)) as stream:
            read = [token.token_id for token in itertools.islice(stream, num_read)]
        assert stream.generation.token_ids == read == expected.token_ids[:num_read]
        self.tokens += read

    @precondition(lambda self: self.tokens)
    @rule(options=options_of_a_call, way=ways_to_draft, num_read=st.integers(1, 6))
    def cancel(self, options: dict[str, Any], way: tuple[str, int | None], num_read: int) -> None:
        options = {"seed": 1, **options}
        expected = self.expected(options)
        stream = self.session.stream(**self.drafting(way, options))
        for _ in itertools.islice(stream, num_read):
            pass
        self.session.cancel()
        list(stream)
        found = stream.generation.token_ids
        assert found == expected.token_ids[: len(found)]
        assert len(found) <= num_read + 1 or stream.generation.finish_reason != "cancelled"
        self.tokens += found

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        length = data.draw(st.integers(0, len(self.tokens)))
        self.session.truncate(length)
        del self.tokens[length:]

    @rule(data=st.data(), added=token_ids)
    def replace(self, data: st.DataObject, added: list[int]) -> None:
        replacement = self.tokens[: data.draw(st.integers(0, len(self.tokens)))] + added
        if len(replacement) <= MAX_SEQ_LEN:
            num_kept = self.session.replace(replacement)
            assert num_kept <= len(self.tokens)
            assert replacement[:num_kept] == self.tokens[:num_kept]
            assert (
                replacement[num_kept : num_kept + 1] != self.tokens[num_kept : num_kept + 1]
                or not replacement[num_kept:]
            )
            self.tokens = replacement

    @rule(stays=st.booleans())
    def fork(self, stays: bool) -> None:
        fork = self.session.fork()
        left = fork if stays else self.session
        self.session = self.session if stays else fork
        if left.position < MAX_SEQ_LEN:
            left.append([0])  # whatever becomes of the other, this one does not notice
            left.generate(max_tokens=3)

    @rule()
    def prefill(self) -> None:
        assert self.session.prefill()
        assert self.session._context.state.token_ids == self.tokens

    @rule()
    def reset(self) -> None:
        self.session.reset()
        self.tokens = []

    @invariant()
    def session_holds_the_tokens(self) -> None:
        if hasattr(self, "session"):
            assert self.session.token_ids == self.tokens
            cached = self.session._context.state.token_ids
            assert cached == self.tokens[: len(cached)]
            if self.session._context.next_row is not None:
                assert cached == self.tokens


TestSessionStates = SessionMachine.TestCase
TestSessionStates.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
