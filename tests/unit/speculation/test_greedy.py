"""Greedy generation with drafts of a fixed length: the text, what the state holds, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cera_core.drafter import Drafter
from cera_core.errors import ContextFullError, InvalidInputError, ModelError
from cera_core.model import InferenceState
from cera_core.speculation.greedy import greedy_generate_spec
from cera_core.speculation.sampling import argmax
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter, RandomDrafter
from cera_core.testing.fakes import TableModel

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8]


def generated(drafter: Drafter | None, k: int, *, max_new_tokens: int = 30, stop_ids: Any = (), **model_options: Any):
    model = TableModel(**model_options)
    state = model.new_state()
    token_ids, stats = greedy_generate_spec(model, state, PROMPT, max_new_tokens, stop_ids, drafter, k)
    assert state.token_ids == PROMPT + token_ids
    assert stats.num_emitted == len(token_ids) == stats.num_plain_steps + stats.num_emitted_by_rounds
    assert stats.num_prompt_tokens == len(PROMPT)
    return token_ids, stats


def defined_text(num_tokens: int, **model_options: Any) -> list[int]:
    model, text = TableModel(**model_options), list(PROMPT)
    for _ in range(num_tokens):
        text.append(argmax(model.row(text)))
    return text[len(PROMPT) :]


@pytest.mark.parametrize("k", [0, 1, 8, 15])
@pytest.mark.parametrize("num_levels", [2, 1000])
def test_text_is_the_models_own_whoever_guesses(k: int, num_levels: int) -> None:
    text = defined_text(30, num_levels=num_levels)
    partly_wrong = OracleDrafter(PROMPT + text, 16, wrong_every=5)
    for drafter in (None, OracleDrafter(PROMPT + text), partly_wrong, RandomDrafter(16)):
        token_ids, stats = generated(drafter, k, num_levels=num_levels)
        assert token_ids == text
        assert (stats.num_drafted > 0) == (drafter is not None and k > 0)
    _, stats = generated(partly_wrong, k, num_levels=num_levels)
    assert (stats.num_drafted > stats.num_accepted > 0) == (k > 0)


def test_draft_length_is_fixed() -> None:
    text = defined_text(30)
    model = TableModel()
    greedy_generate_spec(model, model.new_state(), PROMPT, 30, (), OracleDrafter(PROMPT + text), 4)
    assert model.forward_sizes == [8, 5, 5, 5, 5, 5, 5]


def test_k_may_be_larger_than_any_batch() -> None:
    text = defined_text(30)
    token_ids, stats = generated(OracleDrafter(PROMPT + text), 100_000)
    assert (token_ids, stats.num_accepted) == (text, stats.num_drafted)


def test_stop_token_ends_the_text_and_is_not_returned() -> None:
    text = defined_text(30)
    num_before = text.index(text[9])
    for drafter in (None, OracleDrafter(PROMPT + text)):
        token_ids, _ = generated(drafter, 8, stop_ids={text[9]})
        assert token_ids == text[:num_before]


@pytest.mark.parametrize("max_new_tokens", [0, 1, 2])
def test_number_of_tokens_is_kept(max_new_tokens: int) -> None:
    text = defined_text(30)
    token_ids, _ = generated(OracleDrafter(PROMPT + text), 8, max_new_tokens=max_new_tokens)
    assert token_ids == text[:max_new_tokens]


def test_text_ends_where_the_context_is_full() -> None:
    text = defined_text(30)
    token_ids, _ = generated(OracleDrafter(PROMPT + text), 8, max_seq_len=len(PROMPT) + 5)
    assert token_ids == text[:5]


def test_prompt_may_be_an_array() -> None:
    model = TableModel()
    token_ids, _ = greedy_generate_spec(model, model.new_state(), np.array(PROMPT), 5, (), None, 0)  # type: ignore[arg-type]
    assert token_ids == defined_text(5)


def test_drafter_is_cloned_and_its_faults_are_counted() -> None:
    class Counting(RandomDrafter):
        num_asked = 0

        def draft(self, tokens: Any, max_k: int) -> Any:
            self.num_asked += 1
            return super().draft(tokens, max_k)

    drafter = Counting(16)
    generated(drafter, 4)
    assert drafter.num_asked == 0
    token_ids, stats = generated(BrokenDrafter(lambda *_: 1 // 0), 4)
    assert token_ids == defined_text(30)
    assert stats.drafters["BrokenDrafter"].num_faults == {"ZeroDivisionError": 3}


class LastRowOnly(TableModel):
    supports_all_logits = False


def compressed(state: InferenceState) -> None:
    state.is_compressed = True


def used(state: InferenceState) -> None:
    state.seq_len = 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": LastRowOnly()}, "logits for all rows; LastRowOnly gives the last only"),
        ({"spoil": used}, r"needs a fresh state; this one holds 3 tokens. Make one with 'model.new_state\(\)'"),
        ({"spoil": compressed}, "needs a fresh state; this one is compressed"),
        ({"prompt_ids": []}, "needs a prompt of at least one token; it is empty"),
        ({"prompt_ids": [99]}, "integer from 0 to 15; the one at position 0 is 99"),
        ({"prompt_ids": [1] * 300}, "holds 256 tokens, and 300 are needed"),
        ({"max_new_tokens": -1}, "'max_new_tokens' and 'k' must be 0 or more; they are -1 and 4"),
        ({"k": -1}, "'max_new_tokens' and 'k' must be 0 or more; they are 5 and -1"),
    ],
)
def test_what_does_not_hold_is_refused_before_anything_is_computed(change: dict[str, Any], message: str) -> None:
    arguments = {"model": TableModel(), "prompt_ids": PROMPT, "max_new_tokens": 5, "k": 4, **change}
    model = arguments.pop("model")
    state = model.new_state()
    arguments.pop("spoil", lambda state: None)(state)
    with pytest.raises(InvalidInputError, match=message):
        greedy_generate_spec(model, state, stop_ids=(), drafter=None, **arguments)
    assert model.forward_sizes == []


def test_prompt_that_does_not_fit_has_an_error_of_its_own() -> None:
    model = TableModel(max_seq_len=4)
    with pytest.raises(ContextFullError):
        greedy_generate_spec(model, model.new_state(), PROMPT, 5, (), None, 0)


def test_model_that_breaks_its_contract_is_named() -> None:
    class Short(TableModel):
        def forward_all(self, token_ids: Any, state: InferenceState) -> Any:
            return (
                super().forward_all(token_ids, state)[1:]
                if len(token_ids) == 5
                else super().forward_all(token_ids, state)
            )

    model = Short()
    with pytest.raises(ModelError, match="Short must return logits of shape"):
        greedy_generate_spec(model, model.new_state(), PROMPT, 30, (), RandomDrafter(16), 4)
