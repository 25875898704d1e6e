"""The shared token buffer: what is lent never changes, and lending costs nothing."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core.speculation.history import History


def test_view_is_a_read_only_sequence() -> None:
    view = History([3, 1, 3]).view()
    assert (len(view), view[0], view[-1], list(view)) == (3, 3, 3, [3, 1, 3])
    assert (view.count(3), view.index(1), 1 in view, 7 in view) == (2, 1, True, False)
    with pytest.raises(TypeError):
        view[0] = 5  # type: ignore[index]
    with pytest.raises(IndexError):
        view[3]


def test_slice_of_a_view_is_a_new_list() -> None:
    history = History([1, 2, 3])
    part = history.view()[1:]
    part.append(9)
    assert type(part) is list
    assert list(history.view()) == [1, 2, 3]


def test_view_equals_any_sequence_of_the_same_ids() -> None:
    view = History([1, 2]).view()
    assert view == [1, 2] == view == (1, 2)
    assert view != [1, 2, 3]
    assert view != 5
    assert repr(view) == "TokenView([1, 2])"
    with pytest.raises(TypeError):
        hash(view)


def test_numpy_sees_a_view_without_a_copy_and_cannot_write() -> None:
    view = History([1, 2, 3]).view()
    array = np.asarray(view)
    assert array.dtype == np.int32
    assert np.shares_memory(array, np.asarray(view))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)


def test_numpy_copy_or_other_type_is_independent() -> None:
    view = History([1, 2, 3]).view()
    for array in (np.array(view, copy=True), np.asarray(view, dtype=np.int64)):
        array[0] = 9
    assert view[0] == 1
    assert np.asarray(view, dtype=np.int64).dtype == np.int64
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # earlier ones copied without a word
        with pytest.raises(ValueError, match="copy"):
            np.asarray(view, dtype=np.int64, copy=False)


def test_view_kept_from_earlier_never_changes() -> None:
    history = History([1, 2, 3])
    view, array = history.view(), np.asarray(history.view())
    history.append(4)
    history.truncate(1)
    history.extend([7, 8, 9])
    assert list(view) == array.tolist() == [1, 2, 3]
    assert list(history.view()) == [1, 7, 8, 9]


def test_append_and_extend_grow_past_the_first_buffer() -> None:
    history = History()
    for token_id in range(3000):
        history.append(token_id)
    history.extend(range(3000, 9000))
    assert list(history.view()) == list(range(9000))
    assert len(history) == 9000
    assert history[-1] == 8999


def test_extend_with_an_id_that_is_none_adds_nothing() -> None:
    history = History([1])
    for bad in ([2, 2**31], [2, 1.5], [2, "3"]):
        with pytest.raises((TypeError, OverflowError)):
            history.extend(bad)
    assert list(history.view()) == [1]


@pytest.mark.parametrize("token_id", [262_143, 2**31 - 1])
def test_ids_of_large_vocabularies_are_kept(token_id: int) -> None:
    history = History()
    history.append(token_id)
    assert history[0] == token_id


def test_lineage_says_that_one_view_begins_the_other() -> None:
    history = History([1, 2, 3])
    first = history.view()
    history.append(4)
    assert history.view().lineage is first.lineage
    history.truncate(3)  # what it takes off was lent to nobody since the append, but the view above saw it
    assert history.view().lineage is not first.lineage


def test_truncate_of_what_nobody_saw_keeps_lineage_and_buffer() -> None:
    history = History([1, 2])
    first = history.view()
    history.append(3)
    history.truncate(2)
    assert history.view().lineage is first.lineage


def test_lending_copies_nothing() -> None:
    long, short = History(range(100_000)), History([1])
    assert np.asarray(long.view()).base is not None
    assert sys.getsizeof(long.view()) == sys.getsizeof(short.view())
    assert np.shares_memory(np.asarray(long.view()), np.asarray(long.view()))


changes = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 5)),
    st.tuples(st.just("extend"), st.lists(st.integers(0, 5), max_size=5)),
    st.tuples(st.just("truncate"), st.integers(0, 20)),
    st.tuples(st.just("lend"), st.none()),
)


@given(steps=st.lists(changes, max_size=30))
def test_history_equals_a_list_and_every_view_stays_as_it_was(steps: list[tuple[str, object]]) -> None:
    history, expected, lent = History(), [], []
    for change, value in steps:
        if change == "append":
            history.append(value)
            expected.append(value)
        elif change == "extend":
            history.extend(value)
            expected.extend(value)
        elif change == "truncate":
            length = min(value, len(expected))
            history.truncate(length)
            del expected[length:]
        else:
            lent.append((history.view(), list(expected)))
        assert len(history) == len(expected)
        for view, copy in lent:
            assert list(view) == copy
    assert list(history.view()) == expected
    for one, _ in lent:
        for other, _ in lent:
            if one.lineage is other.lineage:
                length = min(len(one), len(other))
                assert one[:length] == other[:length]
