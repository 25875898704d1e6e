"""What no caller should do to the native backend ends in an error of cera, or does nothing; never in a crash."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cera_core.errors import InvalidInputError, ModelError, ModelFileError, RewindError
from support.native import all_logits, load, random_ids, same_bits, skip_without_extension
from support.tiny_gguf import write_tiny_gguf

skip_without_extension()

from cera_native import _native  # noqa: E402

VOCAB_SIZE = 320


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_tiny_gguf(tmp_path_factory.mktemp("native") / "tiny.gguf", context_length=600)


@pytest.fixture(scope="module")
def model(path):
    return load(path, threads=2)


def run_script(code: str, path: Path) -> "subprocess.CompletedProcess[str]":
    """Runs code in a process of its own; `path` is the model file there, and `load` loads it."""
    head = f"import gc, os, sys, threading, time\nfrom support.native import load\npath = {str(path)!r}\n"
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", head + code],
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "PATH": ""},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


class TestArguments:
    @pytest.mark.parametrize(
        "ids",
        [[1.5], [True], ["5"], [[1, 2], [3, 4]], np.array([1.0]), 5, None, b"ab", {1, 2}, [2**63], [1, [2]]],
        ids=lambda ids: str(ids)[:20],
    )
    def test_what_is_no_sequence_of_integers_is_refused(self, model, ids):
        state = model.new_state()
        for forward in (model.forward, model.forward_all):
            with pytest.raises(InvalidInputError):
                forward(ids, state)
        assert state.seq_len == 0

    @pytest.mark.parametrize(
        "ids", [(1, 2), range(1, 3), np.array([1, 2], np.uint8), np.array([1, 0, 2, 0])[::2]], ids=str
    )
    def test_any_sequence_of_integers_is_taken(self, model, ids):
        expected = model.forward_all([1, 2], model.new_state()).copy()
        assert same_bits(model.forward_all(ids, model.new_state()), expected)

    @pytest.mark.parametrize("length", ["2", 1.0, None, [1]])
    def test_a_length_that_is_no_integer_is_refused(self, model, length):
        state = model.new_state()
        model.forward([1, 2, 3], state)
        with pytest.raises(InvalidInputError, match="'length' must be an integer"):
            model.truncate(state, length)
        if length is not None:
            with pytest.raises(InvalidInputError, match="'max_seq_len' must be an integer"):
                model.new_state(length)
        assert state.seq_len == 3

    @pytest.mark.parametrize("length", [2**31, 2**70, -(2**70)])
    def test_a_length_beyond_any_context_is_refused(self, model, length):
        with pytest.raises(RewindError):
            model.truncate(model.new_state(), length)
        with pytest.raises(InvalidInputError):
            model.new_state(length)

    def test_a_forward_after_an_error_is_as_without_it(self, model):
        ids = random_ids(model, 30)
        expected = all_logits(model, ids, [30])
        state = model.new_state(30)
        model.forward(ids[:20], state)
        for wrong in ([VOCAB_SIZE], [1] * 11):
            with pytest.raises(InvalidInputError):
                model.forward_all(wrong, state)
        assert same_bits(model.forward_all(ids[20:], state), expected[20:])


class TestExtension:
    """The extension itself, without the checks in Python before it."""

    @pytest.mark.parametrize(
        ("ids", "logits"),
        [
            (np.ones(1, np.int64), np.zeros((1, VOCAB_SIZE), np.float32)),
            (np.ones(1, np.float32), np.zeros((1, VOCAB_SIZE), np.float32)),
            (np.ones((1, 1), np.int32), np.zeros((1, VOCAB_SIZE), np.float32)),
            (np.ones(1, np.int32), np.zeros((1, VOCAB_SIZE), np.float64)),
            (np.ones(1, np.int32), np.zeros((1, 2 * VOCAB_SIZE), np.float32)[:, ::2]),
            (np.ones(1, np.int32), np.zeros(VOCAB_SIZE, np.float32)),
            (np.ones(2, np.int32), np.zeros((VOCAB_SIZE, 2), np.float32).T),
            (np.ones(1, np.int32), np.broadcast_to(np.float32(0), (1, VOCAB_SIZE))),
            ([1], np.zeros((1, VOCAB_SIZE), np.float32)),
            (np.ones(1, np.int32), None),
        ],
        ids=lambda value: f"{getattr(value, 'dtype', value)}{getattr(value, 'strides', '')}",
    )
    def test_arrays_of_another_type_or_order_are_not_converted(self, model, ids, logits):
        weights = model._weights
        with pytest.raises(TypeError):
            weights.forward(weights.new_state(10), ids, logits, len(ids) > 1)

    @pytest.mark.parametrize("length", [0, -1, -(2**31)])
    def test_a_state_for_no_token_is_refused(self, model, length):
        with pytest.raises(InvalidInputError):
            model._weights.new_state(length)

    @pytest.mark.parametrize("frequency", [np.nan, np.inf, -np.inf, 1e300])
    def test_frequencies_without_bounds_are_refused(self, frequency):
        weights = _native.Model(64, 16, 50, 1e-5, "", 1, True)
        with pytest.raises(ModelFileError, match="radians"):
            weights.add_layer(4, 2, 64, np.full(8, frequency), True)

    @pytest.mark.parametrize(
        "arguments", [(64, 1 << 17, 50, 1e-5), (64, 16, 50, np.nan), (64, 16, 50, np.inf)], ids=str
    )
    def test_numbers_no_model_has_are_refused(self, arguments):
        with pytest.raises(ModelFileError):
            _native.Model(*arguments, "", 1, True)

    @pytest.mark.parametrize("name", ["mmx", "AVX2", "neon, plain", "x" * 5000, "\0"])
    def test_instruction_sets_there_are_not_are_refused(self, name):
        with pytest.raises(InvalidInputError, match="'plain'"):
            _native.Model(64, 16, 50, 1e-5, name, 1, True)


class TestLifetimes:
    def test_a_state_outlives_its_model(self, path):
        other = load(path, threads=2)
        state = other.new_state()
        other.forward([1, 2], state)
        del other
        assert state.num_bytes > 0
        assert state.seq_len == 2

    def test_more_threads_than_work_are_as_exact(self, path, model):
        ids = random_ids(model, 20)
        assert same_bits(all_logits(load(path, threads=64), ids, [20]), all_logits(model, ids, [20]))

    def test_a_forked_process_is_told_to_load_the_model_itself(self, path):
        process = run_script(
            """
from cera_core.errors import ModelError
model = load(path, threads=2)
state = model.new_state()
def run():
    own = model.new_state()
    while True:
        model.forward(list(range(300)), own)
        model.truncate(own, 0)
threading.Thread(target=run, daemon=True).start()
time.sleep(0.05)
for _ in range(3):
    child = os.fork()
    if child == 0:
        for action in (lambda: model.forward([1], state), lambda: model.truncate(state, 0),
                       lambda: model.copy_state(state)):
            try:
                action()
            except ModelError as error:
                assert "spawn" in str(error)
            else:
                os._exit(3)
        own = load(path, threads=2)
        own.forward([1], own.new_state())
        del model, own
        gc.collect()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
""",
            path,
        )
        assert (process.returncode, process.stderr) == (0, "")

    @pytest.mark.parametrize("num_tokens", [1, 300])
    def test_the_interpreter_ends_while_a_daemon_thread_is_in_a_forward(self, path, num_tokens):
        process = run_script(
            f"""
model = load(path, threads=2)
def run():
    state = model.new_state()
    while True:
        model.forward(list(range({num_tokens})), state)
        model.truncate(state, 0)
threading.Thread(target=run, daemon=True).start()
time.sleep(0.05)
""",
            path,
        )
        assert (process.returncode, process.stderr) == (0, "")

    def test_too_little_memory_is_an_error_and_the_state_stays(self, tmp_path):
        path = write_tiny_gguf(tmp_path / "wide.gguf", num_heads=64, num_kv_heads=64, head_dim=64, context_length=4096)
        process = run_script(
            """
import resource
from cera_core.errors import ModelError
from cera_native import _native
model = load(path, threads=1, cache_type="f32")
states = [model.new_state() for _ in range(4096)]
model.forward([1], states[0])
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20),) * 2)
for state in states[1:]:
    try:
        model.forward([1], state)
    except ModelError as error:
        assert "more memory" in str(error), error
        break
else:
    sys.exit("the limit was not met")
assert state.seq_len == 0 and state.num_bytes == 0
model.forward([2], states[0])
assert states[0].seq_len == 2
try:
    _native.Model(64, 16, 50, 1e-5, "", 1024, True)
except ModelError:
    pass
else:
    sys.exit("1024 threads were started in no memory")
""",
            path,
        )
        assert (process.returncode, process.stderr) == (0, "")


def test_an_error_of_the_extension_is_one_of_cera():
    weights = _native.Model(64, 16, 50, 1e-5, "", 1, True)
    with pytest.raises(ModelError):
        weights.new_state(1)
