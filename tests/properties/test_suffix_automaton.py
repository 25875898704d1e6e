"""The suffix automaton equals plain search on any history over a small alphabet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_suffix_automaton.automaton import SuffixAutomaton
from cera_suffix_automaton.corpus import SEPARATOR, Corpus
from cera_suffix_automaton.drafter import SuffixAutomatonDrafter
from support.brute_force import continuation, ends_of, longest_match

OCCURRENCES = ("most-recent", "most-frequent", "earliest")

texts = st.integers(0, 3).flatmap(lambda largest: st.lists(st.integers(0, largest), max_size=50))


def by_search(tokens, occurrence, min_match, max_k):
    size, ends = longest_match(tokens)
    return continuation(tokens, ends, occurrence, max_k, size) if size >= min_match else []


@pytest.mark.parametrize("occurrence", OCCURRENCES)
@given(tokens=texts, min_match=st.integers(1, 4), max_k=st.integers(0, 9), stride=st.integers(1, 7))
def test_drafter_equals_plain_search(occurrence, tokens, min_match, max_k, stride):
    drafter = SuffixAutomatonDrafter(min_match, occurrence)
    for length in range(0, len(tokens) + 1, stride):
        history = tokens[:length]
        assert list(drafter.draft(history, max_k).token_ids) == by_search(history, occurrence, min_match, max_k)
        drafter.check_integrity()


@pytest.mark.parametrize("occurrence", OCCURRENCES)
@given(parts=st.lists(texts, min_size=1, max_size=4), tokens=texts, min_match=st.integers(1, 3))
def test_drafter_with_a_corpus_takes_the_longer_match(occurrence, parts, tokens, min_match):
    corpus = Corpus([(str(number), part) for number, part in enumerate(parts)], min_match)
    joined = [token for part in parts for token in [*part, SEPARATOR]]
    drafter = SuffixAutomatonDrafter(min_match, occurrence, corpus=corpus).clone()
    for length in range(len(tokens) + 1):
        history = tokens[:length]
        matches = [(*longest_match(history), history), (*longest_match(history, joined), joined)]
        drafts = [
            continuation(text, ends, occurrence, 9, size)
            for size, ends, text in sorted(matches, key=lambda match: -match[0])
            if size >= min_match
        ]
        expected = next((draft for draft in drafts if draft), [])
        assert list(drafter.draft(history, 9).token_ids) == expected


@given(tokens=texts, queries=st.lists(st.integers(1, 12)))
def test_counts_and_ends_of_every_string_are_exact_once_settled(tokens, queries):
    automaton = SuffixAutomaton()
    for position, token in enumerate(tokens):
        automaton.extend([token])
        if position < len(queries):
            automaton.settle(queries[position])
    automaton.settle(1)
    automaton.check_integrity()
    for start in range(len(tokens)):
        state = 0
        for end in range(start, len(tokens)):
            state = automaton.step(state, tokens[end])
            assert state
            ends = ends_of(tokens[start : end + 1], tokens)
            assert automaton.earliest_end(state) == min(ends)
            earlier = [end for end in ends if end < len(tokens) - 1] or ends
            assert (automaton.count(state), automaton.latest_end(state)) == (len(earlier), max(earlier))
