"""The base of incremental drafters: each token is fed once, and any change of the history is noticed."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core.drafter import NO_DRAFT, Draft, IncrementalDrafter, common_prefix_length
from cera_core.speculation.history import History


class Recorder(IncrementalDrafter):
    """Keeps a copy of what it was fed and notes each call."""

    def __init__(self, can_truncate=True):
        super().__init__()
        self.index = []
        self.calls = []
        self.can_truncate = can_truncate

    def extend(self, new_tokens):
        self.index.extend(new_tokens)
        self.calls.append(("extend", list(new_tokens)))
        assert self.history.tolist() == self.index

    def propose(self, max_k):
        self.calls.append(("propose", max_k))
        return Draft(self.index[:max_k])

    def clone(self):
        return Recorder(self.can_truncate)

    def reset(self):
        super().reset()
        self.index = []
        self.calls.append(("reset",))

    def truncate(self, length):
        self.calls.append(("truncate", length))
        assert self.history.tolist() == self.index
        if self.can_truncate:
            del self.index[length:]
        return self.can_truncate

    def calls_for(self, tokens):
        self.calls.clear()
        self.draft(tokens, 3)
        return self.calls[:-1]


def test_only_new_tokens_are_fed():
    drafter = Recorder()
    assert drafter.calls_for([1, 2]) == [("extend", [1, 2])]
    assert drafter.calls_for([1, 2, 3]) == [("extend", [3])]
    assert drafter.calls_for([1, 2, 3]) == []


def test_shrunken_history_is_truncated():
    drafter = Recorder()
    drafter.draft([1, 2, 3, 4], 3)
    assert drafter.calls_for([1, 2]) == [("truncate", 2)]


def test_diverged_history_of_equal_length_is_truncated_to_what_is_shared():
    drafter = Recorder()
    drafter.draft([1, 2, 3, 4], 3)
    assert drafter.calls_for([1, 2, 5, 4]) == [("truncate", 2), ("extend", [5, 4])]


def test_drafter_that_cannot_truncate_is_rebuilt():
    drafter = Recorder(can_truncate=False)
    drafter.draft([1, 2, 3, 4], 3)
    assert drafter.calls_for([1, 2, 5]) == [("truncate", 2), ("reset",), ("extend", [1, 2, 5])]


def test_history_that_shares_nothing_is_rebuilt_without_asking():
    drafter = Recorder()
    drafter.draft([1, 2, 3], 3)
    assert drafter.calls_for([4, 2, 3]) == [("reset",), ("extend", [4, 2, 3])]
    assert drafter.calls_for([]) == [("reset",)]


def test_max_k_of_0_feeds_but_does_not_ask():
    drafter = Recorder()
    assert drafter.draft([1, 2], 0) is NO_DRAFT
    assert drafter.calls == [("extend", [1, 2])]


def test_views_of_a_rewound_history_are_told_apart():
    drafter, history = Recorder(), History([1, 2, 3, 4])
    drafter.draft(history.view(), 3)
    history.truncate(2)
    history.extend([9, 4])
    assert drafter.calls_for(history.view()) == [("truncate", 2), ("extend", [9, 4])]


def test_views_of_one_history_are_not_compared(monkeypatch):
    drafter, history = Recorder(), History([1, 2, 3])
    drafter.draft(history.view(), 3)
    monkeypatch.setattr("cera_core.drafter.common_prefix_length", lambda *_: pytest.fail("compared"))
    history.append(4)
    assert drafter.calls_for(history.view()) == [("extend", [4])]


def test_drafter_that_fails_while_fed_starts_afresh():
    class Failing(Recorder):
        def extend(self, new_tokens):
            if 13 in new_tokens:
                self.index.append(13)
                raise RuntimeError("13")
            super().extend(new_tokens)

    drafter = Failing()
    drafter.draft([1, 2], 3)
    with pytest.raises(RuntimeError, match="13"):
        drafter.draft([1, 2, 13], 3)
    assert drafter.calls_for([1, 2, 3]) == [("extend", [1, 2, 3])]


def test_memory_counts_the_history():
    drafter = Recorder()
    drafter.draft(list(range(100)), 1)
    assert drafter.memory_bytes() == 400


tokens = st.lists(st.integers(0, 2), max_size=20)


@given(histories=st.lists(tokens, max_size=8), can_truncate=st.booleans())
def test_index_always_equals_the_history_shown_last(histories, can_truncate):
    drafter = Recorder(can_truncate)
    for shown in histories:
        drafter.draft(shown, 1)
        assert drafter.index == drafter.history.tolist() == shown


@given(fed=tokens, shown=tokens)
def test_common_prefix_length_equals_its_definition(fed, shown):
    pairs = list(zip(fed, shown, strict=False))
    expected = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    assert common_prefix_length(array("i", fed), shown) == expected
