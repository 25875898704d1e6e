"""A model behind a guard: what a backend raises or returns against its contract is one `ModelError` that names it.

It knows nothing of what the model is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from cera_core.errors import CeraError, ModelError
from cera_core.foreign_errors import error_line, let_interrupt_through

if TYPE_CHECKING:
    from cera_core.model import InferenceState, Logits, Model

P = ParamSpec("P")
R = TypeVar("R")


def check_model(model: Model) -> None:
    """Checks what would else end in an endless loop, or in an error far from the backend that is at fault.

    Raises:
        ModelError: The model does not say how large it is, or says what cannot be.
    """
    config = getattr(model, "config", None)
    for owner, name in ((config, "vocab_size"), (config, "max_seq_len"), (model, "max_batch")):
        number = getattr(owner, name, None)
        if not isinstance(number, Integral) or number < 1:
            raise ModelError(
                f"{name!r} of {type(model).__name__} must be a whole number of at least 1, but is {number!r:.80}. The "
                "backend is at fault."
            )


def new_state(model: Model, max_seq_len: int | None) -> InferenceState:
    """Makes an empty state.

    Raises:
        CeraError: The model's own, for instance for a `max_seq_len` it cannot have.
        ModelError: The model failed, or made no state.
    """
    state = call_model(model.new_state, max_seq_len)
    if not hasattr(state, "seq_len"):
        raise ModelError(
            f"'new_state' of {type(model).__name__} must make an InferenceState; it made a {type(state).__name__}. The "
            "backend is at fault."
        )
    return state


def call_model(method: Callable[P, R], *arguments: P.args, **keywords: P.kwargs) -> R:
    """Calls a method of a model.

    Raises:
        CeraError: The model's own; anything else it raises is a `ModelError`.
    """
    try:
        return method(*arguments, **keywords)
    except CeraError:
        raise
    except BaseException as error:
        let_interrupt_through(error)
        model = type(getattr(method, "__self__", method)).__name__
        raise ModelError(
            f"'{method.__name__}' of {model} failed with {error_line(error)}. The backend is at fault."
        ) from error


def checked_forward(
    forward: Callable[[Sequence[int], InferenceState], Logits],
    token_ids: Sequence[int],
    state: InferenceState,
    required_shape: tuple[int, ...],
) -> Logits:
    """Calls a forward of a model.

    Raises:
        CeraError: The model's own; anything else it raises, or logits of another shape or kind, is a `ModelError`.
    """
    rows = call_model(forward, token_ids, state)
    model = type(getattr(forward, "__self__", forward)).__name__
    found = getattr(rows, "shape", None)
    if found != required_shape:
        raise ModelError(
            f"A forward of {model} must return logits of shape {required_shape}; it returned "
            f"{found or type(rows).__name__}. The backend is at fault."
        )
    if getattr(rows.dtype, "kind", "") != "f":
        raise ModelError(
            f"A forward of {model} must return logits of type float32; it returned {rows.dtype}. The backend is at "
            "fault."
        )
    return rows
