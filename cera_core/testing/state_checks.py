"""The invariants of the states of a model: counting, truncating, copying, and that they do not disturb one another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from cera_core.errors import InvalidInputError, RewindError
from cera_core.foreign_errors import error_line
from cera_core.testing.checking import CheckError, checks_in, contract_check, require
from cera_core.testing.model_probes import NUM_TOKENS, fed, needs, require_close, require_refused, seeded_ids

if TYPE_CHECKING:
    from cera_core.model import Model


@contract_check
def check_new_state_is_empty(model: Model) -> None:
    """A new state holds no tokens, and at most as many as was asked for."""
    for asked in (None, 12):
        state, most = model.new_state(asked), asked or model.config.max_seq_len
        require(state.seq_len == 0, "a new state of 0 tokens", state.seq_len)
        require(not state.is_compressed, "a new state that is not compressed", "is_compressed")
        require(1 <= state.max_seq_len <= most, f"new_state({asked}) for 1 to {most} tokens", state.max_seq_len)


@contract_check
def check_new_state_refuses_lengths_it_cannot_have(model: Model) -> None:
    """A state for no token, or for a negative number of them, is refused with an `InvalidInputError`."""
    for length in (0, -1):
        require_refused(InvalidInputError, f"new_state({length})", model.new_state, length)


@contract_check
def check_seq_len_counts_the_tokens(model: Model) -> None:
    """After each forward the state's `seq_len` has grown by the tokens that were given."""
    state, total = model.new_state(), 0
    forwards = [model.forward, model.forward_all] if model.supports_all_logits else [model.forward]
    for length in (3, 1, 2):
        for forward in forwards:
            forward(seeded_ids(model, length), state)
            total += length
            what = f"seq_len {total} after {length} more tokens by {forward.__name__}"
            require(state.seq_len == total, what, state.seq_len)


@contract_check
def check_an_error_leaves_the_state(model: Model) -> None:
    """A forward that is refused leaves the state as it was: going on gives what it would have given."""
    ids = seeded_ids(model, 8)
    _, expected = fed(model, ids, 1)
    for refused in ([ids[0], model.config.vocab_size], [], [ids[0], -1]):
        state, _ = fed(model, ids[:-1], 1)
        try:
            model.forward(refused, state)
        except Exception:
            require(state.seq_len == 7, f"seq_len 7 as before ids {refused} were refused", state.seq_len)
            require_close(model.forward(ids[-1:], state), expected, f"the logits after ids {refused} were refused")


@contract_check
def check_states_are_independent(model: Model) -> None:
    """Two states fed in turn give what each gives alone: a model holds weights only."""
    texts = [seeded_ids(model, 10, seed) for seed in (1, 2)]
    expected = [np.array(fed(model, ids, 1)[1]) for ids in texts]
    states = [model.new_state() for _ in texts]
    for place in range(10):
        found = [np.array(model.forward([ids[place]], state)) for ids, state in zip(texts, states, strict=True)]
    for row, alone in zip(found, expected, strict=True):
        require_close(row, alone, "the logits of a state fed in turn with another to be those it has alone")


@contract_check
def check_logits_last_until_the_next_forward_on_their_state(model: Model) -> None:
    """What a forward returned stays valid while other states are used."""
    row = model.forward(seeded_ids(model, 3, 1), model.new_state())
    before = np.array(row)
    model.forward(seeded_ids(model, 3, 2), model.new_state())
    require(np.array_equal(row, before, equal_nan=True), "logits to last while another state is used", "others")


@contract_check
def check_threads_do_not_disturb_one_another(model: Model) -> None:
    """Sessions on several threads use one model at the same time, each with a state of its own."""
    texts = [seeded_ids(model, 6, seed) for seed in range(4)]
    expected = [np.array(fed(model, ids, 2)[1]) for ids in texts]
    with ThreadPoolExecutor(len(texts)) as threads:
        found = list(threads.map(lambda ids: np.array(fed(model, ids, 2)[1]), texts))
    for row, alone in zip(found, expected, strict=True):
        require_close(row, alone, "the logits of a text among others on threads to be those it has alone")


@contract_check
def check_a_truncated_state_is_like_fresh(model: Model) -> None:
    """A state that was cut, as far as its headroom goes, and is fed on gives what a fresh one gives."""
    needs(model.supports_rewind, "supports_rewind is False")
    ids, other = seeded_ids(model, seed=1), seeded_ids(model, seed=2)
    for num_cut in (1, 2, NUM_TOKENS // 2, NUM_TOKENS - 1):
        state, _ = fed(model, ids, 1)
        if num_cut > model.rewind_headroom(state):
            break
        length = NUM_TOKENS - num_cut
        model.truncate(state, length)
        require_close(
            model.forward(other[:1], state),
            fed(model, [*ids[:length], *other[:1]], 1)[1],
            f"the logits after a cut from {NUM_TOKENS} to {length} tokens and one more",
        )


@contract_check
def check_truncate_to_the_same_length_is_free(model: Model) -> None:
    """`truncate` to the length a state has is always possible: the loop calls it after each round."""
    needs(model.supports_rewind, "supports_rewind is False")
    state, _ = fed(model, seeded_ids(model, 6), 1)
    try:
        model.truncate(state, 6)
    except Exception as error:
        raise CheckError("truncate to the 6 tokens a state has to return", error_line(error)) from error
    require(state.seq_len == 6, "seq_len 6 after it", state.seq_len)


@contract_check
def check_rewind_headroom_is_true(model: Model) -> None:
    """`truncate` can take back as many tokens as `rewind_headroom` says."""
    needs(model.supports_rewind, "supports_rewind is False")
    for num_tokens in (1, 6):
        state, _ = fed(model, seeded_ids(model, num_tokens), 1)
        headroom = model.rewind_headroom(state)
        require(0 <= headroom <= num_tokens, f"a headroom of 0..{num_tokens}", headroom)
        if headroom:
            try:
                model.truncate(state, num_tokens - headroom)
            except Exception as error:
                required = f"truncate by {headroom}, the headroom, to return"
                raise CheckError(required, error_line(error)) from error
            require(state.seq_len == num_tokens - headroom, f"seq_len {num_tokens - headroom}", state.seq_len)


@contract_check
def check_truncate_refuses_what_it_cannot_do(model: Model) -> None:
    """`truncate` to fewer than 0 tokens, to more than there are or beyond the headroom is a `RewindError`."""
    needs(model.supports_rewind, "supports_rewind is False")
    state, _ = fed(model, seeded_ids(model, 6), 1)
    beyond = 6 - model.rewind_headroom(state) - 1
    for length in (7, -1, beyond):
        what = f"truncate from 6 to {length} tokens"
        require_refused(RewindError, what, model.truncate, state, length)
        require(state.seq_len == 6, f"seq_len 6 after {what} was refused", state.seq_len)


@contract_check
def check_a_copy_goes_its_own_way(model: Model) -> None:
    """A copied state goes on as its original would, and neither sees what the other is fed."""
    needs(model.supports_copy, "supports_copy is False")
    ids, other = seeded_ids(model, 8, 1), seeded_ids(model, 8, 2)
    state, _ = fed(model, ids[:-1], 1)
    copy = model.copy_state(state)
    found = np.array(model.forward(other[:1], copy))
    require_close(found, fed(model, [*ids[:-1], other[0]], 1)[1], "a copy's logits to be those of a fresh state")
    expected = fed(model, ids, 1)[1]
    require_close(model.forward(ids[-1:], state), expected, "the original's logits after its copy went on")


STATE_CHECKS: tuple[Callable[[Model], None], ...] = checks_in(globals())
"""Every check of this module, in the order of the file."""
