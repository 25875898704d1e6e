"""The corpus drafter against a plain search, and against files whose bytes were changed."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from cera_core.drafting.confidence import copy_confidence
from cera_core.drafting.corpora.file import open_corpus
from cera_core.drafting.corpora.ordering import MAX_MATCH
from cera_core.errors import InvalidInputError
from cera_corpus.drafter import MAX_PLACES, CorpusDrafter
from support.brute_force import ends_of
from support.corpora import write_corpus

letters = st.integers(0, 3)
documents = st.lists(st.lists(letters, min_size=1, max_size=40), min_size=1, max_size=4)
histories = st.lists(letters, max_size=40)


def written(folder, texts, size=5):
    return write_corpus(Path(folder, "a.corpus"), {str(number): text for number, text in enumerate(texts)}, "", size)


def text_of(texts):
    return [-1, *(token for text in texts for token in (*text, -1))]


def longest_match_that_goes_on(texts, history):
    """Returns by plain search its length, and where it ends."""
    text = text_of(texts)
    for length in range(min(len(history), MAX_MATCH), 0, -1):
        ends = ends_of(history[-length:], text)
        if any(text[end + 1] >= 0 for end in ends):
            return length, ends
    return 0, []


@given(documents, histories, st.integers(1, 12))
def test_draft_is_what_most_often_followed_the_longest_match(texts, history, max_k):
    text = text_of(texts)
    length, ends = longest_match_that_goes_on(texts, history)
    with TemporaryDirectory() as folder:
        corpus = open_corpus(written(folder, texts))
        draft = CorpusDrafter([corpus], min_match=1, tokens_per_match=99).draft(history, max_k)
    assert (draft.match_length or 0) == length
    if not length or len(ends) > MAX_PLACES:
        return
    counts = [len(ends)]
    for number, token_id in enumerate(draft.token_ids):
        followers = [text[end + 1] for end in ends if text[end + 1] >= 0]
        assert followers.count(token_id) == max(map(followers.count, followers))
        ends = [end + 1 for end in ends if text[end + 1] == token_id]
        counts.append(len(ends))
        assert draft.confidences[number] == copy_confidence(length + number, counts[-1] / counts[-2], counts[-2])
    assert len(draft.token_ids) == max_k or all(text[end + 1] < 0 for end in ends)


@given(documents, histories, st.lists(st.tuples(st.integers(0), st.integers(1, 255)), min_size=1, max_size=8))
def test_changed_bytes_give_an_error_or_a_harmless_draft(texts, history, changes):
    with TemporaryDirectory() as folder:
        path = written(folder, texts)
        content = bytearray(path.read_bytes())
        for place, change in changes:
            content[place % len(content)] ^= change
        path.write_bytes(content)
        try:
            drafter = CorpusDrafter([open_corpus(path)], min_match=1)
            draft = drafter.draft(history, 8)
        except InvalidInputError:
            return
    assert len(draft.token_ids) == len(draft.confidences or ()) <= 8
    assert all(0 <= token_id < drafter.corpora[0].header.vocab_size for token_id in draft.token_ids)
    assert all(0 <= confidence <= 1 for confidence in draft.confidences or ())
