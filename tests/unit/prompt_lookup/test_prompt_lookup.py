"""Prompt lookup: known answers, options, and the contract of every drafter."""

import tracemalloc

import pytest
from pydantic import ValidationError

from cera_core.drafter import Draft
from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext
from cera_core.testing import DrafterSuite
from cera_prompt_lookup import (
    PromptLookupDrafter,
    PromptLookupOptions,
    cera_register_drafters,
    prompt_lookup,
)

KNOWN_ANSWERS = [
    pytest.param([10, 20, 30, 10, 20], 2, 3, [30, 10, 20], id="runs into the pattern itself"),
    pytest.param([7, 8, 9, 7, 8, 7, 8], 2, 2, [7, 8], id="most recent of two"),
    pytest.param([1, 2, 9, 5, 1, 2], 2, 5, [9, 5, 1, 2], id="bounded by the end"),
    pytest.param([4, 4, 4, 4], 2, 3, [4], id="constant run"),
    pytest.param([1, 2, 3, 1, 2, 3, 1], 3, 9, [2, 3, 1], id="periodic text"),
    pytest.param([262_143, 0, 262_142, 262_143, 0], 2, 2, [262_142, 262_143], id="largest ids"),
    pytest.param([1, 2, 3, 4], 2, 3, [], id="no match"),
    pytest.param([1, 2], 2, 3, [], id="history as long as the n-gram"),
    pytest.param([1, 1, 1], 0, 3, [], id="n-gram of 0"),
    pytest.param([1, 1, 1], 1, 0, [], id="max_k of 0"),
    pytest.param([1], 1, 3, [], id="one token"),
    pytest.param([], 1, 3, [], id="no tokens"),
]


@pytest.mark.parametrize(("tokens", "ngram", "max_k", "expected"), KNOWN_ANSWERS)
def test_plain_definition_gives_known_answer(tokens, ngram, max_k, expected):
    assert prompt_lookup(tokens, ngram, max_k) == expected


@pytest.mark.parametrize(("tokens", "ngram", "max_k", "expected"), KNOWN_ANSWERS)
def test_drafter_gives_known_answer(tokens, ngram, max_k, expected):
    drafter = PromptLookupDrafter(ngram_max=ngram, ngram_min=ngram)
    assert list(drafter.draft(tokens, max_k).token_ids) == expected


class TestContract(DrafterSuite):
    @pytest.fixture(params=[(3, 1), (2, 2), (5, 2), (0, 0)], ids=str)
    def make_drafter(self, request):
        return lambda: PromptLookupDrafter(*request.param)


def test_longest_ngram_wins_over_a_more_recent_shorter_one():
    tokens = [1, 2, 50, 9, 2, 60, 1, 2]
    assert list(PromptLookupDrafter(2, 1).draft(tokens, 1).token_ids) == [50]
    assert list(PromptLookupDrafter(1, 1).draft(tokens, 1).token_ids) == [60]


def test_draft_says_where_it_came_from():
    draft = PromptLookupDrafter(2, 1).draft([10, 20, 30, 10, 20], 3)
    assert draft == Draft([30, 10, 20], confidences=draft.confidences, match_length=2, source="history[2:5]")


def test_confidence_falls_where_earlier_occurrences_disagree():
    unanimous = PromptLookupDrafter(1, 1).draft([4, 1, 2, 3, 5, 1, 2, 3, 1], 2)
    divided = PromptLookupDrafter(1, 1).draft([4, 1, 9, 3, 5, 1, 2, 3, 1], 2)
    assert list(unanimous.token_ids) == list(divided.token_ids) == [2, 3]
    assert unanimous.confidences[0] > divided.confidences[0]
    assert unanimous.confidences[1] > divided.confidences[1]


def test_match_is_counted_beyond_the_ngram_up_to_32_tokens():
    passage = list(range(40))
    drafts = [PromptLookupDrafter(2, 2).draft(passage + passage[:length], 1) for length in (1, 2, 5, 32, 39)]
    assert [draft.match_length for draft in drafts] == [None, 2, 5, 32, 32]


def test_minimum_follows_a_maximum_below_it():
    assert PromptLookupOptions(ngram_max=0).ngram_min == 0
    assert PromptLookupOptions(ngram_max=1).ngram_min == 1


@pytest.mark.parametrize(
    "options",
    [{"ngram_max": 2, "ngram_min": 3}, {"ngram_max": -1}, {"ngram_max": 10**12}, {"ngram_min": -1}, {"ngrams": 3}],
    ids=str,
)
def test_unusable_options_are_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        PromptLookupOptions(**options)


def test_drafter_refuses_a_minimum_above_its_maximum():
    with pytest.raises(InvalidInputError, match="found 3 and 2"):
        PromptLookupDrafter(ngram_max=2, ngram_min=3)


def test_drafter_refuses_more_indexes_than_memory_holds():
    with pytest.raises(InvalidInputError, match="<= 255, found 2 and 1000000000000"):
        PromptLookupDrafter(ngram_max=10**12)


def test_hook_hands_over_a_spec_that_makes_the_drafter():
    specs = []
    cera_register_drafters(specs.append)
    (spec,) = specs
    drafter = spec.create(spec.options(ngram_max=4, ngram_min=2), DrafterContext())
    assert spec.name == "prompt-lookup"
    assert (drafter.ngram_max, drafter.ngram_min) == (4, 2)
    assert (drafter.clone().ngram_max, drafter.clone().ngram_min) == (4, 2)


def test_default_options_are_those_of_the_class():
    options, drafter = PromptLookupOptions(), PromptLookupDrafter()
    assert (options.ngram_max, options.ngram_min) == (drafter.ngram_max, drafter.ngram_min)


def test_taking_tokens_back_leaves_nothing_in_the_index():
    drafter = PromptLookupDrafter(3, 1)
    drafter.draft([1, 2, 3, 1, 2, 3], 4)
    assert drafter.truncate(0)
    assert all(not index.previous_ends and not index._last_ends for index in drafter._indexes)


def test_memory_it_reports_is_what_it_holds():
    tokens = list(range(20_000))
    tracemalloc.start()
    drafter = PromptLookupDrafter(3, 1)
    drafter.draft(tokens, 1)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.9 * held < drafter.memory_bytes() < 1.2 * held
    assert drafter.memory_bytes() < 600 * len(tokens)
