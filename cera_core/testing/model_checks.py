"""The invariants of the `Model` contract, one check each; those of its states are in `state_checks`.

Each check takes a model, which it leaves as it was, and raises `CheckError` where the invariant does not hold.
`ModelSuite` runs them as tests, `cera check backend` without a test framework. They know nothing of what good
logits are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from cera_core.errors import CeraError, ContextFullError, InvalidInputError
from cera_core.foreign_errors import error_line
from cera_core.speculation.model_guard import check_model
from cera_core.testing.checking import CheckError, checks_in, contract_check, require
from cera_core.testing.model_probes import all_rows, fed, needs, require_close, require_refused, seeded_ids
from cera_core.testing.state_checks import STATE_CHECKS

if TYPE_CHECKING:
    from cera_core.model import Model


@contract_check
def check_config_says_the_sizes(model: Model) -> None:
    """`config` says how large the model is; what is not known is 0 or an empty text."""
    try:
        check_model(model)
    except CeraError as error:
        raise CheckError("the sizes cera needs", error_line(error)) from error
    for name in ("num_layers", "hidden_size", "num_parameters", "file_size"):
        size = getattr(model.config, name)
        require(isinstance(size, int) and size >= 0, f"config.{name} of 0 or more", repr(size))


@contract_check
def check_capabilities_are_flags(model: Model) -> None:
    """What the model can do is said by attributes that are True or False."""
    for name in ("supports_all_logits", "supports_rewind", "supports_copy", "batch_invariant"):
        value = getattr(model, name)
        require(isinstance(value, bool), f"{name} to be True or False", repr(value))


@contract_check
def check_facts_are_texts(model: Model) -> None:
    """`facts` returns texts by their names."""
    facts = model.facts()
    are_texts = all(isinstance(text, str) for pair in facts.items() for text in pair)
    require(are_texts, "texts by their names from facts()", facts)


@contract_check
def check_logits_are_float32(model: Model) -> None:
    """`forward` returns float32[vocab_size], `forward_all` float32[n, vocab_size]."""
    ids = seeded_ids(model, 5)
    _require_array(model.forward(ids, model.new_state()), (model.config.vocab_size,), "forward")
    if model.supports_all_logits:
        _require_array(model.forward_all(ids, model.new_state()), (5, model.config.vocab_size), "forward_all")


@contract_check
def check_logits_are_numbers(model: Model) -> None:
    """No logit is NaN; a token that cannot come may have minus infinity."""
    row = np.asarray(model.forward(seeded_ids(model, 5), model.new_state()))
    require(not np.isnan(row).any(), "logits that are numbers", f"{int(np.isnan(row).sum())} times NaN")


@contract_check
def check_all_rows_are_those_of_forward(model: Model) -> None:
    """Row j of `forward_all` is what `forward` gives after the first j + 1 tokens."""
    needs(model.supports_all_logits, "supports_all_logits is False")
    ids = seeded_ids(model)
    rows = np.array(model.forward_all(ids, model.new_state()))
    for place in (0, 1, len(ids) // 2, len(ids) - 1):
        expected = model.forward(ids[: place + 1], model.new_state())
        require_close(rows[place], expected, f"row {place} of forward_all to be what forward gives there")


@contract_check
def check_chunks_of_a_prompt_change_nothing(model: Model) -> None:
    """A text fed in chunks of any length gives the logits it gives at once, up to rounding."""
    ids = seeded_ids(model)
    expected = np.array(model.forward(ids, model.new_state()))
    for length in (1, 2, 5, len(ids) - 1):
        require_close(fed(model, ids, length)[1], expected, f"the logits of a text fed in chunks of {length}")


@contract_check
def check_rows_that_share_a_forward_change_nothing(model: Model) -> None:
    """Where `batch_invariant` is declared, a row has the same bits however many rows share its forward."""
    needs(model.batch_invariant, "batch_invariant is False")
    needs(model.supports_all_logits, "supports_all_logits is False")
    ids = seeded_ids(model)
    expected = all_rows(model, ids, 1)
    for length in (2, 3, 7, 8, len(ids)):
        same = all_rows(model, ids, length).tobytes() == expected.tobytes()
        require(same, f"the bits of single rows in forwards of {length}", "others (is batch_invariant true?)")


@contract_check
def check_same_forwards_give_the_same_bits(model: Model) -> None:
    """The same forwards on two new states give the same bits."""
    ids = seeded_ids(model)
    first, second = (np.array(fed(model, ids, 8)[1]) for _ in range(2))
    require(first.tobytes() == second.tobytes(), "the same bits from the same forwards", "others the second time")


@contract_check
def check_any_sequence_of_ids_is_taken(model: Model) -> None:
    """Token ids may come as a list, a tuple or any other sequence of ints."""
    ids = seeded_ids(model, 3)
    expected = np.array(model.forward(ids, model.new_state()))
    for sequence in (tuple(ids), array("i", ids)):
        try:
            found = model.forward(sequence, model.new_state())
        except Exception as error:
            raise CheckError(f"ids in a {type(sequence).__name__} to be taken", error_line(error)) from error
        require_close(found, expected, f"the logits of ids in a {type(sequence).__name__}")


@contract_check
def check_a_full_batch_is_taken(model: Model) -> None:
    """A forward takes `max_batch` tokens, where the context has room for them."""
    num_tokens = min(model.max_batch, model.config.max_seq_len)
    try:
        model.forward(seeded_ids(model, num_tokens), model.new_state(num_tokens))
    except Exception as error:
        required = f"a forward of {num_tokens} tokens (max_batch is {model.max_batch}) to be taken"
        raise CheckError(required, error_line(error)) from error


@contract_check
def check_ids_outside_the_vocabulary_are_refused(model: Model) -> None:
    """An id that is negative or not below `vocab_size` is refused with an `InvalidInputError`."""
    for token_id in (model.config.vocab_size, -1):
        require_refused(InvalidInputError, f"id {token_id}", model.forward, [token_id], model.new_state())


@contract_check
def check_batches_of_a_wrong_size_are_refused(model: Model) -> None:
    """No tokens, or more than `max_batch`, are refused with an `InvalidInputError`."""
    for num_tokens in (0, model.max_batch + 1):
        ids, what = seeded_ids(model, num_tokens), f"a forward of {num_tokens} ids"
        require_refused(InvalidInputError, what, model.forward, ids, model.new_state())


@contract_check
def check_a_full_context_is_refused(model: Model) -> None:
    """Tokens that the state cannot hold are refused with a `ContextFullError`."""
    state = model.new_state(12)
    model.forward(seeded_ids(model, 12), state)
    require_refused(ContextFullError, "a 13th token in a state for 12", model.forward, seeded_ids(model, 1), state)


MODEL_CHECKS: tuple[Callable[[Model], None], ...] = (*checks_in(globals()), *STATE_CHECKS)
"""Every check of this module and of `state_checks`, in the order of the files."""


def _require_array(logits: Any, shape: tuple[int, ...], method: str) -> None:
    found = f"{getattr(logits, 'dtype', type(logits).__name__)} of shape {getattr(logits, 'shape', None)}"
    require(found == f"float32 of shape {shape}", f"float32 of shape {shape} from {method}", found)
