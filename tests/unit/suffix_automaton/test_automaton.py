"""The automaton itself: known matches, occurrences, size, and the check of its integrity."""

import tracemalloc
from random import Random

import pytest

from cera_core.errors import PluginError
from cera_suffix_automaton.automaton import ROOT, SuffixAutomaton


def automaton_of(tokens, min_match=1):
    automaton = SuffixAutomaton(min_match)
    automaton.extend(tokens)
    return automaton


def find(automaton, tokens):
    state = ROOT
    for token in tokens:
        state = automaton.step(state, token)
    return state


@pytest.mark.parametrize(
    ("tokens", "length"),
    [([], 0), ([5], 0), ([5, 5], 1), ([5] * 9, 8), ([1, 2, 3], 0), ([1, 2, 3, 1, 2], 2), ([1, 2, 9, 2, 1, 2], 2)],
)
def test_longest_match_never_is_the_text_itself(tokens, length):
    automaton = automaton_of(tokens)
    assert automaton.length(automaton.longest_match) == length


def test_ends_and_counts_of_a_string():
    automaton = automaton_of([1, 2, 3, 1, 2, 4, 1, 2, 5, 9])
    automaton.settle(2)
    state = find(automaton, [1, 2])
    assert (automaton.earliest_end(state), automaton.latest_end(state), automaton.count(state)) == (1, 7, 3)
    assert [token for token, _ in automaton.transitions(state)] == [3, 4, 5]


def test_strings_shorter_than_the_minimum_are_not_counted():
    automaton = automaton_of([1, 2, 1, 2, 1, 2, 9], min_match=2)
    automaton.settle(0)
    assert automaton.count(find(automaton, [1, 2])) == 3
    assert automaton.count(find(automaton, [1])) < 3


def test_there_are_at_most_two_states_a_token():
    rng = Random(4)
    for alphabet in (1, 2, 5, 1000):
        automaton = automaton_of([rng.randrange(alphabet) for _ in range(500)])
        assert 500 < automaton.num_states <= 1000


def test_memory_it_reports_is_about_what_it_holds_and_under_600_bytes_a_token():
    rng = Random(5)
    tokens = [int(5_000 ** rng.random()) for _ in range(20_000)]
    tracemalloc.start()
    automaton = automaton_of(tokens)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 600 * len(tokens)
    assert 0.7 * held < automaton.memory_bytes() < 1.3 * held


@pytest.mark.parametrize(
    ("column", "value"),
    [("_links", 4), ("_lengths", 0), ("_earliest_ends", 9), ("_latest_ends", 9), ("_first_targets", 1), ("_counts", 7)],
)
def test_damage_is_found(column, value):
    automaton = automaton_of([1, 2, 3, 1, 2])
    automaton.check_integrity()
    getattr(automaton, column)[3] = value
    with pytest.raises(PluginError, match="Damaged suffix automaton"):
        automaton.check_integrity()


def test_doubled_transition_is_found():
    automaton = automaton_of([1, 2, 1, 3])
    automaton._more_transitions[ROOT][1] = 1
    with pytest.raises(PluginError, match="one transition for token 1"):
        automaton.check_integrity()


def test_lost_states_are_found():
    automaton = automaton_of([1, 2])
    automaton._num_tokens = 1
    with pytest.raises(PluginError, match="at most 2 states, found 3"):
        automaton.check_integrity()
