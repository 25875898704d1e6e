"""The contract of `Model` as the native backend keeps it: arguments, errors, states, threads."""

import threading

import numpy as np
import pytest

from cera_core.errors import (
    ContextFullError,
    InvalidInputError,
    ModelError,
    ModelFileError,
    RewindError,
    UnsupportedModelError,
)
from cera_core.model import InferenceState
from cera_core.modelfile.gguf import open_model_file
from support.native import all_logits, load, random_ids, same_bits, skip_without_extension
from support.tiny_gguf import write_tiny_gguf

skip_without_extension()

pytestmark = pytest.mark.alone  # its threads wait for one another, and spin

import cera_native  # noqa: E402
from cera_native import _native  # noqa: E402


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("native") / "tiny.gguf", context_length=600)


@pytest.fixture(scope="module")
def model(path):
    return load(path, threads=2)


@pytest.mark.parametrize(
    "ids", [[], [-1], [320], [5, 2**31], [2**70], ["a"], [None], [1] * 513], ids=lambda ids: str(ids)[:20]
)
def test_ids_that_are_none_are_refused_and_the_state_stays(model, ids):
    state = model.new_state()
    model.forward([1, 2], state)
    for forward in (model.forward, model.forward_all):
        with pytest.raises(InvalidInputError):
            forward(ids, state)
    assert state.seq_len == 2


def test_a_full_context_is_an_error_and_the_state_stays(model):
    state = model.new_state(10)
    model.forward(list(range(10)), state)
    with pytest.raises(ContextFullError, match="holds 10 tokens"):
        model.forward([1], state)
    assert state.seq_len == 10
    model.truncate(state, 9)
    model.forward([1], state)


@pytest.mark.parametrize("length", [0, -1, 601])
def test_a_state_of_a_length_the_model_has_not_is_refused(model, length):
    with pytest.raises(InvalidInputError, match=r"1\.\.600"):
        model.new_state(length)


@pytest.mark.parametrize("length", [-1, 4])
def test_truncating_to_what_is_not_there_is_refused(model, length):
    state = model.new_state()
    model.forward([1, 2, 3], state)
    with pytest.raises(RewindError):
        model.truncate(state, length)
    assert state.seq_len == 3


def test_states_of_others_are_refused(model, path):
    other = load(path, threads=1)
    for action in (lambda s: model.forward([1], s), lambda s: model.truncate(s, 0), model.copy_state):
        with pytest.raises(InvalidInputError, match="model that made it"):
            action(other.new_state())
        with pytest.raises(InvalidInputError, match="must come from this model's 'new_state'"):
            action(InferenceState(10))


def test_logits_that_somebody_holds_are_not_written_over(model):
    state = model.new_state()
    held = model.forward_all([1, 2, 3], state)
    row = held[1]
    copy = row.copy()
    del held
    model.forward_all([4, 5, 6], state)
    assert np.array_equal(row, copy)


def test_memory_of_the_cache_grows_with_the_text(model):
    state = model.new_state()
    assert state.num_bytes == 0
    model.forward([1], state)
    one_chunk = state.num_bytes
    model.forward(random_ids(model, 400), state)
    assert state.num_bytes == 2 * one_chunk


def test_a_session_of_a_long_context_takes_memory_for_what_it_holds(tmp_path):
    model = load(write_tiny_gguf(tmp_path / "long.gguf", context_length=32768), threads=1)
    short, long = model.new_state(300), model.new_state(32768)
    for state in (short, long):
        model.forward(random_ids(model, 300), state)
    assert long.num_bytes == short.num_bytes
    model.truncate(long, 1)
    model.forward([1], long)
    assert long.num_bytes <= short.num_bytes


def test_two_sessions_on_two_threads_do_not_disturb_each_other(model):
    texts = [random_ids(model, 120, seed) for seed in range(4)]
    expected = [all_logits(model, ids, [120]) for ids in texts]
    results = [None] * len(texts)

    def run(index):
        results[index] = all_logits(model, texts[index], [1, 7, 3])

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same_bits(result, wanted) for result, wanted in zip(results, expected, strict=True))


def test_a_type_without_a_kernel_is_an_error_that_names_tensor_and_type(tmp_path):
    path = write_tiny_gguf(tmp_path / "tiny.gguf", quantisation_of={"*ffn_up.weight": "Q2_K"}, hidden_size=256)
    with pytest.raises(UnsupportedModelError, match=r"blk\.0\.ffn_up\.weight.*found Q2_K"):
        load(path)


def test_an_instruction_set_the_processor_has_not_is_refused(path, monkeypatch):
    monkeypatch.setenv("CERA_NATIVE_ISA", "mmx")
    with open_model_file(path) as model_file, pytest.raises(InvalidInputError, match="'plain', found 'mmx'"):
        cera_native.load(model_file, cera_native.NativeOptions())


def test_the_environment_chooses_the_instruction_set(path, monkeypatch):
    monkeypatch.setenv("CERA_NATIVE_ISA", "plain")
    assert load(path).instruction_set == "plain"


def weights_with(**changes):
    arguments = {
        "hidden_size": 64, "head_dim": 16, "vocab_size": 50, "rms_eps": 1e-5, "instruction_set": "", "num_threads": 1,
        "half_cache": True,
    }  # fmt: skip
    return _native.Model(**(arguments | changes))


@pytest.mark.parametrize(
    "changes",
    [{"hidden_size": 0}, {"head_dim": 15}, {"vocab_size": -1}, {"rms_eps": 0.0}, {"hidden_size": 2**30}],
    ids=str,
)
def test_the_extension_refuses_sizes_no_model_has(changes):
    with pytest.raises(ModelFileError):
        weights_with(**changes)


@pytest.mark.parametrize("threads", [0, -1, 5000])
def test_the_extension_refuses_numbers_of_threads_nobody_has(threads):
    with pytest.raises(InvalidInputError):
        weights_with(num_threads=threads)


def test_the_extension_refuses_layers_that_do_not_fit():
    frequencies = np.ones(8)
    for heads, kv_heads, pairs in ((4, 3, 8), (0, 1, 8), (4, 0, 8), (2**24, 1, 8), (4, 2, 9)):
        with pytest.raises(ModelFileError):
            weights_with().add_layer(heads, kv_heads, 64, frequencies.repeat(2)[:pairs], True)


def test_the_extension_refuses_a_model_with_a_tensor_missing_or_of_another_shape():
    weights = weights_with()
    with pytest.raises(ModelFileError, match="layer"):
        weights.finish()
    weights.add_layer(4, 2, 64, np.ones(8), True)
    with pytest.raises(ModelFileError, match=r"blk\.0\.attn_q\.weight.*missing"):
        weights.finish()
    weights.set_tensor(0, "attn_q.weight", "blk.0.attn_q.weight", 0, 32, np.zeros((64, 128), np.uint8))
    with pytest.raises(ModelFileError, match="64 x 64, found 64 x 32"):
        weights.finish()
    with pytest.raises(ModelError, match="must be finished"):
        weights.new_state(10)
    with pytest.raises(UnsupportedModelError, match="no place"):
        weights.set_tensor(0, "attn_x.weight", "blk.0.attn_x.weight", 0, 32, np.zeros((64, 128), np.uint8))
    with pytest.raises(ModelFileError, match="no layer"):
        weights.set_tensor(1, "attn_q.weight", "blk.1.attn_q.weight", 0, 32, np.zeros((64, 128), np.uint8))


def test_a_finished_model_takes_nothing_more(path):
    weights = load(path)._weights
    with pytest.raises(ModelError, match="takes no more"):
        weights.add_layer(4, 2, 64, np.ones(8), True)
    with pytest.raises(ModelError, match="takes no more"):
        weights.set_tensor(0, "attn_q.weight", "blk.0.attn_q.weight", 0, 32, np.zeros((64, 128), np.uint8))


@pytest.mark.parametrize("shape", [(2, 320), (1, 319), (0, 320)])
def test_the_extension_writes_to_no_memory_of_another_size(path, shape):
    weights = load(path)._weights
    with pytest.raises(InvalidInputError, match="rows"):
        weights.forward(weights.new_state(10), np.zeros(1, np.int32), np.zeros(shape, np.float32), False)


@pytest.mark.parametrize("ids", [[-1], [320], []])
def test_the_extension_itself_refuses_ids_that_are_none(path, ids):
    weights = load(path)._weights
    with pytest.raises(InvalidInputError):
        weights.forward(weights.new_state(10), np.array(ids, np.int32), np.zeros((1, 320), np.float32), False)
