"""A drafter that does anything: thousands of answers of every kind, and the text stays the model's own."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cera_core
from cera_core.drafter import Draft, Drafter
from cera_core.engine import Engine
from cera_core.generation import Generation
from cera_core.testing.fakes import TableModel
from support.sessions import PROMPT, assert_consistent, plain, session_of
from support.tiny_gguf import write_tiny_gguf

MAX_TOKENS = 16


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise SystemExit("mute")

    __repr__ = __str__


class UnusualError(BaseException):
    """Is no `Exception`, like the panic of an extension or a cancelled task."""


ERRORS = (RuntimeError, SystemExit, RecursionError, GeneratorExit, MemoryError, StopIteration, MuteError, UnusualError)


class BadNumber:
    """Is a number only until somebody asks which."""

    def __index__(self) -> int:
        raise OSError("no number")


class BadLength(int):
    """Cannot be computed with."""

    def __add__(self, other: object) -> Any:
        raise OSError("no sum")

    __gt__ = __lt__ = __radd__ = __add__  # type: ignore[assignment]


def broken_off(rng: random.Random) -> Iterator[int]:
    yield 0
    raise rng.choice(ERRORS)


def recursion() -> Any:
    return recursion()


Answer = Callable[[random.Random, list[int], int, int], object]
"""Makes an answer of a source of chance, the right tokens, the vocabulary's size and `max_k`."""

SOUND: dict[str, Answer] = {
    "right": lambda rng, right, size, k: right[: rng.randint(0, k)],
    "partly right": lambda rng, right, size, k: [*right[: k // 2], *(rng.randrange(size) for _ in range(k - k // 2))],
    "random": lambda rng, right, size, k: [rng.randrange(size) for _ in range(rng.randint(0, k))],
    "the same wrong guess for ever": lambda rng, right, size, k: [size - 1] * min(k, 3),
    "nothing": lambda rng, right, size, k: rng.choice([[], (), Draft(()), np.array([], np.int64), iter(())]),
    "an array": lambda rng, right, size, k: np.array(right[:k], rng.choice([np.int32, np.uint16, np.int64])),
    "a generator": lambda rng, right, size, k: (token_id for token_id in right[:k]),
    "with odd remarks": lambda rng, right, size, k: Draft(
        right[:k],
        match_length=BadLength(-(10**30)),
        source=object(),
        drafter=b"x",  # type: ignore[arg-type]
    ),
    "a dictionary": lambda rng, right, size, k: dict.fromkeys(range(min(k, size))),
}
BROKEN: dict[str, Answer] = {
    "None": lambda rng, right, size, k: None,
    "a number": lambda rng, right, size, k: 7,
    "a text": lambda rng, right, size, k: rng.choice(["123", b"123", ""]),
    "texts": lambda rng, right, size, k: ["1"],
    "floats": lambda rng, right, size, k: [1.0, 2.5],
    "an array of floats": lambda rng, right, size, k: np.array([[1.0, np.nan]]),
    "nested": lambda rng, right, size, k: [[1], [2]],
    "no number": lambda rng, right, size, k: [BadNumber()],
    "just outside": lambda rng, right, size, k: [size],
    "negative": lambda rng, right, size, k: Draft([-1]),
    "huge": lambda rng, right, size, k: [10 ** rng.choice([10, 100, 6000])],
    "too many": lambda rng, right, size, k: [0] * (k + rng.randint(1, 50)),
    "endless": lambda rng, right, size, k: rng.choice([itertools.repeat(0), Draft(itertools.cycle([0]))]),  # type: ignore[arg-type]
    "broken off": lambda rng, right, size, k: broken_off(rng),
    "no ids": lambda rng, right, size, k: Draft(rng.choice([None, 5, object()])),
    "odd confidences": lambda rng, right, size, k: Draft(
        [0], confidences=rng.choice([[2.0], [float("nan")], [], ["x"], 5, [None], "high"])
    ),
    "odd match": lambda rng, right, size, k: Draft([0], match_length=rng.choice(["long", 1.5, [], BadNumber()])),
    "its own class": lambda rng, right, size, k: Draft,
    "recursion": lambda rng, right, size, k: recursion(),
}


def raised(rng: random.Random) -> Any:
    raise rng.choice(ERRORS)


class Chaos(Drafter):
    """Answers at random from the lists above, fails elsewhere too, and keeps and changes what it was lent.

    Args:
        seed: Of everything it does.
        vocab_size: Of the model.
        text: The right text, by position.
        manners: How often an answer is sound; one that is always broken is soon asked no more.
        record: What it did, shared by its clones.
    """

    def __init__(self, seed: int, vocab_size: int, text: Sequence[int], manners: float, record: Counter[str]) -> None:
        self.arguments = (seed, vocab_size, text, manners, record)
        self.rng = random.Random(seed)
        self.vocab_size = vocab_size
        self.text = list(text)
        self.manners = manners
        self.record = record
        self.kept: list[tuple[Sequence[int], list[int]]] = []
        self.given: list[list[int]] = []

    @property
    def suggested_k(self) -> Any:  # type: ignore[override]
        return self.rng.choice([None, 3, -4, "five", 10**12]) if self.rng.random() < 0.8 else raised(self.rng)

    def draft(self, tokens: Sequence[int], max_k: int) -> Any:
        self.keep_and_spoil(tokens)
        right = self.text[len(tokens) :]
        is_sound = self.rng.random() < self.manners
        name = self.rng.choice([*(SOUND if is_sound else BROKEN)])
        self.record[name] += 1
        if not is_sound:
            self.record["faults"] += 1
            if self.rng.random() < 0.2:
                raised(self.rng)
        answer = (SOUND if is_sound else BROKEN)[name](self.rng, right, self.vocab_size, max_k)
        if isinstance(answer, list):
            self.given.append(answer)
        return answer

    def keep_and_spoil(self, tokens: Sequence[int]) -> None:
        self.kept.append((tokens, list(tokens)))
        for answer in self.given:
            answer[:] = [0] * 3  # what it gave earlier was its own to change
        spoil: list[Callable[[], Any]] = [
            lambda: tokens.__setitem__(0, 1),  # type: ignore[attr-defined]
            lambda: np.asarray(tokens).__setitem__(0, 1),
            lambda: np.asarray(tokens).setflags(write=True),
            lambda: tokens.append(1),  # type: ignore[attr-defined]
        ]
        try:
            self.rng.choice(spoil)()
        except (TypeError, ValueError, AttributeError):
            return
        self.record["spoiled"] += 1

    def accept(self, draft: Draft, num_accepted: int) -> None:
        if self.rng.random() < 0.1:
            self.record["faults"] += 1
            raised(self.rng)

    def reset(self) -> None:
        if self.rng.random() < 0.3:
            self.record["faults"] += 1
            raised(self.rng)

    def memory_bytes(self) -> Any:
        return self.rng.choice([5, -5, "much", None]) if self.rng.random() < 0.8 else raised(self.rng)

    def clone(self) -> Any:
        chance = self.rng.random()
        if chance < 0.9:
            return Chaos(*self.arguments)
        self.record["faults"] += 1
        return raised(self.rng) if chance < 0.95 else self.rng.choice([None, Chaos, 5, "drafter"])

    def assert_nothing_lent_has_changed(self) -> None:
        for view, copy in self.kept:
            assert list(view) == copy


def faults_in(generation: Generation) -> int:
    """Counts the faults that do not depend on how busy the machine is."""
    faults = sum((each.num_faults for each in generation.stats.drafters.values()), Counter[str]())
    return faults.total() - faults["slow"]


def note(total: Counter[str], record: Counter[str], generation: Generation) -> None:
    total.update(record)
    total["accepted"] += generation.stats.num_accepted
    total["rejected"] += generation.stats.num_drafted - generation.stats.num_accepted


chaos_of_a_case = st.tuples(st.integers(0, 2**32), st.sampled_from([0.2, 0.7, 0.9, 1.0]))


def options_of(sampled: bool, max_draft_tokens: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"max_tokens": MAX_TOKENS, "adaptive": max_draft_tokens is None}
    if max_draft_tokens is not None:
        options["max_draft_tokens"] = max_draft_tokens
    return options | ({"temperature": 0.9, "seed": 5, "repetition_penalty": 1.1} if sampled else {})


record_on_table: Counter[str] = Counter()
record_on_file: Counter[str] = Counter()


@settings(max_examples=600)
@given(
    chaos=chaos_of_a_case,
    model_seed=st.integers(0, 20),
    num_levels=st.sampled_from([2, 1000]),
    sampled=st.booleans(),
    max_draft_tokens=st.sampled_from([None, 1, 8, 15]),
)
def test_anything_a_drafter_does_leaves_the_text_alone_and_is_counted(
    chaos: tuple[int, float], model_seed: int, num_levels: int, sampled: bool, max_draft_tokens: int | None
) -> None:
    model = TableModel(seed=model_seed, num_levels=num_levels)
    options = options_of(sampled, max_draft_tokens)
    expected = plain(model=model, **{**options, "max_draft_tokens": None}).token_ids
    record: Counter[str] = Counter()
    drafter = Chaos(chaos[0], 16, PROMPT + expected, chaos[1], record)
    session = session_of(model=model)
    generation = session.generate(drafter=drafter, **options)
    assert generation.token_ids == expected
    assert (faults_in(generation) > 0) == (record["faults"] > 0)
    assert_consistent(session)
    for drafting in session._drafters._kept.values():
        drafting.drafter.memory_bytes()
        if isinstance(drafting.drafter._drafter, Chaos):
            drafting.drafter._drafter.assert_nothing_lent_has_changed()
    session.reset()
    session.append(PROMPT)
    assert session.generate(drafter=drafter, **options).token_ids == expected
    note(record_on_table, record, generation)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    path = write_tiny_gguf(tmp_path_factory.mktemp("fuzz") / "tiny.gguf", num_layers=1, vocab_size=300)
    return cera_core.load(path, backend="numpy", backend_options={"exact": True}, drafter=None)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(chaos=chaos_of_a_case, sampled=st.booleans(), max_draft_tokens=st.sampled_from([None, 1, 8, 15]))
def test_anything_a_drafter_does_leaves_the_text_of_a_model_file_alone(
    engine: Engine, chaos: tuple[int, float], sampled: bool, max_draft_tokens: int | None
) -> None:
    options = {**options_of(sampled, max_draft_tokens), "ignore_eos": True}
    prompt = engine.tokenizer.encode("def the list: return the list")
    expected = engine.generate(prompt, drafter=None, **{**options, "max_draft_tokens": None})
    record: Counter[str] = Counter()
    drafter = Chaos(chaos[0], 300, prompt + expected.token_ids, chaos[1], record)
    generation = engine.generate(prompt, drafter=drafter, **options)
    assert (generation.token_ids, generation.text) == (expected.token_ids, expected.text)
    assert (faults_in(generation) > 0) == (record["faults"] > 0)
    note(record_on_file, record, generation)


@pytest.mark.parametrize(("total", "least"), [(record_on_table, 3000), (record_on_file, 400)], ids=["table", "file"])
def test_many_answers_of_every_kind_were_given_and_drafts_accepted_and_rejected(
    total: Counter[str], least: int
) -> None:
    """Looks at what the tests above did."""
    if not total:
        pytest.skip("they did not run in this process")
    if total is record_on_table:
        assert set(SOUND) | set(BROKEN) <= set(total)
    assert sum(total[name] for name in (*SOUND, *BROKEN)) >= least
    assert total["spoiled"] == 0
    assert total["accepted"] > least / 4
    assert total["rejected"] > least / 4
