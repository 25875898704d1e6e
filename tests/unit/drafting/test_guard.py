"""The guard: what a drafter returns is checked, what it raises stays inside, and both are counted."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from cera_core.drafter import NO_DRAFT, Draft, Drafter
from cera_core.drafting.auto import AutoDrafter
from cera_core.drafting.guard import MANY_SILENT_ROUNDS, MAX_CONSECUTIVE_FAULTS, GuardedDrafter
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter

VOCAB_SIZE = 10


def guarded(misbehave: Callable[[Sequence[int], int], object] | object) -> GuardedDrafter:
    """Guards a drafter that answers so, or does so."""
    answer = misbehave if callable(misbehave) else lambda *_: misbehave
    return GuardedDrafter("test", BrokenDrafter(answer), VOCAB_SIZE)


@pytest.mark.parametrize(
    "answer",
    [
        [1, 2],
        (1, 2),
        np.array([1, 2]),
        iter([1, 2]),
        range(1, 3),
        {1: "a", 2: "b"},
        Draft([1, 2]),
        Draft(np.array([1, 2], np.int32)),
        Draft(iter([1, 2])),  # type: ignore[arg-type]
    ],
    ids=lambda answer: type(answer).__name__,
)
def test_anything_that_gives_ids_is_taken_as_plain_integers(answer: object) -> None:
    drafter = guarded(answer)
    draft = drafter.draft([0], 5)
    assert draft == Draft([1, 2], drafter="test")
    assert {type(token_id) for token_id in draft.token_ids} == {int}
    assert not drafter.num_faults


class NotANumber:
    """Looks like an id until it is used."""

    def __index__(self) -> int:
        raise OverflowError("no")

    def __repr__(self) -> str:
        return "NotANumber()"


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (None, "TypeError"),
        (5, "TypeError"),
        ("12", "TypeError"),
        (b"12", "TypeError"),
        (["1"], "TypeError"),
        ([1.0], "TypeError"),
        (np.array([1.0]), "TypeError"),
        (np.array([[1], [2]]), "TypeError"),
        ([None], "TypeError"),
        ([[1]], "TypeError"),
        ([NotANumber()], "OverflowError"),
        (Draft(None), "TypeError"),  # type: ignore[arg-type]
        (Draft([1], confidences=5), "TypeError"),  # type: ignore[arg-type]
        (Draft([1], confidences=["high"]), "ValueError"),  # type: ignore[list-item]
        (Draft([1], match_length="long"), "TypeError"),  # type: ignore[arg-type]
        (Draft, "TypeError"),
    ],
    ids=repr,
)
def test_answer_of_a_wrong_type_is_no_guess_and_a_fault(answer: object, fault: str) -> None:
    drafter = guarded(lambda *_: answer)
    assert drafter.draft([0], 5) is NO_DRAFT
    assert drafter.num_faults == {fault: 1}
    assert drafter.why_no_guess() == "the drafter failed"


@pytest.mark.parametrize(
    ("answer", "kept"),
    [([1, 2, 10], [1, 2]), ([1, -1, 2], [1]), ([2**31], []), ([10**5000], []), ([-(10**20), 3], []), ([9, 0], [9, 0])],
    ids=["just outside", "negative", "32 bits", "huge", "hugely negative", "inside"],
)
def test_draft_ends_before_the_first_id_outside_the_vocabulary(answer: list[int], kept: list[int]) -> None:
    drafter = guarded(answer)
    assert drafter.draft([0], 5).token_ids == kept
    assert drafter.num_faults == ({"outside_vocabulary": 1} if kept != answer else {})


@pytest.mark.parametrize(
    "answer", [list(range(9)), itertools.count(), itertools.repeat(3), Draft(itertools.repeat(3))], ids=str
)
def test_draft_that_is_too_long_or_never_ends_is_cut(answer: Any) -> None:
    drafter = guarded(answer)
    assert len(drafter.draft([0], 4).token_ids) == 4
    assert drafter.num_faults == {"too_long": 1}


def test_any_id_is_too_many_where_none_was_asked_for() -> None:
    drafter = guarded([1])
    assert drafter.draft([0], 0).token_ids == []
    assert drafter.num_faults == {"too_long": 1}


@pytest.mark.parametrize(
    ("confidences", "kept"),
    [
        ([0.5, 1], [0.5, 1.0]),
        (np.array([0.25, 0.5], np.float32), [0.25, 0.5]),
        (itertools.repeat(0.5), [0.5, 0.5]),
        ([0.5], None),
        ([0.5, 1.5], None),
        ([0.5, -0.1], None),
        ([math.nan, 0.5], None),
        ([], None),
    ],
    ids=repr,
)
def test_confidences_that_are_no_chances_cost_only_themselves(confidences: Any, kept: Any) -> None:
    drafter = guarded(Draft([1, 2], confidences=confidences))
    draft = drafter.draft([0], 5)
    assert (draft.token_ids, draft.confidences) == ([1, 2], kept)
    assert drafter.num_faults == ({} if kept else {"confidences": 1})


def test_confidences_of_tokens_that_were_cut_are_cut() -> None:
    assert guarded(Draft([1, 2, 99], confidences=[0.9, 0.8, 0.7])).draft([0], 5).confidences == [0.9, 0.8]


class Text(str):
    """A text whose methods do something else."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise RuntimeError("no hash")


class Length(int):
    """A number that cannot be added to."""

    def __add__(self, other: object) -> Any:
        raise RuntimeError("no sum")


def test_what_is_said_about_a_draft_is_made_plain() -> None:
    answer = Draft([True], match_length=Length(4), source=Text("x"), drafter=Text("y"))
    draft = guarded(answer).draft([0], 5)
    assert draft == Draft([1], match_length=4, source=None, drafter="test")
    assert type(draft.match_length) is type(draft.token_ids[0]) is int
    assert guarded(Draft([1], match_length=np.int64(3))).draft([0], 5).match_length == 3
    kept = Draft([1], source="here", drafter="member", match_length=2)
    assert guarded(kept).draft([0], 5) == kept


def test_answer_that_is_changed_later_does_not_change_the_draft() -> None:
    answer = [1, 2]
    draft = guarded(answer).draft([0], 5)
    answer[:] = [7, 7, 7]
    assert draft.token_ids == [1, 2]


class UnspeakableError(Exception):
    """An error that cannot even say what it is."""

    def __str__(self) -> str:
        raise SystemExit


class Panic(BaseException):
    """What a Rust extension raises that panics: no `Exception`."""


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise error

    return fail


def recursive(*_: object) -> Any:
    return recursive()


ERRORS = [
    RuntimeError("x"),
    SystemExit(1),
    GeneratorExit(),
    MemoryError(),
    StopIteration(),
    UnspeakableError(),
    Panic(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_a_drafter_raises_stays_inside(error: BaseException) -> None:
    drafter = guarded(raising(error))
    assert drafter.draft([0], 5) is NO_DRAFT
    assert drafter.num_faults == {type(error).__name__: 1}


def test_endless_recursion_stays_inside() -> None:
    drafter = guarded(recursive)
    assert drafter.draft([0], 5) is NO_DRAFT
    assert drafter.num_faults == {"RecursionError": 1}


def test_generator_that_raises_midway_is_no_guess() -> None:
    def midway(*_: object) -> Any:
        yield 1
        raise RuntimeError("midway")

    drafter = guarded(midway)
    assert drafter.draft([0], 5) is NO_DRAFT
    assert drafter.num_faults == {"RuntimeError": 1}


def test_interrupt_by_the_user_is_no_fault_of_the_drafter() -> None:
    drafter = guarded(raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        drafter.draft([0], 5)
    assert not drafter.num_faults


class Failing(OracleDrafter):
    """Raises wherever it is touched, but for drafting."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(range(10))
        self.error = error

    @property
    def suggested_k(self) -> int:  # type: ignore[override]
        raise self.error

    def _fail(self, *_: object) -> Any:
        raise self.error

    clone = reset = accept = memory_bytes = _fail


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_drafter_that_raises_everywhere_else_can_still_guess(error: BaseException) -> None:
    drafter, name = GuardedDrafter("test", Failing(error), VOCAB_SIZE), type(error).__name__
    assert (drafter.suggested_k, drafter.memory_bytes()) == (None, 0)
    draft = drafter.draft([0], 2)
    drafter.accept(draft, 1)
    assert draft.token_ids == [1, 2]
    assert drafter.num_faults == {name: 1}
    assert drafter.draft([0], 2).token_ids == [1, 2]
    drafter.reset()
    assert drafter.num_faults == {name: 2}
    assert drafter.is_quarantined  # it may still know the session that was to be forgotten
    clone = drafter.clone()
    assert (clone.is_quarantined, clone.num_faults) == (True, {name: 1})
    assert clone.draft([0], 2) is NO_DRAFT


@pytest.mark.parametrize("value", [None, 5, "drafter", OracleDrafter], ids=repr)
def test_clone_that_is_no_drafter_is_quarantined(value: object) -> None:
    class Odd(OracleDrafter):
        def clone(self) -> Any:
            return value

    clone = GuardedDrafter("test", Odd([1]), VOCAB_SIZE).clone()
    assert (clone.is_quarantined, clone.num_faults) == (True, {"TypeError": 1})


def test_clone_is_a_new_drafter_without_the_old_faults() -> None:
    drafter = guarded(None)
    drafter.draft([0], 5)
    clone = drafter.clone()
    assert not clone.num_faults
    assert clone.name == "test"
    clone.draft([0], 5)
    assert drafter.num_faults == clone.num_faults == {"TypeError": 1}


@pytest.mark.parametrize(
    ("value", "suggested"),
    [(None, None), (4, 4), (0, 0), (np.int64(3), 3), (-1, None), ("4", None), (2.5, None), (10**9, 10**9)],
)
def test_suggested_k_is_a_number_or_none(value: Any, suggested: int | None) -> None:
    drafter = OracleDrafter([1])
    drafter.suggested_k = value
    assert GuardedDrafter("test", drafter, VOCAB_SIZE).suggested_k == suggested


@pytest.mark.parametrize(("value", "memory"), [(7, 7), (-7, 0), (np.int64(3), 3), ("7", 0), (1.5, 0), (None, 0)])
def test_memory_is_a_number_of_bytes_whatever_the_drafter_says(value: Any, memory: int) -> None:
    class Odd(OracleDrafter):
        def memory_bytes(self) -> Any:
            return value

    assert GuardedDrafter("test", Odd([1]), VOCAB_SIZE).memory_bytes() == memory


def test_drafter_that_fails_too_often_in_a_row_is_left_alone_until_reset() -> None:
    calls = []

    def fail(tokens: Sequence[int], max_k: int) -> object:
        calls.append(max_k)
        return None

    drafter = guarded(fail)
    for _ in range(10):
        drafter.draft([0], 5)
        drafter.accept(NO_DRAFT, 0)
    assert len(calls) == MAX_CONSECUTIVE_FAULTS
    assert drafter.num_faults.total() == MAX_CONSECUTIVE_FAULTS
    assert drafter.why_no_guess() == "the drafter is quarantined"
    drafter.reset()
    drafter.draft([0], 5)
    assert len(calls) == MAX_CONSECUTIVE_FAULTS + 1


def test_drafter_that_fails_now_and_then_is_kept() -> None:
    answers = itertools.cycle([None, None, [1]])
    drafter = guarded(lambda *_: next(answers))
    for _ in range(30):
        drafter.draft([0], 5)
    assert not drafter.is_quarantined
    assert drafter.num_faults == {"TypeError": 20}


def test_first_fault_and_the_quarantine_are_said_once_each(caplog: pytest.LogCaptureFixture) -> None:
    drafter = guarded(raising(RuntimeError("the cause")))
    with caplog.at_level(logging.WARNING, "cera"):
        for _ in range(10):
            drafter.draft([0], 5)
    first, quarantine = caplog.messages
    assert first == ("The drafter 'test' failed with RuntimeError: the cause; the text is not affected.")
    assert "broke its contract 3 times in a row and is not asked again" in quarantine


def test_drafter_that_never_had_a_guess_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    drafter = guarded(lambda *_: [])
    with caplog.at_level(logging.WARNING, "cera"):
        for _ in range(3 * MANY_SILENT_ROUNDS):
            drafter.draft([0], 5)
    assert caplog.messages == [
        "The drafter 'test' had no guess in 256 rounds, so it saves nothing; check what it drafts from, or choose "
        "another."
    ]


def test_drafter_that_had_one_guess_is_not_silent(caplog: pytest.LogCaptureFixture) -> None:
    answers = iter([[1], *[[]] * 600])
    drafter = guarded(lambda *_: next(answers))
    with caplog.at_level(logging.WARNING, "cera"):
        for _ in range(600):
            drafter.draft([0], 5)
    assert caplog.messages == []


def test_new_faults_are_taken_once() -> None:
    drafter = guarded(lambda tokens, max_k: 1 // tokens[0])
    drafter.draft([0], 5)
    drafter.draft([1], 5)
    assert drafter.take_new_faults() == {"test": {"ZeroDivisionError": 1, "TypeError": 1}}
    assert drafter.take_new_faults() == {"test": {}}
    drafter.draft([1], 5)
    assert drafter.take_new_faults() == {"test": {"TypeError": 1}}


def test_faults_of_the_members_of_a_group_are_taken_too() -> None:
    group = AutoDrafter([GuardedDrafter("bad", BrokenDrafter(raising(OSError())), VOCAB_SIZE)])
    drafter = GuardedDrafter("auto", group, VOCAB_SIZE)
    drafter.draft([0], 5)
    assert drafter.take_new_faults() == {"auto": {}, "bad": {"OSError": 1}}


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([[], []], "the drafter had no guess"),
        ([[], None], "the drafter failed"),
        ([None, None], "the drafter failed"),
    ],
)
def test_group_says_why_nobody_guessed(answers: list[Any], reason: str) -> None:
    members = [GuardedDrafter(f"drafter {place}", BrokenDrafter(lambda *_, answer=answer: answer), VOCAB_SIZE)
               for place, answer in enumerate(answers)]  # fmt: skip
    drafter = GuardedDrafter("auto", AutoDrafter(members), VOCAB_SIZE)
    drafter.draft([0], 5)
    assert drafter.why_no_guess() == reason
    for member in members[:1]:
        member.is_quarantined = True
    assert drafter.why_no_guess() == reason
    for member in members:
        member.is_quarantined = True
    assert drafter.why_no_guess() == "the drafter is quarantined"


def test_guard_is_a_drafter() -> None:
    assert isinstance(guarded([]), Drafter)


def slow_guesses(drafter: GuardedDrafter, *are_slow: bool) -> None:
    for is_slow in are_slow:
        drafter.draft([0], 5)
        drafter.judge_pace(lambda seconds, is_slow=is_slow: seconds > 0 and is_slow)


def test_slow_guess_now_and_then_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    drafter = guarded([1])
    slow_guesses(drafter, *[True, True, False] * 5)
    assert (drafter.num_faults, drafter.is_quarantined, caplog.messages) == ({}, False, [])


def test_guesses_that_are_slow_in_a_row_end_the_drafter_until_reset() -> None:
    drafter = guarded([1])
    slow_guesses(drafter, *[True] * 3)
    assert (drafter.num_faults, drafter.is_quarantined) == ({"slow": 3}, True)
    drafter.reset()
    slow_guesses(drafter, True, True)
    assert not drafter.is_quarantined
