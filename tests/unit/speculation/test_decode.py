"""The loop: what a round emits, where it ends, how much it drafts, and what it tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from cera_core.drafter import Draft, Drafter
from cera_core.drafting.acceptance import Acceptance
from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import ModelError
from cera_core.generation_options import GenerationOptions
from cera_core.specs import RoundEvent
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.context import Context
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import DecodeLoop, Emission, first_tokens
from cera_core.speculation.finish import FinishRules
from cera_core.speculation.sampling import Sampler
from cera_core.speculation.stats import SpecStats
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter
from cera_core.testing.fakes import ScriptedModel, TableModel

SCRIPT = [10, 11, 12, 13, 14, 15, 16, 17]
PROMPT = [8, 9] * 9
START = len(PROMPT)
TEXT = [12, 13, 14, 15, 16, 17, 10, 11, 12, 13]
"""What a model of that script says after that prompt."""


@dataclass
class Run:
    """A loop over a scripted model, and everything it did."""

    model: TableModel = field(default_factory=lambda: ScriptedModel(SCRIPT))
    drafter: Drafter | None = None
    stop_ids: Sequence[int] = ()
    is_cancelled: Callable[[], bool] = lambda: False
    options: dict[str, Any] = field(default_factory=dict)
    prompt: Sequence[int] = tuple(PROMPT)

    def __post_init__(self) -> None:
        self.events: list[RoundEvent] = []
        self.stats = SpecStats()
        self.context = Context(self.model, self.model.new_state())
        self.context.append(self.prompt)
        self.context.catch_up()
        self.model.forward_sizes.clear()
        self.loop = self.new_loop()

    def new_loop(self) -> DecodeLoop:
        options = GenerationOptions(**{"max_tokens": 8, "adaptive": False, **self.options})
        sampler = Sampler(options, len(self.context.history), self.stop_ids)
        sampler.push_all(self.context.history.view())
        vocab_size = self.model.config.vocab_size
        return DecodeLoop(
            self.context,
            sampler=sampler,
            rules=FinishRules(self.stop_ids, options.max_tokens, options.min_tokens),
            drafter=None if self.drafter is None else GuardedDrafter("test", self.drafter, vocab_size),
            budget=DraftBudget(options, RoundCosts(), Acceptance()),
            stats=self.stats,
            is_cancelled=self.is_cancelled,
            on_round=self.events.append,
        )

    def finish(self) -> list[Emission]:
        return list(self.loop.run())

    @property
    def emitted(self) -> list[int]:
        return self.context.history.view()[len(self.prompt) :]


def oracle(*token_ids: int) -> OracleDrafter:
    """Guesses these tokens after the prompt, by position."""
    return OracleDrafter([*PROMPT, *token_ids])


def finished(**parts: Any) -> Run:
    run = Run(**parts)
    run.finish()
    assert_consistent(run)
    return run


def assert_consistent(run: Run) -> None:
    """History and cache end at the same token, the row is the one after it, and every token is counted once."""
    tokens = list(run.context.history.view())
    assert run.context.state.token_ids == tokens
    assert (run.context.next_row == run.model.row(tokens)).all()
    stats = run.stats
    assert stats.num_emitted == len(run.emitted) == stats.num_plain_steps + stats.num_emitted_by_rounds
    assert [token_id for event in run.events for token_id in event.token_ids] == run.emitted
    assert sum(stats.skip_reasons.values()) == stats.num_plain_steps
    assert sum(run.model.forward_sizes) == stats.num_plain_steps + stats.num_rounds + stats.num_drafted


def test_without_a_drafter_every_step_is_plain() -> None:
    run = finished()
    assert run.emitted == TEXT[:8]
    assert run.model.forward_sizes == [1] * 8
    assert run.stats.skip_reasons == {"no drafter was asked for": 7, "the text ended": 1}
    assert run.loop.finish_reason == "max_tokens"


def test_right_guesses_take_fewer_forwards_for_the_same_text() -> None:
    run = finished(drafter=oracle(*TEXT), options={"max_draft_tokens": 3})
    assert run.emitted == TEXT[:8]
    assert run.model.forward_sizes == [4, 4]
    assert (run.stats.num_rounds, run.stats.num_drafted, run.stats.num_accepted) == (2, 6, 6)


def test_round_commits_at_least_one_token_however_wrong_the_guess() -> None:
    """The same wrong guess is never offered again in the same place, because the place moves on."""
    histories = []

    def always_wrong(tokens: Sequence[int], max_k: int) -> list[int]:
        histories.append(len(tokens))
        return [63] * min(max_k, 2)

    run = finished(drafter=BrokenDrafter(always_wrong))
    assert run.emitted == TEXT[:8]
    assert histories == [START + num_emitted for num_emitted in range(1, 8)]
    assert (run.stats.num_accepted, run.stats.num_rounds) == (0, 7)


def test_guess_is_judged_from_the_token_after_the_chosen_one() -> None:
    seen = []

    def record(tokens: Sequence[int], max_k: int) -> list[int]:
        seen.append(list(tokens))
        return []

    finished(drafter=BrokenDrafter(record), options={"max_tokens": 3})
    assert seen == [[*PROMPT, 12], [*PROMPT, 12, 13]]


def test_emissions_say_who_guessed_them() -> None:
    run = Run(drafter=oracle(12, 13, 63), options={"max_tokens": 4})
    assert [(emission.token_id, emission.drafter) for emission in run.finish()] == [
        (12, None),
        (13, "test"),
        (14, None),
        (15, None),
    ]


def test_emissions_carry_the_row_they_were_chosen_from() -> None:
    model = TableModel()
    prompt = [1, 2] * 8
    plain = Run(model=model, prompt=prompt)
    plain.finish()
    run = Run(model=model, prompt=prompt, drafter=OracleDrafter([*prompt, *plain.emitted], 16, wrong_every=4))
    for place, emission in enumerate(run.loop.run()):
        assert (emission.row == model.row([*prompt, *plain.emitted[:place]])).all()
    assert run.stats.num_drafted > run.stats.num_accepted > 0


def test_last_emission_says_why_the_text_ends_with_it() -> None:
    run = Run(drafter=oracle(*TEXT))
    assert [emission.finish_reason for emission in run.finish()] == [None] * 7 + ["max_tokens"]


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 3, 5])
def test_budget_is_kept_to_the_token(max_tokens: int) -> None:
    run = finished(drafter=oracle(*TEXT), options={"max_tokens": max_tokens})
    assert run.emitted == TEXT[:max_tokens]
    assert run.loop.finish_reason == "max_tokens"
    assert run.stats.num_rounds == (max_tokens > 1)  # one round is enough


def test_stop_token_is_neither_emitted_nor_counted_nor_cached() -> None:
    for drafter in (None, oracle(*TEXT)):
        run = finished(drafter=drafter, stop_ids=[15])
        assert run.emitted == TEXT[:3]
        assert run.loop.finish_reason == "stop"


def test_stop_token_chosen_first_ends_an_empty_text() -> None:
    run = finished(drafter=oracle(*TEXT), stop_ids=[12])
    assert (run.emitted, run.loop.finish_reason) == ([], "stop")


def test_stop_token_as_the_first_guess_ends_the_text_after_the_chosen_token() -> None:
    run = finished(drafter=oracle(*TEXT), stop_ids=[13])
    assert (run.emitted, run.loop.finish_reason) == ([12], "stop")
    assert (run.stats.num_drafted, run.stats.num_accepted) == (1, 0)  # the stop token is not emitted


@pytest.mark.parametrize("stop_ids", [[14, 16], [16, 14], [60, 14, 61]])
def test_first_of_several_stop_tokens_ends_the_text(stop_ids: list[int]) -> None:
    run = finished(drafter=oracle(*TEXT), stop_ids=stop_ids)
    assert (run.emitted, run.loop.finish_reason) == ([12, 13], "stop")


def test_stop_token_inside_the_budget_is_stop_and_one_past_it_is_not() -> None:
    for drafter in (None, oracle(*TEXT)):
        inside = finished(drafter=drafter, stop_ids=[15], options={"max_tokens": 4})
        assert (inside.emitted, inside.loop.finish_reason) == ([12, 13, 14], "stop")
        past = finished(drafter=drafter, stop_ids=[15], options={"max_tokens": 3})
        assert (past.emitted, past.loop.finish_reason) == ([12, 13, 14], "max_tokens")


def test_guess_is_cut_after_the_first_stop_token() -> None:
    run = finished(drafter=oracle(*TEXT), stop_ids=[14, 15])
    assert run.model.forward_sizes == [3]  # the chosen token, the next, and the stop token


def test_stop_tokens_do_not_count_before_min_tokens_with_and_without_guesses() -> None:
    texts = []
    for drafter in (None, OracleDrafter([*PROMPT, 12, 0, 0, 0, 0]), oracle(*TEXT)):
        run = finished(drafter=drafter, stop_ids=[13, 15], options={"min_tokens": 2})
        texts.append(run.emitted)
        assert run.loop.finish_reason == "stop"
    assert texts == [[12, 0, 14]] * 3  # 13 was banned in the second place: the lowest other id is said instead


def test_full_context_ends_the_text() -> None:
    for drafter in (None, oracle(*TEXT)):
        run = finished(model=ScriptedModel(SCRIPT, max_seq_len=START + 4), drafter=drafter)
        assert (run.emitted, run.loop.finish_reason) == (TEXT[:4], "context_full")


def test_prompt_that_fills_the_context_emits_nothing() -> None:
    run = finished(model=ScriptedModel(SCRIPT, max_seq_len=START), drafter=oracle(*TEXT))
    assert (run.emitted, run.loop.finish_reason) == ([], "context_full")


def test_prompt_one_short_of_the_context_emits_one_token() -> None:
    run = finished(model=ScriptedModel(SCRIPT, max_seq_len=START + 1), drafter=oracle(*TEXT))
    assert (run.emitted, run.loop.finish_reason) == ([12], "context_full")
    assert run.stats.skip_reasons == {"the context has no room for a draft": 1}


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("supports_all_logits", False, "the model gives logits for the last token only"),
        ("supports_rewind", False, "the model cannot rewind"),
        ("max_batch", 1, "the model takes one token a forward"),
        ("_headroom", 0, "the model cannot rewind now"),
    ],
)
def test_model_that_cannot_verify_decodes_plainly_and_says_why(attribute: str, value: object, reason: str) -> None:
    class Lacking(ScriptedModel):
        def forward_all(self, token_ids: Any, state: Any) -> Any:
            rows = super().forward_all(token_ids, state)
            assert len(rows) == 1 or state.token_ids == PROMPT  # nothing was verified
            return rows

    model = Lacking(SCRIPT)
    prompt_batch = model.max_batch
    run = Run(model=model, drafter=oracle(*TEXT))
    setattr(model, attribute, value)
    run.loop = run.new_loop()
    run.finish()
    assert prompt_batch > 1
    assert run.emitted == TEXT[:8]
    assert run.stats.skip_reasons[reason] == 7
    assert run.stats.num_rounds == 0


def test_compressed_state_is_not_verified() -> None:
    run = Run(drafter=oracle(*TEXT))
    run.context.state.is_compressed = True
    run.finish()
    assert run.emitted == TEXT[:8]
    assert run.stats.skip_reasons == {"the state is compressed": 7, "the text ended": 1}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ([], "the drafter had no guess"),
        (None, "the drafter failed"),
        ([64], "the drafter failed"),
    ],
)
def test_step_without_a_guess_says_why(answer: object, reason: str) -> None:
    run = finished(drafter=BrokenDrafter(lambda *_: answer), options={"max_tokens": 3})
    assert run.stats.skip_reasons == {reason: 2, "the text ended": 1}


def test_drafter_that_failed_too_often_is_asked_no_more_and_the_steps_say_so() -> None:
    run = finished(drafter=BrokenDrafter(lambda *_: 1 // 0))
    assert run.stats.skip_reasons == {"the drafter failed": 2, "the drafter is quarantined": 5, "the text ended": 1}


def test_drafting_that_was_turned_off_says_so() -> None:
    run = finished(drafter=oracle(*TEXT), options={"max_draft_tokens": 0})
    assert run.stats.skip_reasons == {"'max_draft_tokens' is 0": 7, "the text ended": 1}


def test_guess_that_does_not_pay_is_not_verified() -> None:
    run = finished(drafter=oracle(*TEXT), options={"adaptive": True, "max_tokens": 2})
    assert run.stats.skip_reasons == {"the guess was not worth its cost": 1, "the text ended": 1}


@pytest.mark.parametrize("num_before_cancel", range(7))
def test_cancel_ends_after_the_token_under_way(num_before_cancel: int) -> None:
    for drafter in (None, oracle(*TEXT)):
        emissions: list[Emission] = []
        run = Run(drafter=drafter, is_cancelled=lambda emissions=emissions: len(emissions) > num_before_cancel)
        for emission in run.loop.run():
            emissions.append(emission)  # noqa: PERF402 - the cancel looks at it
        assert run.emitted == TEXT[: num_before_cancel + 1]
        assert run.loop.finish_reason == "cancelled"
        assert_consistent(run)


def test_cancel_before_the_first_token_emits_nothing() -> None:
    run = finished(is_cancelled=lambda: True)
    assert (run.emitted, run.loop.finish_reason) == ([], "cancelled")


@pytest.mark.parametrize("num_read", range(1, 8))
def test_closing_between_two_tokens_keeps_what_was_read(num_read: int) -> None:
    run = Run(drafter=oracle(*TEXT), options={"max_draft_tokens": 3})
    emissions = run.loop.run()
    for _ in range(num_read):
        next(emissions)
    emissions.close()
    assert run.emitted == TEXT[:num_read]
    run.context.catch_up()
    assert run.context.state.token_ids == [*PROMPT, *TEXT[:num_read]]
    run.options["max_tokens"] = 8 - num_read
    run.loop = run.new_loop()
    run.finish()
    assert run.emitted == TEXT[:8]


def test_counts_after_closing_add_up_but_for_the_token_under_way() -> None:
    run = Run(drafter=oracle(*TEXT), options={"max_draft_tokens": 3})
    emissions = run.loop.run()
    for _ in range(3):
        next(emissions)
    emissions.close()
    assert (run.stats.num_emitted, run.stats.num_emitted_by_rounds, run.stats.num_accepted) == (3, 3, 2)
    assert run.events[-1].token_ids == tuple(TEXT[:3])


def test_events_say_what_each_round_did() -> None:
    run = Run(
        drafter=BrokenDrafter(
            lambda tokens, max_k: Draft([13, 63], source="a guess") if len(tokens) == START + 1 else []
        )
    )
    run.finish()
    first, second = run.events[:2]
    assert (first.position, first.token_ids, first.num_drafted, first.num_accepted) == (START, (12, 13), 2, 1)
    assert (first.drafter, first.source, first.skip_reason) == ("test", "a guess", None)
    assert first.draft_seconds > 0
    assert first.verify_seconds > 0
    assert (second.position, second.token_ids, second.num_drafted, second.num_accepted) == (START + 2, (14,), 0, 0)
    assert (second.drafter, second.skip_reason) == (None, "the drafter had no guess")


class Feedback(OracleDrafter):
    """Notes what it is told after a round."""

    def __init__(self, token_ids: Sequence[int]) -> None:
        super().__init__(token_ids)
        self.told: list[tuple[list[int], int]] = []

    def accept(self, draft: Draft, num_accepted: int) -> None:
        self.told.append((list(draft.token_ids), num_accepted))


def test_drafter_is_told_what_the_model_agreed_with() -> None:
    drafter = Feedback([*PROMPT, 12, 13, 63, 63, 16, 17, 10])
    finished(drafter=drafter, options={"max_draft_tokens": 2, "max_tokens": 7})
    assert drafter.told == [([13, 63], 1), ([63, 16], 0), ([16, 17], 2)]


def test_unusable_row_behind_a_guess_is_an_error_only_when_its_turn_comes() -> None:
    class Failing(ScriptedModel):
        def row(self, tokens: Sequence[int]) -> Any:
            return super().row(tokens) * (float("nan") if len(tokens) == START + 3 else 1)

    outcomes = []
    for drafter in (None, oracle(*TEXT)):
        run = Run(model=Failing(SCRIPT), drafter=drafter)
        emitted = []
        with pytest.raises(ModelError, match=r"nothing but NaN. That was for position 21"):
            emitted += [emission.token_id for emission in run.loop.run()]
        outcomes.append(run.emitted)
        ended_before = finished(model=Failing(SCRIPT), drafter=drafter, options={"max_tokens": 2})
        assert ended_before.emitted == TEXT[:2]
    assert outcomes == [TEXT[:3]] * 2


def test_first_tokens_cut_confidences_too() -> None:
    draft = Draft([1, 2, 3], confidences=[0.9, 0.8, 0.7], match_length=4, source="x", drafter="y")
    assert first_tokens(draft, 2) == Draft([1, 2], [0.9, 0.8], 4, "x", "y")
    assert first_tokens(draft, 3) is draft
    assert first_tokens(Draft([1, 2]), 1) == Draft([1])
