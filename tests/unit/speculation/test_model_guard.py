"""What a backend does against its contract, in any method: one error that names it."""

from __future__ import annotations

from typing import Any

import pytest

from cera_core.errors import ModelError
from cera_core.generation_options import GenerationOptions
from cera_core.model import InferenceState, ModelConfig
from cera_core.session import Session
from cera_core.speculation.context import Context
from cera_core.speculation.model_guard import new_state
from cera_core.testing.drafters import OracleDrafter
from cera_core.testing.fakes import TableModel, TokenState


@pytest.mark.parametrize("max_batch", [0, -5, None, "many"])
def test_model_that_takes_no_tokens_is_refused_and_not_asked_for_ever(max_batch: Any) -> None:
    with pytest.raises(ModelError, match="'max_batch' of TableModel must be a whole number of at least 1, but is "):
        Context(TableModel(max_batch=max_batch), TokenState(8))


@pytest.mark.parametrize("config", [None, ModelConfig(vocab_size="x", max_seq_len=5)])  # type: ignore[arg-type]
def test_model_without_a_size_is_refused(config: Any) -> None:
    model = TableModel()
    model.config = config
    with pytest.raises(ModelError, match="'vocab_size' of TableModel must be"):
        Context(model, InferenceState(5))


def test_state_that_is_none_is_the_backend_s_fault() -> None:
    class Stateless(TableModel):
        def new_state(self, max_seq_len: int | None = None) -> Any:
            return None

    with pytest.raises(ModelError, match="'new_state' of Stateless must make an InferenceState; it made a NoneType"):
        new_state(Stateless(), None)


@pytest.mark.parametrize("error", [RuntimeError("no"), SystemExit("no")])
@pytest.mark.parametrize("method", ["new_state", "forward", "truncate", "rewind_headroom", "copy_state"])
def test_whatever_a_method_of_a_model_raises_is_a_model_error(method: str, error: BaseException) -> None:
    class Failing(TableModel):
        pass

    def fail(self: TableModel, *_: object) -> Any:
        raise error

    fail.__name__ = method
    session = Session(
        Failing(), options=GenerationOptions(adaptive=False, max_tokens=20), drafter=OracleDrafter([3] * 99)
    )
    session.append([3, 3, 3])
    setattr(Failing, method, fail)
    with pytest.raises(ModelError, match=f"'{method}' of Failing failed with {type(error).__name__}: no") as caught:
        Session(
            Failing()
        ) if method == "new_state" else session.fork() if method == "copy_state" else session.generate()
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("dtype", ["object", "int32", "complex64", "U4"])
def test_logits_that_are_no_floats_are_the_backend_s_fault(dtype: str) -> None:
    class Typed(TableModel):
        def forward(self, token_ids: Any, state: InferenceState) -> Any:
            return super().forward(token_ids, state).astype(dtype)

    model = Typed()
    context = Context(model, model.new_state())
    context.append([1])
    with pytest.raises(ModelError, match="must return logits of type float32; it returned "):
        context.catch_up()


def test_model_that_does_not_say_how_far_it_can_go_back_is_not_asked_to() -> None:
    class Silent(TableModel):
        def rewind_headroom(self, state: InferenceState) -> Any:
            return None

    model = Silent()
    assert Context(model, model.new_state()).rewind_headroom() == 0
