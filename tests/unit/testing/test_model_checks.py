"""Each check of the model contract accepts sound models, and finds the one that nobody else finds."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from cera_core.errors import InvalidInputError, RewindError
from cera_core.model import Model
from cera_core.testing import model_checks, state_checks
from cera_core.testing.checking import CheckError, run_checks
from cera_core.testing.fakes import CyclicModel, RecurrentModel, ScriptedModel, TableModel, TokenState
from cera_core.testing.model_checks import MODEL_CHECKS


class Tidy(TableModel):
    """Broken ones are derived from it. It promises no bits, so that only what is broken differs."""

    batch_invariant = False


class NegativeSize(Tidy):
    def __init__(self):
        super().__init__()
        self.config = replace(self.config, num_parameters=-1)


class VagueFlags(Tidy):
    supports_copy = "yes"  # type: ignore[assignment]


class FactsAsNumbers(Tidy):
    def facts(self):
        return {"threads": 4}


class CompressedFromTheStart(Tidy):
    def new_state(self, max_seq_len=None):
        state = super().new_state(max_seq_len)
        state.is_compressed = True
        return state


class AnyLength(Tidy):
    def new_state(self, max_seq_len=None):
        return TokenState(max_seq_len if max_seq_len is not None else self.config.max_seq_len)


class DoublePrecision(Tidy):
    def forward(self, token_ids, state):
        return super().forward(token_ids, state).astype(np.float64)


class NotANumber(Tidy):
    def row(self, tokens):
        row = super().row(tokens).copy()
        row[3] = np.nan
        return row


class RowsTheWrongWayRound(Tidy):
    def forward_all(self, token_ids, state):
        return super().forward_all(token_ids, state)[::-1]

    def forward(self, token_ids, state):
        return super().forward_all(token_ids, state)[-1]


class BeginsAnewWithEachChunk(Tidy):
    """Sees only what shares the forward, unless that is a single token or the first of the state."""

    def __init__(self):
        super().__init__(order=30)

    def forward_all(self, token_ids, state):
        before = state.token_ids[:]
        if len(token_ids) > 1:
            state.token_ids[:] = [0] * len(before)
        try:
            rows = super().forward_all(token_ids, state)
        finally:
            state.token_ids[: len(before)] = before
        return rows


class ForgetsToCount(Tidy):
    """Counts the tokens of `forward` only."""

    def forward_all(self, token_ids, state):
        rows = super().forward_all(token_ids, state)
        state.seq_len -= 1
        return rows

    def forward(self, token_ids, state):
        row = super().forward_all(token_ids, state)[-1]
        state.seq_len = len(state.token_ids)
        return row


class NoisyRows(TableModel):
    """Promises bits, and rounds otherwise where rows share a forward."""

    def forward_all(self, token_ids, state):
        return super().forward_all(token_ids, state) + np.float32(1e-5 * len(token_ids))


class Fickle(Tidy):
    num_forwards = 0

    def forward_all(self, token_ids, state):
        self.num_forwards += 1
        return super().forward_all(token_ids, state) + np.float32(1e-5 * self.num_forwards)


class ListsOnly(Tidy):
    def forward_all(self, token_ids, state):
        if not isinstance(token_ids, list):
            raise TypeError("a list, please")
        return super().forward_all(token_ids, state)


class OneLessThanItSays(Tidy):
    def forward_all(self, token_ids, state):
        if len(token_ids) == self.max_batch:
            raise MemoryError
        return super().forward_all(token_ids, state)


class WrapsIds(Tidy):
    def forward_all(self, token_ids, state):
        return super().forward_all([token_id % 16 for token_id in token_ids], state)


class NothingIsFine(Tidy):
    def forward_all(self, token_ids, state):
        if not token_ids:
            return np.zeros((1, self.config.vocab_size), np.float32)
        return super().forward_all(token_ids, state)


class NeverFull(Tidy):
    def forward_all(self, token_ids, state):
        state.max_seq_len = max(state.max_seq_len, state.seq_len + len(token_ids))
        return super().forward_all(token_ids, state)


class HalfAppended(Tidy):
    def forward_all(self, token_ids, state):
        try:
            return super().forward_all(token_ids, state)
        except InvalidInputError:
            state.token_ids.append(0)
            state.seq_len += 1
            raise


class OneStateForAll(Tidy):
    """Takes the token before the last from whichever state was used last."""

    supports_copy = False
    _previous = 0

    def forward_all(self, token_ids, state):
        if state.token_ids:
            state.token_ids[-1] = self._previous
        rows = super().forward_all(token_ids, state)
        self._previous = state.token_ids[-1]
        return rows

    def truncate(self, state, length):
        super().truncate(state, length)
        self._previous = state.token_ids[-1] if state.token_ids else 0


class OneBufferForAll(Tidy):
    def __init__(self):
        super().__init__()
        self._buffer = np.zeros(16, np.float32)

    def forward(self, token_ids, state):
        self._buffer[:] = super().forward(token_ids, state)
        return self._buffer


class OneThreadAtATime(Tidy):
    _ids: list[int]

    def forward_all(self, token_ids, state):
        self._ids = list(token_ids)
        time.sleep(0.001)
        return super().forward_all(self._ids, state)


class WrongAfterACut(Tidy):
    def truncate(self, state, length):
        before = list(state.token_ids)
        super().truncate(state, length)
        state.stale = length < len(before)

    def forward_all(self, token_ids, state):
        rows = super().forward_all(token_ids, state)
        return rows[:, ::-1] if getattr(state, "stale", False) else rows


class SameLengthIsNoCut(Tidy):
    def truncate(self, state, length):
        if length == state.seq_len:
            raise RewindError("nothing to do")
        super().truncate(state, length)


class BoastsOfItsHeadroom(Tidy):
    """Says it could go back to the beginning, and cannot."""

    def truncate(self, state, length):
        if length == 0:
            raise RewindError("not that far")
        super().truncate(state, length)


class CutsToAnything(Tidy):
    def truncate(self, state, length):
        super().truncate(state, min(max(length, 0), state.seq_len))


class SharesCopies(Tidy):
    def copy_state(self, state):
        return state


BREAKERS: dict[object, type[Model]] = {
    model_checks.check_config_says_the_sizes: NegativeSize,
    model_checks.check_capabilities_are_flags: VagueFlags,
    model_checks.check_facts_are_texts: FactsAsNumbers,
    state_checks.check_new_state_is_empty: CompressedFromTheStart,
    state_checks.check_new_state_refuses_lengths_it_cannot_have: AnyLength,
    model_checks.check_logits_are_float32: DoublePrecision,
    model_checks.check_logits_are_numbers: NotANumber,
    model_checks.check_all_rows_are_those_of_forward: RowsTheWrongWayRound,
    model_checks.check_chunks_of_a_prompt_change_nothing: BeginsAnewWithEachChunk,
    state_checks.check_seq_len_counts_the_tokens: ForgetsToCount,
    model_checks.check_rows_that_share_a_forward_change_nothing: NoisyRows,
    model_checks.check_same_forwards_give_the_same_bits: Fickle,
    model_checks.check_any_sequence_of_ids_is_taken: ListsOnly,
    model_checks.check_a_full_batch_is_taken: OneLessThanItSays,
    model_checks.check_ids_outside_the_vocabulary_are_refused: WrapsIds,
    model_checks.check_batches_of_a_wrong_size_are_refused: NothingIsFine,
    model_checks.check_a_full_context_is_refused: NeverFull,
    state_checks.check_an_error_leaves_the_state: HalfAppended,
    state_checks.check_states_are_independent: OneStateForAll,
    state_checks.check_logits_last_until_the_next_forward_on_their_state: OneBufferForAll,
    state_checks.check_threads_do_not_disturb_one_another: OneThreadAtATime,
    state_checks.check_a_truncated_state_is_like_fresh: WrongAfterACut,
    state_checks.check_truncate_to_the_same_length_is_free: SameLengthIsNoCut,
    state_checks.check_rewind_headroom_is_true: BoastsOfItsHeadroom,
    state_checks.check_truncate_refuses_what_it_cannot_do: CutsToAnything,
    state_checks.check_a_copy_goes_its_own_way: SharesCopies,
}
"""For each check a model that no other finds fault with."""


def outcomes(model: Model, outcome: str) -> list[str]:
    return [result.check for result in run_checks(MODEL_CHECKS, model) if result.outcome == outcome]


@pytest.mark.parametrize(
    "model",
    [
        TableModel(),
        TableModel(num_levels=2),
        TableModel(rewind_headroom=3),
        TableModel(rewind_headroom=0),
        ScriptedModel([5, 6, 7]),
        CyclicModel(),
        RecurrentModel(),
        Tidy(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_sound_models_pass(model: Model) -> None:
    assert outcomes(model, "failed") == []


@pytest.mark.parametrize(("check", "model"), BREAKERS.items(), ids=lambda value: value.__name__)
def test_only_one_check_finds_it(check, model) -> None:
    assert outcomes(model(), "failed") == [check.__name__]


def test_every_check_has_a_model_that_breaks_it() -> None:
    assert set(BREAKERS) == set(MODEL_CHECKS)


def test_what_a_model_says_it_cannot_do_is_not_checked() -> None:
    class Plain(TableModel):
        supports_all_logits = supports_rewind = supports_copy = batch_invariant = False

    skipped = {result.check: result.message for result in run_checks(MODEL_CHECKS, Plain()) if result.message}
    assert skipped == {
        "check_all_rows_are_those_of_forward": "supports_all_logits is False",
        "check_rows_that_share_a_forward_change_nothing": "batch_invariant is False",
        "check_a_truncated_state_is_like_fresh": "supports_rewind is False",
        "check_truncate_to_the_same_length_is_free": "supports_rewind is False",
        "check_rewind_headroom_is_true": "supports_rewind is False",
        "check_truncate_refuses_what_it_cannot_do": "supports_rewind is False",
        "check_a_copy_goes_its_own_way": "supports_copy is False",
    }


def test_what_a_model_raises_names_the_check() -> None:
    class Failing(TableModel):
        def forward(self, token_ids, state):
            raise OSError("the disk is gone")

    with pytest.raises(CheckError, match=r"Found: OSError: the disk is gone\. Read on: .*#check_logits_are_numbers"):
        model_checks.check_logits_are_numbers(Failing())
