from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cera_core.errors import ContextFullError, InvalidInputError, ModelError, RewindError
from cera_core.model import InferenceState
from cera_numpy import weights
from cera_numpy.model import NumpyModel
from support.random_weights import WEIGHT_TYPES
from support.tiny_blocks import ARCHITECTURES

Load = Callable[..., NumpyModel]

TEXT = [5, 80, 200, 33, 7, 7, 300, 12, 99, 150, 5, 80]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def random_ids(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 320, length).tolist()


class TestForward:
    @pytest.mark.parametrize("architecture", ARCHITECTURES)
    def test_gives_the_last_row_of_forward_all(self, load: Load, architecture: str) -> None:
        model = load(architecture=architecture)
        rows = model.forward_all(TEXT, model.new_state())
        assert rows.shape == (len(TEXT), 320)
        assert rows.dtype == np.float32
        np.testing.assert_allclose(model.forward(TEXT, model.new_state()), rows[-1], **CLOSE)

    @pytest.mark.parametrize("architecture", ARCHITECTURES)
    @pytest.mark.parametrize(
        "lengths", [[1] * 300, [7] * 42, [200, 100], [130, 1, 1, 168]], ids=["ones", "sevens", "two", "uneven"]
    )
    def test_a_text_in_parts_gives_what_it_gives_at_once(
        self, load: Load, architecture: str, lengths: Sequence[int]
    ) -> None:
        model = load(architecture=architecture)
        text = random_ids(sum(lengths))
        at_once = model.forward_all(text, model.new_state())
        state = model.new_state()
        parts = [model.forward_all(text[state.seq_len : state.seq_len + length], state) for length in lengths]
        np.testing.assert_allclose(np.concatenate(parts), at_once, **CLOSE)

    @pytest.mark.parametrize("weight_type", WEIGHT_TYPES, ids=lambda weight_type: weight_type.name)
    def test_weights_of_every_type_are_read(self, load: Load, weight_type: object) -> None:
        model = load(quantisation=weight_type.name)
        rows = model.forward_all(TEXT, model.new_state())
        assert np.isfinite(rows).all()
        assert rows.std(axis=1).min() > 0.1

    def test_weights_from_the_file_give_the_same_bits(self, load: Load) -> None:
        options = {"quantisation": "Q5_0", "quantisation_of": {"*attn_v.weight": "Q8_0"}, "tied": False}
        rows = [
            model.forward_all(TEXT, model.new_state())
            for model in (load(keep_weights=keep, **options) for keep in (True, False))
        ]
        assert np.array_equal(*rows)

    def test_fewer_turning_elements_than_a_head_has(self, load: Load) -> None:
        model = load(rope_freq_base=500.0)
        assert model.forward([5], model.new_state()).shape == (320,)

    @pytest.mark.parametrize("ids", [tuple(TEXT), np.array(TEXT, np.int32), np.array(TEXT)], ids=["tuple", "i4", "i8"])
    def test_any_sequence_of_ids_will_do(self, load: Load, ids: Sequence[int]) -> None:
        model = load()
        assert np.array_equal(model.forward(ids, model.new_state()), model.forward(TEXT, model.new_state()))

    def test_logits_stay_valid_while_other_states_are_used(self, load: Load) -> None:
        model = load()
        logits = model.forward(TEXT, model.new_state())
        before = logits.copy()
        model.forward(TEXT[:3], model.new_state())
        assert np.array_equal(logits, before)

    def test_weights_that_overflow_warn_nobody(self, load: Load) -> None:
        model = load(quantisation="F32")
        model._head._kept[0] = np.inf
        model._blocks[0]._feed_forward._down._kept[:] = 3e38
        assert not np.isfinite(model.forward(TEXT, model.new_state())).all()  # and no warning became an error

    def test_sessions_on_many_threads_do_not_disturb_one_another(self, load: Load) -> None:
        model = load(num_layers=3)
        texts = [random_ids(40, seed) for seed in range(8)]

        def decode(text: list[int]) -> np.ndarray:
            state = model.new_state()
            return np.array([model.forward([token_id], state) for token_id in text])

        alone = [decode(text) for text in texts]
        with ThreadPoolExecutor(4) as threads:
            together = list(threads.map(decode, texts))
        assert np.array_equal(alone, together)


class TestRefusing:
    @pytest.mark.parametrize(
        ("ids", "message"),
        [
            ([], r"takes 1\.\.512 token ids"),
            ([1] * 513, r"takes 1\.\.512 token ids"),
            ([[1, 2]], r"integers in 0\.\.319, found \[1, 2\]"),
            ([1, 320], r"integers in 0\.\.319, found 320"),
            ([1, -1], r"integers in 0\.\.319, found -1"),
            ([1, 2**70], r"integers in 0\.\.319, found 1180591620717411303424"),
            ([1, 2.5], r"integers in 0\.\.319, found 2.5"),
            ([1, None], r"integers in 0\.\.319, found None"),
            (["1"], r"integers in 0\.\.319, found '1'"),
            (np.array([1.0, 2.0]), r"integers in 0\.\.319, found .*1\.0"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("method", ["forward", "forward_all"])
    def test_ids_that_are_none(self, load: Load, method: str, ids: Sequence[int], message: str) -> None:
        model = load()
        state = model.new_state()
        model.forward(TEXT, state)
        with pytest.raises(InvalidInputError, match=message):
            getattr(model, method)(ids, state)
        assert_holds(model, state, TEXT)

    def test_more_tokens_than_the_state_holds(self, load: Load) -> None:
        model = load()
        state = model.new_state(len(TEXT) + 2)
        model.forward(TEXT, state)
        with pytest.raises(ContextFullError, match="holds 14 tokens and has 12; 3 more do not fit"):
            model.forward_all([1, 2, 3], state)
        assert_holds(model, state, TEXT)
        model.forward([1, 2], state)
        with pytest.raises(ContextFullError):
            model.forward([3], state)

    def test_too_little_memory_for_the_cache(self, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
        model = load()
        state = model.new_state()
        model.forward(TEXT, state)

        def fail(length: int, most: int, oldest: int) -> None:
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(state.layers[1], "reserve", fail)
            with pytest.raises(MemoryError):
                model.forward(random_ids(200), state)
        assert_holds(model, state, TEXT)

    def test_too_little_memory_for_the_weights(self, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(self: weights.Matrix) -> None:
            raise MemoryError

        monkeypatch.setattr(weights.Matrix, "_all_tiles", fail)
        with pytest.raises(ModelError, match=r"need 0.0 GB as float32.*Set the option 'weights'"):
            load()

    @pytest.mark.parametrize("length", [0, -1, 513])
    def test_a_context_the_model_was_not_made_for(self, load: Load, length: int) -> None:
        with pytest.raises(InvalidInputError, match=rf"'max_seq_len' must lie in 1\.\.512.*found {length}"):
            load().new_state(length)

    def test_a_state_of_another_backend(self, load: Load) -> None:
        with pytest.raises(InvalidInputError, match="found InferenceState"):
            load().forward([1], InferenceState(10))


class TestTruncate:
    @pytest.mark.parametrize("exact", [True, False])
    @pytest.mark.parametrize("length", [0, 1, 127, 128, 129, 199, 200])
    def test_going_on_is_like_never_having_been_further(self, load: Load, exact: bool, length: int) -> None:
        model = load(exact=exact)
        text, other, more = random_ids(200), random_ids(60, 1), random_ids(9, 2)
        state, fresh = model.new_state(), model.new_state()
        model.forward(text + other, state)
        model.truncate(state, length)
        assert state.seq_len == length
        if length:
            model.forward(text[:length], fresh)
        direct, refed = model.forward_all(more, fresh), model.forward_all(more, state)
        np.testing.assert_allclose(refed, direct, **CLOSE)
        assert not exact or np.array_equal(refed, direct)

    def test_undefined_values_left_over_do_no_harm(self, load: Load) -> None:
        model = load()
        state = model.new_state()
        model.forward(TEXT, state)
        for cache in state.layers:
            cache.write(len(TEXT), *np.full((2, 5, 2, 16), np.nan, np.float32))
        assert np.array_equal(model.forward([1], state), continued(model, TEXT, [1]))

    @pytest.mark.parametrize("length", [-1, 13])
    def test_to_where_the_text_never_was(self, load: Load, length: int) -> None:
        model = load()
        state = model.new_state()
        model.forward(TEXT, state)
        with pytest.raises(RewindError, match=rf"can be cut to 0\.\.12, found {length}"):
            model.truncate(state, length)
        assert_holds(model, state, TEXT)

    def test_headroom_is_the_whole_text(self, load: Load) -> None:
        model = load()
        state = model.new_state()
        assert model.rewind_headroom(state) == 0
        model.forward(TEXT, state)
        assert model.rewind_headroom(state) == len(TEXT)


class TestCopyState:
    def test_a_copy_goes_its_own_way(self, load: Load) -> None:
        model = load()
        state = model.new_state(300)
        model.forward(TEXT, state)
        copy = model.copy_state(state)
        model.forward(random_ids(50), copy)
        assert copy.max_seq_len == 300
        assert_holds(model, state, TEXT)
        model.truncate(copy, len(TEXT))
        assert_holds(model, copy, TEXT)


def test_a_model_says_what_it_can_do(load: Load) -> None:
    model, exact = load(), load(exact=True)
    assert (model.supports_all_logits, model.supports_rewind, model.supports_copy) == (True, True, True)
    assert (model.batch_invariant, exact.batch_invariant) == (False, True)
    assert (model.config.vocab_size, model.config.max_seq_len, model.config.architecture) == (320, 512, "llama")


def continued(model: NumpyModel, text: list[int], more: list[int]) -> np.ndarray:
    state = model.new_state()
    model.forward(text, state)
    return model.forward(more, state)


def assert_holds(model: NumpyModel, state: InferenceState, text: list[int]) -> None:
    """Checks that a state holds exactly `text`, and leaves it so."""
    assert state.seq_len == len(text)
    assert np.array_equal(model.forward([42], state), continued(model, text, [42]))
    model.truncate(state, len(text))
