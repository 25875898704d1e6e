"""The aho-corasick drafter equals plain search over its phrases on any history over a small alphabet."""

from hypothesis import given
from hypothesis import strategies as st

from cera_aho_corasick.drafter import AhoCorasickDrafter
from cera_aho_corasick.index import PhraseIndex

phrases_and_history = st.integers(1, 4).flatmap(
    lambda largest: st.tuples(
        st.lists(st.lists(st.integers(0, largest), min_size=1, max_size=9), max_size=8),
        st.lists(st.integers(0, largest), max_size=40),
    )
)


def by_search(phrases, tokens, min_match, max_k):
    """Returns the longest beginning of a phrase that `tokens` end with, and the rest of the first that has it."""
    for size in range(len(tokens), min_match - 1, -1):
        for phrase in phrases:
            if len(phrase) > size and phrase[:size] == tokens[-size:]:
                return size, phrase[size : size + max_k]
    return None, []


@given(drawn=phrases_and_history, min_match=st.integers(1, 3), max_k=st.integers(0, 9), stride=st.integers(1, 12))
def test_drafter_equals_plain_search(drawn, min_match, max_k, stride):
    phrases, tokens = drawn
    drafter = AhoCorasickDrafter(PhraseIndex(phrases, min_match, 9))
    for length in [*range(0, len(tokens) + 1, stride), len(tokens) // 2]:
        size, expected = by_search(phrases, tokens[:length], min_match, max_k)
        draft = drafter.draft(tokens[:length], max_k)
        assert list(draft.token_ids) == expected
        assert draft.match_length == (size if max_k else None)


@given(drawn=phrases_and_history, max_match=st.integers(2, 6))
def test_draft_always_goes_on_from_a_place_where_the_history_matches(drawn, max_match):
    phrases, tokens = drawn
    drafter = AhoCorasickDrafter(PhraseIndex(phrases, 2, max_match))
    for length in range(len(tokens) + 1):
        draft = drafter.draft(tokens[:length], 3)
        if draft.token_ids:
            continued = tokens[length - draft.match_length : length] + list(draft.token_ids)
            assert any(
                phrase[start : start + len(continued)] == continued
                for phrase in phrases
                for start in range(len(phrase))
            )


@given(drawn=phrases_and_history)
def test_shares_are_those_of_the_different_phrases_that_go_on(drawn):
    phrases, tokens = drawn
    index = PhraseIndex(phrases, 1, 9)
    different = {tuple(phrase) for phrase in phrases}
    reader = index.reader()
    if reader is None or not tokens:
        return
    reader.feed(tokens)
    if reader.found is None:
        return
    match = index.beginning(reader.found)
    draft = index.continuation(match, 9)
    known = tokens[-match.length :]
    for share in index.shares(match, len(draft)):
        have, token = [phrase for phrase in different if list(phrase[: len(known)]) == known], draft[0]
        # the count leaves out phrases that end where the history does, or with the next token
        have = [phrase for phrase in have if len(phrase) > len(known)]
        going_on = [phrase for phrase in have if phrase[len(known)] == token]
        counted = [phrase for phrase in going_on if len(phrase) > len(known) + 1]
        assert share == max(len(counted), 1) / len(have)
        if not counted:
            break
        known, draft = [*known, token], draft[1:]
