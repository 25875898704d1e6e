"""Rules 8 to 13: whatever ends a text, everything ends at the same token."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cera_core.drafter import Drafter
from cera_core.errors import ContextFullError
from cera_core.generation import Generation
from cera_core.model import InferenceState
from cera_core.session import Session
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter
from cera_core.testing.fakes import ScriptedModel, TableModel
from support.rounds import RoundLog
from support.sessions import PROMPT, CheapRows, assert_consistent, plain, session_of
from support.spelling import SpellingTokenizer

PIECES = ["_", "a", "b", "c", "E", "ND", "</s>", "</t>", b"\xe2\x82", b"\xac"]
HISTORY = [0] * 32
"""As long as any script here goes on the same after it."""
BUDGETS: list[dict[str, Any]] = [{"adaptive": False, "max_draft_tokens": k} for k in (1, 2, 3, 8, 15)] + [{}]


def speaking(script: Sequence[int], end_ids: Sequence[int] = (), **parts: Any) -> Session:
    """Makes a session whose model says a script, of a length that divides 32, over and over."""
    tokenizer = SpellingTokenizer(PIECES, end_ids=end_ids)
    return session_of(HISTORY, model=ScriptedModel(script, len(PIECES)), tokenizer=tokenizer, **parts)


def guessing(script: Sequence[int], wrong_every: int = 0) -> OracleDrafter:
    return OracleDrafter([*HISTORY, *script * 8], len(PIECES), wrong_every)


def assert_all_end_together(session: Session, generation: Generation, length: int) -> None:
    """Ids, log-probabilities, usage, cache and history hold the same `length` tokens of the answer."""
    assert len(generation.token_ids) == length
    assert generation.stats.num_emitted == length
    assert len(generation.logprobs or ()) == length
    assert session.token_ids == [*HISTORY, *generation.token_ids]
    assert_consistent(session)


def everywhere(script: Sequence[int], end_ids: Sequence[int] = (), **options: Any) -> Generation:
    """Generates plainly and with right and partly wrong guesses in every budget; all must end and go on alike."""
    session = speaking(script, end_ids)
    expected = session.generate(drafter=None, logprobs=2, **options)
    assert_all_end_together(session, expected, len(expected.token_ids))
    going_on = session.generate(max_tokens=5, ignore_eos=True)
    for drafter, budget in itertools.product((guessing(script), guessing(script, 3)), BUDGETS):
        session = speaking(script, end_ids)
        found = session.generate(drafter=drafter, logprobs=2, **options, **budget)
        assert (found.token_ids, found.text) == (expected.token_ids, expected.text)
        assert (found.finish_reason, found.logprobs) == (expected.finish_reason, expected.logprobs)
        assert_all_end_together(session, found, len(expected.token_ids))
        again = session.generate(drafter=drafter, max_tokens=5, ignore_eos=True, **budget)
        assert again.token_ids == going_on.token_ids
    return expected


@pytest.mark.parametrize(
    ("max_tokens", "reason", "text"), [(3, "max_tokens", "aba"), (4, "stop", "aba"), (20, "stop", "aba")]
)
def test_rule_08_a_stop_id_inside_the_budget_is_stop_and_one_past_it_is_max_tokens(
    max_tokens: int, reason: str, text: str
) -> None:
    found = everywhere([1, 2, 1, 6], end_ids=[6], max_tokens=max_tokens)
    assert (found.finish_reason, found.text) == (reason, text)


@pytest.mark.parametrize(
    ("options", "reason", "num_tokens"),
    [
        ({"stop": "ab", "max_tokens": 2}, "stop", 2),
        ({"stop": "ab", "max_tokens": 1}, "max_tokens", 1),
        ({"stop": ["ba", "ab"], "max_tokens": 9}, "stop", 2),
        ({"stop": "bc", "stop_token_ids": [3], "max_tokens": 9}, "stop", 2),
        ({"stop": "c", "stop_token_ids": [9], "max_tokens": 9}, "stop", 3),
    ],
)
def test_rule_08_the_earliest_event_inside_an_accepted_run_wins(
    options: dict[str, Any], reason: str, num_tokens: int
) -> None:
    found = everywhere([1, 2, 3, 1, 2, 3, 1, 2], **options)
    assert (found.finish_reason, len(found.token_ids)) == (reason, num_tokens)


def test_rule_08_min_tokens_ignored_ends_and_banned_tokens_hold_in_an_accepted_run() -> None:
    script = [1, 6, 1, 2]
    assert everywhere(script, end_ids=[6], max_tokens=8).token_ids == [1]
    assert everywhere(script, end_ids=[6], max_tokens=8, min_tokens=3).token_ids == [1, 0, 1, 2, 1]
    assert everywhere(script, end_ids=[6], max_tokens=8, ignore_eos=True).token_ids == script * 2
    assert everywhere(script, max_tokens=8, logit_bias={6: -float("inf")}).token_ids == [1, 0, 1, 2] * 2
    assert everywhere(script, stop=["ba"], max_tokens=20, min_tokens=6, ignore_eos=True).token_ids == [*script * 2, 1]


@pytest.mark.parametrize(
    ("script", "stop", "text", "num_tokens"),
    [
        ([1, 2, 4, 5, 3, 1, 2, 3], ["END"], "ab", 4),  # over two tokens
        ([1, 4, 5, 3, 1, 2, 3, 3], ["Z", "END", "NDc"], "a", 3),  # several, overlapping
        ([1, 4, 5, 3, 1, 2, 3, 3], ["ND", "END"], "a", 3),  # two completed at once: the one that begins earlier cuts
        ([1, 1, 2, 1, 1, 1, 2, 3], ["aab"], "", 3),
        ([1, 1, 1, 2, 3, 1, 1, 1], ["aab"], "a", 4),  # begins anew inside itself
        ([1, 2, 8, 9, 3, 3, 3, 3], ["€"], "ab", 4),  # over the bytes of one character
        ([1, 2, 3, 1, 2, 3, 1, 1], ["cabca"], "ab", 7),  # over several rounds
    ],
)
def test_rule_09_a_stop_string_anywhere_in_a_run_or_over_rounds_ends_everything_with_the_token_that_completes_it(
    script: list[int], stop: list[str], text: str, num_tokens: int
) -> None:
    found = everywhere(script, stop=stop, max_tokens=30)
    assert (found.text, found.finish_reason) == (text, "stop")
    assert found.token_ids == script[:num_tokens]


@settings(max_examples=60)
@given(
    script=st.lists(st.integers(0, len(PIECES) - 1), min_size=8, max_size=8),
    stop=st.lists(st.sampled_from(["ab", "ba", "END", "aE", "€", "abab", "_", "DE"]), max_size=3, unique=True),
    max_tokens=st.integers(1, 24),
    min_tokens=st.integers(0, 3),
    ends=st.lists(st.sampled_from([6, 7]), max_size=2, unique=True),
)
def test_rule_09_any_script_and_stop_strings_end_alike_with_and_without_drafts(
    script: list[int], stop: list[str], max_tokens: int, min_tokens: int, ends: list[int]
) -> None:
    everywhere(script, ends, stop=stop, max_tokens=max_tokens, min_tokens=min(min_tokens, max_tokens))


def test_rule_09_a_stream_holds_back_text_that_may_begin_a_stop_string_until_that_is_decided() -> None:
    script = [1, 4, 2, 4, 5, 3, 3, 3]
    for drafter in (None, guessing(script)):
        stream = speaking(script).stream(stop="END", max_tokens=30, drafter=drafter, adaptive=False)
        assert [(token.token_id, token.text) for token in stream] == [(1, "a"), (4, ""), (2, "Eb"), (4, ""), (5, "")]
        assert stream.generation.text == "aEb"


@pytest.mark.parametrize("end_ids", [(), (6,), (7, 6), (6, 7, 9, 5)], ids=len)
def test_rule_10_no_stop_token_one_or_many_are_valid(end_ids: tuple[int, ...]) -> None:
    found = everywhere([1, 2, 1, 2, 3, 6, 7, 6], end_ids=end_ids, max_tokens=12)
    assert (found.finish_reason, len(found.token_ids)) == (("stop", 5) if end_ids else ("max_tokens", 12))


def test_rule_10_a_draft_is_cut_after_the_first_stop_token() -> None:
    script = [1, 2, 6, 3, 1, 2, 3, 1]
    log = RoundLog()
    session = speaking(script, end_ids=[6, 3], observers=log.observers)
    session.generate(drafter=guessing(script), adaptive=False, max_draft_tokens=7)
    assert [(each.num_drafted, each.token_ids) for each in log.rounds] == [(2, (1, 2))]  # 2 and the stop token


@pytest.mark.parametrize(
    ("limits", "largest"),
    [
        ({"max_seq_len": len(PROMPT) + 6}, 5),
        ({"max_tokens": 7}, 6),
        ({"max_batch": 4}, 3),
        ({"rewind_headroom": 2}, 2),
        ({}, 15),
    ],
    ids=["context", "budget", "batch", "rewind", "none"],
)
def test_rule_11_the_loop_clamps_a_draft_to_context_budget_batch_and_rewind(
    limits: dict[str, int], largest: int
) -> None:
    asked: list[int] = []
    text = plain(max_tokens=60).token_ids

    def greedy_for_more(tokens: Sequence[int], max_k: int) -> list[int]:
        asked.append(max_k)
        return text[len(tokens) - len(PROMPT) :][:15]

    model = TableModel(**{name: limit for name, limit in limits.items() if name != "max_tokens"})
    session = session_of(model=model)
    found = session.generate(
        drafter=BrokenDrafter(greedy_for_more), max_tokens=limits.get("max_tokens", 40), adaptive=False
    )
    assert max(asked) == largest
    assert max(model.forward_sizes[1:]) == 1 + largest
    assert found.token_ids == text[: len(found.token_ids)]
    assert_consistent(session)


@pytest.mark.parametrize("num_left", [1, 0, -1])
@pytest.mark.parametrize("drafts", [True, False])
def test_rule_11_a_prompt_of_the_context_length_and_one_either_side_behave(num_left: int, drafts: bool) -> None:
    model = TableModel(max_seq_len=len(PROMPT) + num_left)
    session = Session(model, costs=CheapRows())
    if num_left < 0:
        with pytest.raises(ContextFullError, match="holds 15 tokens, and 16 are needed"):
            session.append(PROMPT)
        assert session.position == 0
        return
    session.append(PROMPT)
    drafter = OracleDrafter([*PROMPT, *plain(max_tokens=9).token_ids]) if drafts else None
    found = session.generate(drafter=drafter, max_tokens=9, adaptive=False)
    assert found.token_ids == plain(max_tokens=num_left).token_ids
    assert found.finish_reason == "context_full"
    assert_consistent(session)


@pytest.mark.parametrize("k", [1, 3])
def test_rule_12_buffers_are_sized_by_the_rows_of_a_round_and_not_by_the_context(k: int) -> None:
    """32,768 tokens of a vocabulary of 262,144 would be 34 GB of logits; a round of k + 1 rows is a few megabytes."""
    model = ScriptedModel([262_143, 5], vocab_size=262_144, max_seq_len=32_768)
    session = session_of([1] * 64, model=model)
    session.prefill()
    drafter = OracleDrafter([1] * 64 + [262_143, 5] * 8)
    tracemalloc.start()
    found = session.generate(drafter=drafter, max_tokens=9, adaptive=False, max_draft_tokens=k)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    row_bytes = 262_144 * 4
    assert found.stats.num_accepted >= 4
    assert peak < (4 * (k + 1) + 2) * row_bytes  # the fake stacks its rows, and a round keeps the last one's


def test_rule_13_every_round_commits_at_least_one_token_and_offers_no_rejected_draft_again_in_its_place() -> None:
    offered: list[tuple[int, tuple[int, ...]]] = []

    class Watched(TableModel):
        def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Any:
            offered.append((state.seq_len, tuple(token_ids[1:])))
            return super().forward_all(token_ids, state)

    stubborn = BrokenDrafter(lambda tokens, max_k: [5, 6, 7][:max_k])
    drafters: list[Drafter] = [stubborn, OracleDrafter([*PROMPT, *plain(max_tokens=60).token_ids], 16, 2)]
    for drafter in drafters:
        offered.clear()
        log = RoundLog()
        session = session_of(model=Watched(), observers=log.observers)
        found = session.generate(drafter=drafter, max_tokens=40, adaptive=False)
        assert all(len(each.token_ids) == 1 + each.num_accepted for each in log.rounds)
        assert len(log.rounds) <= len(found.token_ids) == 40
        drafts = [offer for offer in offered if offer[1]]
        assert len(drafts) == len(set(drafts)) > 1
