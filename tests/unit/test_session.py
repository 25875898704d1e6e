"""A session: what it commits, what it refuses, and that it goes on after whatever happened."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from cera_core.drafter import Draft
from cera_core.errors import ConfigError, InvalidInputError, ModelError, SessionBusyError
from cera_core.generation_options import GenerationOptions
from cera_core.model import InferenceState
from cera_core.observers import Observers
from cera_core.session import Session
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter, RandomDrafter
from cera_core.testing.fakes import ScriptedModel, TableModel
from support.gate import Gate
from support.sessions import PROMPT, assert_consistent, plain, session_of
from support.spelling import SpellingTokenizer

NUM_TOKENS = 40
FIXED: dict[str, Any] = {"max_tokens": NUM_TOKENS, "adaptive": False}


def oracle(wrong_every: int = 5, **options: Any) -> OracleDrafter:
    """Guesses what a plain run says, wrong at times."""
    text = plain(**{"max_tokens": 150, **options}).token_ids
    return OracleDrafter([*PROMPT, *text], 16, wrong_every)


def test_generate_commits_what_it_emits() -> None:
    session = session_of()
    generation = session.generate(max_tokens=5)
    assert session.token_ids == PROMPT + generation.token_ids
    assert session.position == len(PROMPT) + 5
    assert generation.finish_reason == "max_tokens"
    assert (generation.text, generation.seed, generation.logprobs) == ("", None, None)
    assert_consistent(session)


def test_token_ids_are_a_copy() -> None:
    session = session_of()
    session.token_ids.append(3)
    assert session.token_ids == PROMPT


def test_nothing_to_go_on_from_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="A prompt of at least one token is required"):
        session_of([]).generate()


def test_stream_of_a_session_that_was_emptied_meanwhile_is_refused() -> None:
    session = session_of()
    stream = session.stream(max_tokens=5)
    session.reset()
    with pytest.raises(InvalidInputError, match="A prompt of at least one token is required"):
        next(stream)
    session.append(PROMPT)
    assert session.generate(max_tokens=5).token_ids == plain(max_tokens=5).token_ids


@pytest.mark.parametrize(
    "tokens", [5, 1.5, b"abc", bytearray(b"abc"), iter([1, 2])], ids=lambda tokens: type(tokens).__name__
)
def test_what_is_neither_text_nor_ids_is_refused(tokens: Any) -> None:
    session = session_of()
    with pytest.raises(InvalidInputError, match="Text or a sequence of token ids is required, found "):
        session.append(tokens)
    with pytest.raises(InvalidInputError, match="Text or a sequence of token ids is required, found "):
        session.replace(tokens)
    with pytest.raises(InvalidInputError, match="Text or a sequence of token ids is required, found "):
        session.generate(prediction=tokens)
    assert session.token_ids == PROMPT


@pytest.mark.parametrize("tokens", [np.array([1, 2]), (1, 2), [np.int64(1), 2]], ids=repr)
def test_ids_may_come_in_any_sequence(tokens: Any) -> None:
    session = session_of()
    session.append(tokens)
    assert session.token_ids == [*PROMPT, 1, 2]


def test_append_costs_nothing_until_prefill_or_generate() -> None:
    model = TableModel()
    session = session_of(model=model)
    assert model.forward_sizes == []
    assert session.prefill()
    assert model.forward_sizes == [len(PROMPT)]
    assert session.prefill()
    session.generate(max_tokens=1)
    assert model.forward_sizes == [len(PROMPT), 1]


def test_generate_again_goes_on_without_a_forward_for_what_is_there() -> None:
    """The row after the last token is kept, so that a second generation needs no append."""
    model = TableModel()
    session = session_of(model=model)
    first = session.generate(max_tokens=3).token_ids
    second = session.generate(max_tokens=4).token_ids
    assert first + second == plain(max_tokens=7).token_ids
    assert model.forward_sizes == [len(PROMPT)] + [1] * 7


def test_history_with_ids_that_are_none_is_refused_and_stays() -> None:
    session = session_of()
    for bad in ([16], [-1], [1.5], ["3"]):
        with pytest.raises(InvalidInputError, match="token id"):
            session.append(bad)
        with pytest.raises(InvalidInputError, match="token id"):
            session.replace(bad)
    session.append(np.array([3, 4]))  # type: ignore[arg-type]
    assert session.token_ids == [*PROMPT, 3, 4]


def test_options_of_the_session_hold_where_a_call_says_nothing_else() -> None:
    session = session_of(options=GenerationOptions(max_tokens=3, stop_token_ids=(99,)), model=TableModel(100))
    assert len(session.generate().token_ids) <= 3
    assert len(session.generate(max_tokens=5, stop_token_ids=()).token_ids) == 5
    assert len(session.generate().token_ids) <= 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_tokns": 3}, ConfigError, r"'max_tokns' is not an option of a generation. Did you mean 'max_tokens'"),
        ({"top_p": 0}, ConfigError, "'top_p'"),
        ({"stop": "x"}, InvalidInputError, "'stop' needs a tokenizer"),
        ({"logit_bias": {16: 1.0}}, InvalidInputError, "'logit_bias' takes token ids from 0 to 15"),
        ({"stop_token_ids": [3, 16]}, InvalidInputError, "'stop_token_ids' takes token ids from 0 to 15"),
        ({"drafter": "echo"}, InvalidInputError, "'echo' can be chosen by its name only"),
        ({"drafter": 5}, InvalidInputError, "'drafter' takes a drafter's name, a Drafter or None; it is a int"),
        ({"drafter": OracleDrafter}, InvalidInputError, "it is the class OracleDrafter"),
        ({"prediction": "text"}, InvalidInputError, "'prediction' of text needs a tokenizer"),
    ],
)
def test_option_that_cannot_be_honoured_is_refused_and_never_dropped(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    session = session_of()
    with pytest.raises(error, match=message):
        session.generate(**options)
    with pytest.raises(error, match=message):
        session.stream(**options)  # before the first token is asked for
    assert session.generate(max_tokens=5).token_ids == plain(max_tokens=5).token_ids


def test_option_with_an_effect_is_not_said(caplog: pytest.LogCaptureFixture) -> None:
    from cera_core.request import _say_once

    _say_once.cache_clear()
    with caplog.at_level(logging.WARNING, "cera"):
        session_of().generate(max_tokens=1, temperature=1.0, top_p=0.9, max_draft_tokens=4, drafter=RandomDrafter(16))
        session_of(options=GenerationOptions(top_p=0.9)).generate(max_tokens=1)  # the command line's to say
    assert caplog.messages == []


def test_seed_that_was_not_given_is_drawn_and_recorded() -> None:
    first, other = (plain(max_tokens=20, temperature=1.0) for _ in range(2))
    assert first.token_ids != other.token_ids
    assert plain(max_tokens=20, temperature=1.0, seed=first.seed).token_ids == first.token_ids


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 5}])
def test_same_seed_gives_the_same_text_with_and_without_drafts(options: dict[str, Any]) -> None:
    generation = session_of().generate(drafter=oracle(**options), **FIXED, **options)
    assert generation.token_ids == plain(max_tokens=NUM_TOKENS, **options).token_ids
    assert generation.seed == options.get("seed")
    assert generation.stats.num_drafted > generation.stats.num_accepted > 0


# Where a generation ends, with and without drafts, and how it goes on from there.


@pytest.mark.parametrize("num_left", [0, 1, 2, 7])
def test_context_is_filled_to_the_last_token(num_left: int) -> None:
    session = session_of(max_seq_len=len(PROMPT) + num_left)
    assert session.max_seq_len == len(PROMPT) + num_left
    generation = session.generate(drafter=oracle(), **FIXED)
    assert generation.token_ids == plain(max_tokens=NUM_TOKENS).token_ids[:num_left]
    assert generation.finish_reason == "context_full"
    assert session.generate(drafter=oracle(), **FIXED).token_ids == []
    assert_consistent(session)


@pytest.mark.parametrize("length", [-1, 1.0, "x", None, len(PROMPT) + 1], ids=repr)
def test_a_length_that_is_none_of_the_history_is_refused(length: Any) -> None:
    session = session_of()
    with pytest.raises(InvalidInputError, match=r"^'truncate' needs a length from 0 to the 16 tokens there are; it is"):
        session.truncate(length)
    assert session.token_ids == PROMPT


def test_truncate_then_generate_equals_a_fresh_session() -> None:
    session = session_of()
    session.generate(drafter=oracle(), **FIXED)
    for length in (len(PROMPT) + 11, len(PROMPT), 3):
        session.truncate(length)
        fresh = session_of(session.token_ids)
        assert session.generate(drafter=oracle(), **FIXED).token_ids == fresh.generate(max_tokens=NUM_TOKENS).token_ids
        assert_consistent(session)


def test_reset_forgets_all_but_the_options() -> None:
    session = session_of(options=GenerationOptions(max_tokens=6), drafter=RandomDrafter(16))
    session.generate()
    session.reset()
    assert (session.position, session.token_ids) == (0, [])
    session.append(PROMPT)
    assert session.generate().token_ids == plain(max_tokens=6).token_ids


def test_reset_gives_a_quarantined_drafter_another_chance() -> None:
    session = session_of(drafter=BrokenDrafter(lambda *_: None))
    assert session.generate(**FIXED).stats.skip_reasons["the drafter is quarantined"] > 0
    session.reset()
    session.append(PROMPT)
    assert session.generate(**FIXED).stats.skip_reasons["the drafter failed"] == 2


def test_fork_goes_its_own_way() -> None:
    model = TableModel()
    session = session_of(model=model)
    session.generate(max_tokens=5)
    model.forward_sizes.clear()
    fork = session.fork()
    assert model.forward_sizes == []
    fork.append([3])
    assert session.generate(max_tokens=20).token_ids == plain(max_tokens=25).token_ids[5:]
    prompt = [*PROMPT, *plain(max_tokens=5).token_ids, 3]
    assert fork.generate(max_tokens=20).token_ids == plain(prompt, max_tokens=20).token_ids
    assert fork.token_ids[: len(prompt)] == prompt


def test_fork_draws_with_the_seed_it_is_given() -> None:
    session = session_of(options=GenerationOptions(temperature=1.0, seed=1, max_tokens=20))
    same, other = session.fork(), session.fork(seed=2)
    texts = [each.generate().token_ids for each in (session, same, other)]
    assert texts[0] == texts[1] == plain(temperature=1.0, seed=1, max_tokens=20).token_ids
    assert texts[2] == plain(temperature=1.0, seed=2, max_tokens=20).token_ids
    with pytest.raises(ConfigError, match="'seed'"):
        session.fork(seed=-1)


def test_fork_of_an_open_stream_is_refused_and_of_a_model_that_cannot_copy_too() -> None:
    class NoCopies(TableModel):
        supports_copy = False

        def copy_state(self, state: InferenceState) -> Any:
            return super(TableModel, self).copy_state(state)

    with pytest.raises(ModelError, match="cannot copy a state"):
        session_of(model=NoCopies()).fork()
    session = session_of()
    stream = session.stream()
    next(stream)
    with pytest.raises(SessionBusyError):
        session.fork()
    stream.close()


def test_fork_shares_neither_drafters_nor_work_nor_cancel_with_its_original() -> None:
    asked: dict[int, list[int]] = {}

    class Noting(RandomDrafter):
        def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
            asked.setdefault(id(self), []).append(len(tokens))
            return super().draft(tokens, max_k)

        def clone(self) -> Any:
            return Noting(16)

    session = session_of(drafter=Noting(16))
    session.generate(**FIXED)
    fork = session.fork()
    with session.stream(**FIXED) as stream:
        next(stream)
        assert fork.generate(**FIXED).token_ids == plain(max_tokens=2 * NUM_TOKENS).token_ids[NUM_TOKENS:]
        fork.cancel()
        next(stream)
        session.cancel()
        assert len(fork.generate(**FIXED).token_ids) == NUM_TOKENS
        assert list(stream) == []
    assert stream.generation.finish_reason == "cancelled"
    assert len(asked) == 2


def test_fork_may_run_beside_its_original_on_another_thread() -> None:
    session = session_of()
    session.prefill()
    forks = [session.fork() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda fork: fork.generate(drafter=oracle(), **FIXED).token_ids, forks))
    assert texts == [plain(max_tokens=NUM_TOKENS).token_ids] * 4


def test_sessions_on_several_threads_do_not_mix() -> None:
    model = TableModel()
    prompts = [[*PROMPT, first, 3] for first in range(16)]
    options = {"temperature": 1.0, "seed": 3, "max_tokens": 30}
    alone = [plain(prompt, **options).token_ids for prompt in prompts]

    def generated(prompt: list[int]) -> list[int]:
        session = session_of(prompt, model=model, drafter=RandomDrafter(16))
        return session.generate(adaptive=False, **options).token_ids

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(generated, prompts)) == alone


# Drafters: on or off, which and how much, by call.


def test_session_uses_a_clone_of_the_drafter() -> None:
    asked = []

    class Original(RandomDrafter):
        def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
            asked.append(self)
            return super().draft(tokens, max_k)

        def clone(self) -> Any:
            return Original(16)

    drafter = Original(16)
    sessions = [session_of(drafter=drafter) for _ in range(2)]
    for session in sessions:
        session.generate(**FIXED)
        session.generate(**FIXED)
    assert drafter not in asked
    assert len(set(map(id, asked))) == 2


def test_drafters_are_counted_and_silent_ones_are_named() -> None:
    silent = session_of(drafter=BrokenDrafter(lambda *_: [])).generate(**FIXED).stats
    assert silent.drafters["BrokenDrafter"].num_drafted == 0
    assert silent.skip_reasons == {"the drafter had no guess": NUM_TOKENS - 1, "the text ended": 1}
    talking = session_of(drafter=RandomDrafter(16)).generate(**FIXED).stats
    assert talking.drafters["RandomDrafter"].num_drafted == talking.num_drafted > 0


def test_faults_are_counted_in_the_generation_they_happened_in() -> None:
    answers = iter([None, [1], None, None, *[[]] * 1000])
    session = session_of(drafter=BrokenDrafter(lambda *_: next(answers)))
    counts = [
        session.generate(adaptive=False, max_tokens=max_tokens).stats.drafters["BrokenDrafter"].num_faults
        for max_tokens in (3, 4, 4)
    ]
    assert [sum(count.values()) for count in counts] == [1, 2, 0]
    assert session.token_ids == [*PROMPT, *plain(max_tokens=11).token_ids]


def test_drafter_that_uses_the_session_is_told_that_it_is_busy() -> None:
    sessions: list[Session] = []
    touches: list[Callable[[Session], Any]] = [
        lambda session: session.append([1]),
        lambda session: session.truncate(0),
        lambda session: session.generate(),
        lambda session: session.reset(),
    ]

    def touch(tokens: Sequence[int], max_k: int) -> Any:
        return touches[len(tokens) % len(touches)](sessions[0])

    sessions.append(session_of(drafter=BrokenDrafter(touch)))
    generation = sessions[0].generate(**FIXED)
    assert generation.token_ids == plain(max_tokens=NUM_TOKENS).token_ids
    assert generation.stats.drafters["BrokenDrafter"].num_faults == {"SessionBusyError": 3}


def test_interrupt_by_the_user_in_a_drafter_ends_the_generation_and_not_the_session() -> None:
    def interrupt(tokens: Sequence[int], max_k: int) -> Any:
        raise KeyboardInterrupt

    session = session_of()
    with pytest.raises(KeyboardInterrupt):
        session.generate(drafter=BrokenDrafter(interrupt), **FIXED)
    assert session.token_ids == PROMPT + plain(max_tokens=1).token_ids
    assert session.generate(max_tokens=5).token_ids == plain(max_tokens=6).token_ids[1:]


def test_acceptance_learned_in_one_generation_helps_the_next() -> None:
    session, drafter = session_of(), oracle(wrong_every=1)
    first = session.generate(max_tokens=NUM_TOKENS, drafter=drafter).stats
    second = session.generate(max_tokens=NUM_TOKENS, drafter=drafter).stats
    assert second.num_drafted < first.num_drafted


# Threads, streams that end early, and models that fail.


LONG_PROMPT = PROMPT * 6


@pytest.mark.parametrize(("num_before", "num_emitted"), [(0, 0), (2, 0), (6, 1), (9, 4)])
def test_cancel_from_another_thread_ends_prefill_or_decoding_within_one_forward(
    num_before: int, num_emitted: int
) -> None:
    gate = Gate(num_before)
    session = session_of(LONG_PROMPT, model=gate)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(session.generate, max_tokens=NUM_TOKENS)
        assert gate.is_reached.wait(10)
        with pytest.raises(SessionBusyError, match="in another thread or an open stream"):
            session.append([1])
        session.cancel()
        gate.may_go_on.set()
        generation = future.result(10)
    assert generation.finish_reason == "cancelled"
    assert len(gate.forward_sizes) == num_before + 1
    assert generation.token_ids == plain(LONG_PROMPT, max_tokens=NUM_TOKENS).token_ids[:num_emitted]
    rest = session.generate(max_tokens=NUM_TOKENS - num_emitted).token_ids
    assert generation.token_ids + rest == plain(LONG_PROMPT, max_tokens=NUM_TOKENS).token_ids
    assert_consistent(session)


def test_cancel_ends_a_prefill_by_itself_too() -> None:
    gate = Gate(1)
    session = session_of(LONG_PROMPT, model=gate)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(session.prefill)
        assert gate.is_reached.wait(10)
        session.cancel()
        gate.may_go_on.set()
        assert future.result(10) is False
    assert session.prefill() is True
    assert_consistent(session)


def test_cancel_of_nothing_does_not_end_what_comes_later() -> None:
    session = session_of()
    session.cancel()
    assert session.generate(max_tokens=5).finish_reason == "max_tokens"


@pytest.mark.parametrize("num_read", range(0, 20, 3))
def test_stream_may_be_closed_dropped_or_left_by_an_exception_anywhere(num_read: int) -> None:
    def close(session: Session) -> None:
        stream = session.stream(drafter=oracle(), **FIXED)
        for _ in range(num_read):
            next(stream)
        stream.close()
        assert stream.generation.finish_reason == "cancelled"
        assert len(stream.generation.token_ids) == num_read

    def drop(session: Session) -> None:
        stream = session.stream(drafter=oracle(), **FIXED)
        for _ in range(num_read):
            next(stream)
        del stream
        gc.collect()

    def fail(session: Session) -> None:
        def consume() -> None:
            for place, _ in enumerate(session.stream(drafter=oracle(), **FIXED), start=1):
                if place == num_read:
                    raise ZeroDivisionError

        if num_read:
            with pytest.raises(ZeroDivisionError):
                consume()

    for leave in (close, drop, fail):
        session = session_of()
        leave(session)
        assert session.token_ids == [*PROMPT, *plain(max_tokens=num_read).token_ids]
        rest = session.generate(drafter=oracle(), **{**FIXED, "max_tokens": NUM_TOKENS - num_read})
        assert session.token_ids == [*PROMPT, *plain(max_tokens=NUM_TOKENS).token_ids]
        assert rest.finish_reason == "max_tokens"
        assert_consistent(session)


def test_open_stream_keeps_the_session_busy_until_it_is_closed() -> None:
    session = session_of()
    with session.stream(max_tokens=5) as stream:
        next(stream)
        for use in (session.generate, session.prefill, session.reset, lambda: session.append([1])):
            with pytest.raises(SessionBusyError, match="wait, or close the stream"):
                use()
    assert session.generate(max_tokens=4).token_ids == plain(max_tokens=5).token_ids[1:]


def test_stream_that_was_never_begun_holds_nothing() -> None:
    session = session_of()
    waiting = session.stream(max_tokens=5)
    assert session.generate(max_tokens=2).token_ids == plain(max_tokens=2).token_ids
    assert [token.token_id for token in waiting] == plain(max_tokens=7).token_ids[2:]


class Faulty(TableModel):
    """Fails once, in the round that the test chooses."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.num_until = 4

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Any:
        self.num_until -= 1
        if self.num_until:
            return super().forward_all(token_ids, state)
        if self.how == "raises":
            raise RuntimeError("out of luck")
        rows = super().forward_all(token_ids, state)
        if self.how == "is interrupted":
            raise KeyboardInterrupt
        return rows * np.float32("nan") if self.how == "gives NaN" else rows[:-1]


@pytest.mark.parametrize(
    ("how", "error", "reason"),
    [
        ("raises", ModelError, "error"),
        ("gives too few rows", ModelError, "error"),
        ("gives NaN", ModelError, "error"),
        ("is interrupted", KeyboardInterrupt, "cancelled"),
    ],
)
@pytest.mark.parametrize("drafts", [True, False])
def test_model_that_fails_in_the_middle_leaves_the_text_as_if_nothing_had_happened(
    how: str, error: Any, reason: str, drafts: bool
) -> None:
    session = session_of(model=Faulty(how))
    drafter = oracle(wrong_every=4) if drafts else None
    stream = session.stream(drafter=drafter, **FIXED)
    seen = []
    with pytest.raises(error):
        seen += [token.token_id for token in iter(lambda: next(stream), None)]
    generation = stream.generation
    assert generation.finish_reason == reason
    assert session.token_ids == PROMPT + generation.token_ids
    assert 0 < len(generation.token_ids) < NUM_TOKENS
    rest = session.generate(drafter=drafter, **{**FIXED, "max_tokens": NUM_TOKENS - len(generation.token_ids)})
    assert generation.token_ids + rest.token_ids == plain(max_tokens=NUM_TOKENS).token_ids
    assert_consistent(session)


@pytest.mark.parametrize(
    ("capability", "reason"),
    [
        ("supports_all_logits", "the model gives logits for the last token only"),
        ("supports_rewind", "the model cannot rewind"),
    ],
)
def test_model_that_lacks_a_capability_decodes_plainly_and_the_stats_say_why(capability: str, reason: str) -> None:
    model = TableModel(rewind_headroom=0)
    setattr(model, capability, False)
    session = session_of(model=model)
    generation = session.generate(drafter=oracle(), **FIXED)
    assert generation.token_ids == plain(max_tokens=NUM_TOKENS).token_ids
    assert generation.stats.skip_reasons == {reason: NUM_TOKENS - 1, "the text ended": 1}
    session.truncate(5)
    assert session.generate(max_tokens=3).token_ids == plain(PROMPT[:5], max_tokens=3).token_ids


def test_failing_observer_changes_nothing_and_a_good_one_is_told_everything() -> None:
    import pluggy

    from cera_core.hookspecs import PROJECT_NAME, ObserverHooks, hookimpl

    class Watching:
        def __init__(self) -> None:
            self.rounds: list[Any] = []
            self.generations: list[Any] = []

        @hookimpl
        def cera_round_finished(self, round: Any) -> None:  # noqa: A002
            self.rounds.append(round)

        @hookimpl
        def cera_generation_finished(self, generation: Any) -> None:
            self.generations.append(generation)

    class Failing:
        @hookimpl
        def cera_round_finished(self, round: Any) -> None:  # noqa: A002
            raise RuntimeError

    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ObserverHooks)
    watching = Watching()
    manager.register(watching)
    manager.register(Failing())
    session = session_of(observers=Observers(manager))
    generation = session.generate(drafter=oracle(), **FIXED)
    assert generation.token_ids == plain(max_tokens=NUM_TOKENS).token_ids
    assert [token_id for each in watching.rounds for token_id in each.token_ids] == generation.token_ids
    assert sum(each.num_accepted for each in watching.rounds) == generation.stats.num_accepted
    assert [each.token_ids for each in watching.generations] == [tuple(generation.token_ids)]
    assert watching.generations[0].stats is generation.stats
    session.stream(max_tokens=3).close()
    stream = session.stream(max_tokens=3)
    next(stream)
    stream.close()
    assert [each.finish_reason for each in watching.generations] == ["max_tokens", "cancelled"]


# Text.

WORDS = SpellingTokenizer(["<s>", "a", "b", "c", " ", "END", "</s>"], end_ids=[6], bos_id=0)


def speaking(script: Sequence[int], **parts: Any) -> Session:
    """Makes a session whose model says a script after a prompt of 32 tokens."""
    parts = {"model": ScriptedModel(script, vocab_size=7), "tokenizer": WORDS, **parts}
    return session_of([4] * 32, **parts)


def test_text_gets_its_beginning_token_at_position_0_only() -> None:
    session = session_of([], model=ScriptedModel([1], vocab_size=7), tokenizer=WORDS)
    session.append("ab")
    session.append("c")
    assert session.token_ids == [0, 1, 2, 3]
    assert session.replace("abb") == 3
    assert session.token_ids == [0, 1, 2, 2]


def test_text_without_a_tokenizer_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="Text needs a tokenizer"):
        session_of().append("text")


def test_models_own_end_token_ends_the_text_unless_it_is_ignored() -> None:
    script = [1, 2, 6, 3]
    for drafter in (None, OracleDrafter([*[4] * 32, *script * 3])):
        options = {"drafter": drafter, "adaptive": False}
        ended = speaking(script).generate(max_tokens=8, **options)
        assert (ended.token_ids, ended.text, ended.finish_reason) == ([1, 2], "ab", "stop")
        ignored = speaking(script).generate(max_tokens=8, ignore_eos=True, **options)
        assert (ignored.token_ids, ignored.finish_reason) == ([1, 2, 6, 3] * 2, "max_tokens")


def test_stop_string_does_not_count_before_min_tokens() -> None:
    generation = speaking([1, 2, 1, 2]).generate(stop="ab", min_tokens=3, max_tokens=20)
    assert generation.text == "ab"
    assert generation.token_ids == [1, 2, 1, 2]


def test_stop_token_is_not_chosen_before_min_tokens_with_and_without_drafts() -> None:
    text = plain(max_tokens=NUM_TOKENS).token_ids
    options = {"stop_token_ids": [text[0], text[3]], "min_tokens": 12, "max_tokens": NUM_TOKENS}
    expected = plain(**options).token_ids
    assert not {text[0], text[3]} & set(expected[:12])
    generation = session_of().generate(drafter=RandomDrafter(16), adaptive=False, **options)
    assert generation.token_ids == expected
    assert generation.stats.num_drafted > 0


def test_stop_string_wins_over_the_budget_it_is_completed_with() -> None:
    assert speaking([1, 2, 3, 1]).generate(stop="c", max_tokens=3).finish_reason == "stop"
    assert speaking([1, 2, 3, 1]).generate(stop="c", max_tokens=2).finish_reason == "max_tokens"


class TestExplanation:
    """What `explain` keeps of each round."""

    def test_rounds_make_up_the_text_and_the_stats(self) -> None:
        generation = session_of().generate(drafter=oracle(), max_tokens=40, explain=True)
        rounds = generation.rounds or []
        assert [token for event in rounds for token in event.token_ids] == generation.token_ids
        assert sum(event.num_drafted for event in rounds) == generation.stats.num_drafted > 0
        assert sum(event.num_accepted for event in rounds) == generation.stats.num_accepted > 0

    def test_a_guess_is_kept_whole_with_what_it_was_judged_by(self) -> None:
        rounds = session_of().generate(drafter=oracle(), max_tokens=40, explain=True).rounds or []
        guesses = [event for event in rounds if event.guess]
        assert guesses
        for event in guesses:
            assert len(event.chances) == len(event.guess.token_ids) >= event.num_drafted
            assert len(event.steps) == len(event.chances) + 1
            assert all(0 <= chance <= 1 for chance in event.chances)

    def test_nothing_is_kept_without_it_and_the_text_is_the_same(self) -> None:
        explained = session_of().generate(drafter=oracle(), max_tokens=40, explain=True)
        bare = session_of().generate(drafter=oracle(), max_tokens=40)
        assert bare.rounds is None
        assert bare.token_ids == explained.token_ids

    def test_steps_become_seconds_by_what_a_plain_step_takes_there(self) -> None:
        generation = session_of().generate(drafter=oracle(), max_tokens=40, explain=True)
        rounds = generation.rounds or []
        assert {event.step_seconds for event in rounds} == {1.0}
        num_tokens = sum(len(event.token_ids) for event in rounds if event.num_drafted)
        assert (generation.stats.rounds_as_steps_seconds, generation.stats.num_not_compared) == (num_tokens, 0)
        assert num_tokens > 0
