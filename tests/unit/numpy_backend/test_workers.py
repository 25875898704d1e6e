from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from cera_numpy.model import NumpyModel
from cera_numpy.workers import MAX_DEFAULT_THREADS, Workers, default_num_threads

Load = Callable[..., NumpyModel]


@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize("num_pieces", [0, 1, 2, 40])
def test_every_piece_is_done_once(num_threads: int, num_pieces: int) -> None:
    done = Counter[int]()
    Workers(num_threads).for_each(lambda piece: done.update([piece]), range(num_pieces))
    assert done == Counter(range(num_pieces))


def test_helpers_do_their_share() -> None:
    both = threading.Barrier(2, timeout=10)
    Workers(2).for_each(lambda piece: both.wait() and None, range(2))


def test_a_helper_that_never_comes_holds_nothing_up() -> None:
    workers = Workers(2)
    release = threading.Event()
    busy = workers._pool.submit(release.wait, 10)
    done = Counter[int]()
    workers.for_each(lambda piece: done.update([piece]), range(4))
    assert done == Counter(range(4))
    release.set()
    busy.result()


@pytest.mark.parametrize("num_threads", [1, 3])
def test_an_error_in_a_piece_is_an_error_of_the_call(num_threads: int) -> None:
    both = threading.Barrier(num_threads, timeout=10)

    def fail_in_a_helper(piece: int) -> None:
        both.wait()
        if num_threads == 1 or threading.current_thread() is not threading.main_thread():
            raise MemoryError

    with pytest.raises(MemoryError):
        Workers(num_threads).for_each(fail_in_a_helper, range(num_threads))


def test_overflow_in_a_helper_warns_nobody() -> None:
    both = threading.Barrier(2, timeout=10)

    def overflow(piece: int) -> None:
        both.wait()
        np.exp(np.float32([1000.0]))

    with np.errstate(all="ignore"):
        Workers(2).for_each(overflow, range(2))


def test_default_is_one_thread_for_each_processor_within_reason() -> None:
    assert 1 <= default_num_threads() <= min(MAX_DEFAULT_THREADS, os.cpu_count() or 1)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("keep_weights", [True, False])
def test_bits_do_not_depend_on_the_number_of_threads(
    load: Load, monkeypatch: pytest.MonkeyPatch, exact: bool, keep_weights: bool
) -> None:
    monkeypatch.setattr("cera_numpy.weights.MIN_SHARED_COST", 0)
    text = np.random.default_rng(4).integers(0, 600, 40).tolist()
    rows = [
        model.forward_all(text, model.new_state())
        for model in (
            load(exact=exact, keep_weights=keep_weights, threads=threads, vocab_size=600, feed_forward_size=672)
            for threads in (1, 2, 5)
        )
    ]
    assert np.array_equal(rows[0], rows[1])
    assert np.array_equal(rows[0], rows[2])
