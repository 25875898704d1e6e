"""The suffix-automaton drafter: which occurrence, how many tokens, from where; options; the drafter contract."""

import pytest
from pydantic import ValidationError

from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext
from cera_core.testing import DrafterSuite
from cera_core.testing.drafter_checks import sample_histories
from cera_suffix_automaton import SuffixAutomatonOptions, cera_register_drafters
from cera_suffix_automaton.corpus import Corpus
from cera_suffix_automaton.drafter import SuffixAutomatonDrafter
from support.letter_tokenizer import CONTEXT, letters
from support.scaling import broken_run, constant_run, growth, periodic

OCCURRENCES = ("most-recent", "most-frequent", "earliest")


def create(context=CONTEXT, **options):
    specs = []
    cera_register_drafters(specs.append)
    (spec,) = specs
    assert spec.name == "suffix-automaton"
    return spec.create(spec.options(**options), context)


def ids(drafter, tokens, max_k=8):
    return list(drafter.draft(tokens, max_k).token_ids)


class TestContract(DrafterSuite):
    @pytest.fixture(params=OCCURRENCES)
    def make_drafter(self, request):
        return lambda: SuffixAutomatonDrafter(1, request.param, tokens_per_match=3)


class TestContractWithACorpus(DrafterSuite):
    @pytest.fixture
    def make_drafter(self):
        passage = sample_histories()["a passage copied with one change"][:20]
        return SuffixAutomatonDrafter(2, corpus=Corpus([("run", [7] * 9), ("passage", passage)], 2)).clone


@pytest.mark.parametrize(
    ("occurrence", "expected"), [("most-recent", [5]), ("most-frequent", [4]), ("earliest", [3])], ids=OCCURRENCES
)
def test_occurrence_is_chosen_by_option(occurrence, expected):
    tokens = [1, 2, 3, 1, 2, 4, 0, 1, 2, 4, 1, 2, 5, 9, 1, 2]
    assert ids(create(occurrence=occurrence), tokens, max_k=1) == expected


def test_draft_grows_with_the_match():
    tokens = [*range(1, 20), 50, *range(1, 6)]
    lengths = [len(ids(create(), tokens[:length])) for length in range(21, 26)]
    assert lengths == [2, 3, 4, 5, 6]
    assert ids(create(tokens_per_match=2), tokens, max_k=12) == [6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]
    assert ids(create(tokens_per_match=0.1), tokens) == [6]
    assert ids(create(tokens_per_match=1e308), tokens) == ids(create(tokens_per_match=1000), tokens)


def test_draft_goes_on_where_a_period_reaches_the_end_of_the_history():
    assert ids(create(), [7] * 30) == [7] * 8
    assert ids(create(), [1, 2, 3] * 9) == [1, 2, 3, 1, 2, 3, 1, 2]
    assert create().draft([1, 2, 3] * 9, 8).source == "history[24:27]"


def test_token_that_is_not_likely_with_those_before_it_is_not_drafted():
    always_another = [token for other in range(10, 40) for token in (1, other)]
    assert ids(create(), [*always_another, 1]) == []
    assert ids(create(), [*always_another, 10, 1]) == [11, 1, 12]


def test_match_shorter_than_the_minimum_is_not_used():
    assert ids(create(min_match=3), [1, 2, 5, 1, 2]) == []
    assert ids(create(min_match=2), [1, 2, 5, 1, 2]) == [5, 1, 2]


def test_draft_says_what_it_is_based_on():
    draft = create().draft([1, 2, 3, 4, 1, 2, 3], 2)
    assert (draft.match_length, draft.source) == (3, "history[3:5]")
    assert draft.confidences[0] < draft.confidences[1] < 1


def test_confidence_falls_where_earlier_occurrences_disagree():
    unanimous = create().draft([1, 2, 3, 8, 1, 2, 3, 9, 1, 2], 1)
    divided = create().draft([1, 2, 4, 8, 1, 2, 3, 9, 1, 2], 1)
    assert list(divided.token_ids) == list(unanimous.token_ids) == [3]
    assert unanimous.confidences[0] > divided.confidences[0]


def test_longer_match_in_a_text_wins_and_ties_go_to_the_session():
    drafter = create(texts=["say: a b c d", "other"])
    assert ids(drafter, letters("a b"), 2) == [ord(" "), ord("c")]
    assert drafter.draft(letters("a b"), 2).source == "texts[0][8:10]"
    assert drafter.draft(letters("a bX a b"), 2).source == "texts[0][8:10]"
    assert drafter.draft(letters("xa bXxa b"), 2).source == "history[4:6]"
    assert drafter.draft(letters("a bXa b"), 2).source == "history[3:5]"


def test_draft_stops_at_the_end_of_a_text():
    drafter = create(texts=["abc", "xyz"])
    assert ids(drafter, [97, 98], 8) == [99]
    assert ids(drafter, [97, 98, 99], 8) == []


def test_session_is_used_where_the_text_with_the_longer_match_has_ended():
    drafter = create(texts=["abc"])
    assert ids(drafter, [98, 99, 1, 97, 98, 99], 1) == [1]


def test_texts_come_from_files_and_token_lists(tmp_path):
    (tmp_path / "plain.txt").write_text("one\ntwo")
    (tmp_path / "lines.jsonl").write_text('"three"\n[5, 6, 7]\n\n{"text": "four"}\n{"token_ids": [8, 9, 10]}\n')
    drafter = create(texts=[(2, 3, 4)], files=[tmp_path / "plain.txt", tmp_path / "lines.jsonl"])
    assert ids(drafter, [2, 3]) == [4]
    assert ids(drafter, [ord("e"), ord("\n")]) == [ord("t"), ord("w"), ord("o")]
    assert ids(drafter, [5, 6]) == [7]
    assert ids(drafter, [ord("o"), ord("u")]) == [ord("r")]
    assert ids(drafter, [8, 9]) == [10]
    assert drafter.draft([8, 9], 1).source == f"{tmp_path / 'lines.jsonl'}, line 5[2:3]"


def test_clones_share_the_texts():
    drafter = create(texts=["abcdef" * 1000])
    clone = drafter.clone()
    assert clone._corpus is drafter._corpus
    assert ids(clone, [97, 98]) == [99, 100, 101]
    assert clone.memory_bytes() < 3000


def test_text_without_a_tokenizer_is_refused():
    with pytest.raises(InvalidInputError, match=r"texts\[1\]: text needs a tokenizer"):
        create(DrafterContext(), texts=[(1, 2), "abc"])


@pytest.mark.parametrize(
    "options",
    [{"min_match": 0}, {"occurrence": "best"}, {"tokens_per_match": 0}, {"tokens_per_match": "inf"}, {"text": "a"}],
    ids=str,
)
def test_unusable_options_are_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        SuffixAutomatonOptions(**options)


@pytest.mark.parametrize("text", [constant_run, broken_run, periodic], ids=lambda text: text.__name__)
@pytest.mark.parametrize("occurrence", OCCURRENCES[:2])
@pytest.mark.alone
def test_cost_of_a_token_does_not_grow_on_runs(occurrence, text):
    assert growth(lambda: SuffixAutomatonDrafter(1, occurrence), text) < 4


def test_hundred_thousand_equal_tokens_are_fed_at_once():
    drafter = create()
    assert ids(drafter, [7] * 100_000) == [7] * 8
    assert drafter.draft([7] * 100_001, 1).match_length == 100_000
