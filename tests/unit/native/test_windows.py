"""Layers with a window keep what a state may still see, and no more; the bits are those of a state that keeps all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cera_core.errors import RewindError
from cera_core.model import InferenceState, Model
from support.native import load, skip_without_extension
from support.tiny_gguf import write_tiny_gguf

skip_without_extension()

pytestmark = pytest.mark.alone  # its threads wait for one another, and spin

HEADROOM = 5
LENGTH = 1500  # several chunks of 256 keys; the window has 24
rng = np.random.default_rng(5)
TOKEN_IDS = rng.integers(0, 300, LENGTH + 64).tolist()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("windows")
    return write_tiny_gguf(folder / "tiny.gguf", architecture="gemma3", num_layers=4, context_length=4096)


@pytest.fixture(scope="module")
def bounded(file: Path) -> Model:
    return load(file, threads=2, rewind_headroom=HEADROOM)


@pytest.fixture(scope="module")
def unbounded(file: Path) -> Model:
    return load(file, threads=2, rewind_headroom=65536)


def fed(model: Model, num_tokens: int, step: int = 100) -> InferenceState:
    state = model.new_state()
    for start in range(0, num_tokens, step):
        model.forward(TOKEN_IDS[start : min(start + step, num_tokens)], state)
    return state


@pytest.mark.parametrize("num_rows", [1, 9, 64])
@pytest.mark.parametrize("step", [1, 100, 512])
def test_the_bits_are_those_of_a_state_that_keeps_all(
    bounded: Model, unbounded: Model, num_rows: int, step: int
) -> None:
    following = TOKEN_IDS[LENGTH : LENGTH + num_rows]
    ours = bounded.forward_all(following, fed(bounded, LENGTH, step))
    theirs = unbounded.forward_all(following, fed(unbounded, LENGTH))
    assert ours.tobytes() == theirs.tobytes()


def test_memory_is_bounded_by_the_window(bounded: Model, unbounded: Model) -> None:
    short, long = fed(bounded, 600), fed(bounded, 1500)
    all_of_it = fed(unbounded, 1500)
    in_windows = 0.5  # two of four layers see 24 tokens: at most two chunks, where the others have six
    assert long.num_bytes < all_of_it.num_bytes * (1 - in_windows * 3.5 / 6)
    assert long.num_bytes - short.num_bytes == (all_of_it.num_bytes - fed(unbounded, 600).num_bytes) * in_windows


@pytest.mark.parametrize("length", [255, 256, 300, 512 + HEADROOM, 1300, LENGTH])
def test_a_state_goes_back_by_the_headroom_exactly(bounded: Model, unbounded: Model, length: int) -> None:
    state = fed(bounded, length, 64)
    assert bounded.rewind_headroom(state) >= HEADROOM
    bounded.truncate(state, length - HEADROOM)
    following = TOKEN_IDS[length - HEADROOM : length + 3]
    assert (
        bounded.forward_all(following, state).tobytes()
        == unbounded.forward_all(following, fed(unbounded, length - HEADROOM)).tobytes()
    )


def test_what_is_gone_is_refused_and_what_is_said_to_be_there_is_exact(bounded: Model, unbounded: Model) -> None:
    state = fed(bounded, LENGTH)
    oldest = LENGTH - bounded.rewind_headroom(state)
    assert 0 < oldest <= LENGTH - HEADROOM
    with pytest.raises(RewindError, match=rf"can be cut to {oldest}\.\.{LENGTH}, found {oldest - 1}"):
        bounded.truncate(state, oldest - 1)
    bounded.truncate(state, oldest)
    following = TOKEN_IDS[oldest : oldest + 40]
    theirs = unbounded.forward_all(following, fed(unbounded, oldest))
    assert bounded.forward_all(following, state).tobytes() == theirs.tobytes()


def test_a_fork_sees_the_same(bounded: Model, unbounded: Model) -> None:
    state = fed(bounded, LENGTH)
    copy = bounded.copy_state(state)
    assert copy.num_bytes <= state.num_bytes
    following = TOKEN_IDS[LENGTH : LENGTH + 30]
    theirs = unbounded.forward_all(following, fed(unbounded, LENGTH)).tobytes()
    assert bounded.forward_all(following, copy).tobytes() == theirs
    assert bounded.forward_all(following, state).tobytes() == theirs
    assert bounded.rewind_headroom(copy) == bounded.rewind_headroom(state)
