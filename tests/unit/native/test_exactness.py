"""A row's logits have the same bits whatever surrounds it: rows, chunks, threads, rewinds, instruction sets."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from support.native import (
    WEIGHT_TYPES,
    all_logits,
    load,
    random_ids,
    same_bits,
    skip_without_extension,
    tiny_model_file,
)
from support.tiny_blocks import ARCHITECTURES
from support.tiny_gguf import write_tiny_gguf

skip_without_extension()

pytestmark = pytest.mark.alone  # its threads wait for one another, and spin

from cera_native import _native  # noqa: E402

NUM_TOKENS = 300  # more than a chunk of the cache, 256


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    return tiny_model_file(tmp_path_factory.mktemp("native"))


def one_by_one(path: Path, num_tokens: int) -> tuple[list[int], NDArray[np.float32]]:
    model = load(path, threads=1)
    ids = random_ids(model, num_tokens)
    return ids, all_logits(model, ids, [1])


@pytest.mark.parametrize("weight_type", WEIGHT_TYPES)
def test_rows_that_share_a_forward_change_nothing(model_file, weight_type):
    path = model_file(quantisation=weight_type)
    ids, expected = one_by_one(path, 80)
    model = load(path, threads=2)
    for num_rows in (2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 64, 80):
        assert same_bits(all_logits(model, ids, [num_rows]), expected), num_rows


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("threads", [1, 3])
def test_chunks_of_the_prompt_and_threads_change_nothing(model_file, architecture, threads):
    path = model_file(architecture=architecture, rope_factors=architecture == "llama", tied=architecture != "llama")
    ids, expected = one_by_one(path, NUM_TOKENS)
    model = load(path, threads=threads)
    for chunk_lengths in ([NUM_TOKENS], [255, 1, 2, 42], [100, 57, 1], [64, 63, 65, 7]):
        assert same_bits(all_logits(model, ids, chunk_lengths), expected), chunk_lengths


@pytest.mark.parametrize("window", [1, 16, 200, 256, 290])
def test_windows_that_end_anywhere_in_a_chunk_of_the_cache(tmp_path, window):
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture="gemma3", settings={"attention.sliding_window": window})
    ids, expected = one_by_one(path, NUM_TOKENS)
    model = load(path, threads=2)
    for chunk_lengths in ([NUM_TOKENS], [250, 9, 41], [64, 63, 65, 7]):
        assert same_bits(all_logits(model, ids, chunk_lengths), expected), chunk_lengths


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("weight_type", ["F32", "Q4_K"])
@pytest.mark.parametrize("instruction_set", [name for name in _native.instruction_sets() if name != "plain"])
def test_every_architecture_has_the_bits_of_plain_code(model_file, architecture, weight_type, instruction_set):
    path = model_file(architecture=architecture, num_layers=3, quantisation=weight_type)
    plain = load(path, threads=1, instruction_set="plain")
    other = load(path, threads=2, instruction_set=instruction_set)
    ids = random_ids(plain, 40)
    assert same_bits(all_logits(other, ids, [1, 8, 31]), all_logits(plain, ids, [40]))


def test_the_last_row_alone_equals_the_last_of_all(model_file):
    model = load(model_file(), threads=2)
    ids = random_ids(model, NUM_TOKENS)
    expected = all_logits(model, ids, [NUM_TOKENS])[-1]
    assert same_bits(model.forward(ids, model.new_state()), expected)


def test_a_state_truncated_and_grown_again_equals_a_fresh_one(model_file):
    model = load(model_file(), threads=2)
    ids, others = random_ids(model, NUM_TOKENS), random_ids(model, NUM_TOKENS, seed=1)
    expected = all_logits(model, ids, [NUM_TOKENS])
    state = model.new_state()
    model.forward(others, state)
    for length in (290, 256, 255, 17, 0):
        model.truncate(state, length)
        model.truncate(state, 0)
        model.forward_all(ids[: length or 1], state)
        grown = model.forward_all(ids[length or 1 :], state)
        assert same_bits(grown, expected[length or 1 :]), length
        model.truncate(state, length)
        model.forward_all(others[: NUM_TOKENS - length], state)


def test_a_copy_goes_its_own_way(model_file):
    model = load(model_file(), threads=2)
    ids = random_ids(model, NUM_TOKENS)
    expected = all_logits(model, ids, [NUM_TOKENS])
    state = model.new_state()
    model.forward(ids[:200], state)
    copy = model.copy_state(state)
    model.forward(ids[:100], state)
    assert (state.seq_len, copy.seq_len) == (300, 200)
    assert same_bits(model.forward_all(ids[200:], copy), expected[200:])


@pytest.mark.parametrize("weight_type", WEIGHT_TYPES)
@pytest.mark.parametrize("instruction_set", [name for name in _native.instruction_sets() if name != "plain"])
def test_every_instruction_set_gives_the_bits_of_plain_code(model_file, weight_type, instruction_set):
    path = model_file(quantisation=weight_type)
    plain = load(path, threads=1, instruction_set="plain")
    other = load(path, threads=2, instruction_set=instruction_set)
    ids = random_ids(plain, 24)
    assert same_bits(all_logits(other, ids, [11, 13]), all_logits(plain, ids, [24]))


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_heads": 4, "num_kv_heads": 2, "head_dim": 24, "hidden_size": 96},
        {"num_heads": 5, "num_kv_heads": 1, "head_dim": 32, "hidden_size": 160, "vocab_size": 333},
        {"num_heads": 2, "num_kv_heads": 2, "head_dim": 80, "hidden_size": 256, "feed_forward_size": 352},
        {"num_heads": 40, "num_kv_heads": 1, "head_dim": 16, "hidden_size": 64},
        {"num_heads": 2, "num_kv_heads": 1, "head_dim": 10, "hidden_size": 50, "quantisation": "F32"},
    ],
    ids=str,
)
def test_sizes_that_fill_no_vector_are_as_exact(model_file, sizes):
    path = model_file(**sizes)
    ids, expected = one_by_one(path, 70)
    plain = load(path, threads=2, instruction_set="plain")
    assert same_bits(all_logits(load(path, threads=2), ids, [70]), expected)
    assert same_bits(all_logits(plain, ids, [33, 37]), expected)


def test_a_file_of_mixed_types_is_as_exact(model_file):
    path = model_file(
        quantisation="Q4_K",
        quantisation_of={
            "*attn_v.weight": "Q6_K",
            "*attn_k.weight": "F16",
            "*ffn_down.weight": "Q5_0",
            "token*": "Q8_0",
        },
    )
    ids, expected = one_by_one(path, 70)
    assert same_bits(all_logits(load(path, threads=2), ids, [70]), expected)


def test_a_single_precision_cache_is_as_exact_and_differs_a_little(model_file):
    path = model_file()
    single, half = load(path, threads=2, cache_type="f32"), load(path, threads=2)
    ids = random_ids(single, 100)
    expected = all_logits(single, ids, [1])
    assert same_bits(all_logits(single, ids, [100]), expected)
    other = all_logits(half, ids, [100])
    assert not same_bits(other, expected)
    assert np.corrcoef(other.ravel(), expected.ravel())[0, 1] > 0.999
