"""Prompt lookup equals its plain definition on any history."""

from hypothesis import given
from hypothesis import strategies as st

from cera_prompt_lookup import PromptLookupDrafter, prompt_lookup

small_alphabet = st.integers(1, 4).flatmap(lambda size: st.lists(st.integers(0, size), max_size=60))


def plain(tokens, ngram_max, ngram_min, max_k):
    drafts = (prompt_lookup(tokens, ngram, max_k) for ngram in range(ngram_max, ngram_min - 1, -1))
    return next((draft for draft in drafts if draft), [])


@given(tokens=small_alphabet, ngrams=st.tuples(st.integers(0, 5), st.integers(0, 5)), max_k=st.integers(0, 9))
def test_drafter_equals_plain_definition_at_every_length(tokens, ngrams, max_k):
    ngram_min, ngram_max = sorted(ngrams)
    drafter = PromptLookupDrafter(ngram_max, ngram_min)
    for length in range(len(tokens) + 1):
        draft = drafter.draft(tokens[:length], max_k)
        assert list(draft.token_ids) == plain(tokens[:length], ngram_max, ngram_min, max_k)


@given(histories=st.lists(small_alphabet, min_size=2, max_size=5), max_k=st.integers(1, 9))
def test_drafter_equals_plain_definition_when_histories_follow_one_another(histories, max_k):
    drafter = PromptLookupDrafter(3, 1)
    for tokens in histories:
        assert list(drafter.draft(tokens, max_k).token_ids) == plain(tokens, 3, 1, max_k)
