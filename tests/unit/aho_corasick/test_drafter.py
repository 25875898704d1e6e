"""The aho-corasick drafter: which phrase, where from, how sure; options and errors; the drafter contract."""

import json
from random import Random

import pytest
from pydantic import ValidationError

from cera_aho_corasick import AhoCorasickOptions, cera_register_drafters
from cera_aho_corasick.drafter import AhoCorasickDrafter
from cera_aho_corasick.index import PhraseIndex
from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext
from cera_core.testing import DrafterSuite
from cera_core.testing.drafter_checks import sample_histories
from support.letter_tokenizer import CONTEXT, drafted_text
from support.scaling import growth, periodic


def create(context=CONTEXT, **options):
    specs = []
    cera_register_drafters(specs.append)
    (spec,) = specs
    assert spec.name == "aho-corasick"
    return spec.create(spec.options(**options), context)


def of_ids(*phrases, min_match=2, max_match=32):
    return AhoCorasickDrafter(PhraseIndex(phrases, min_match, max_match))


def ids(drafter, tokens, max_k=8):
    return list(drafter.draft(tokens, max_k).token_ids)


class TestContract(DrafterSuite):
    @pytest.fixture(params=[(1, 4), (2, 32), (3, 3)], ids=str)
    def make_drafter(self, request):
        histories = list(sample_histories().values())
        index = PhraseIndex([*(tokens[:21] for tokens in histories), [7] * 60, [1, 2, 3] * 20], *request.param)
        return lambda: AhoCorasickDrafter(index)


class TestContractWithoutPhrases(DrafterSuite):
    @pytest.fixture
    def make_drafter(self):
        return create


def test_rest_of_the_phrase_is_drafted_from_the_second_token_on():
    drafter = of_ids([5, 6, 7, 8, 9])
    assert [ids(drafter, [1, 5, 6, 7, 8, 9, 2][:length]) for length in range(8)] == [
        [],
        [],
        [],
        [7, 8, 9],
        [8, 9],
        [9],
        [],
        [],
    ]


def test_phrase_that_breaks_off_is_left():
    assert ids(of_ids([5, 6, 7, 8]), [5, 6, 1]) == []
    assert ids(of_ids([5, 6, 7, 8], [6, 1, 4]), [5, 6, 1]) == [4]


def test_longest_beginning_wins_over_the_order_of_phrases():
    assert ids(of_ids([6, 7, 1], [5, 6, 7, 2]), [5, 6, 7]) == [2]
    assert ids(of_ids([6, 7, 1], [5, 6, 7, 2]), [6, 7]) == [1]


def test_first_of_phrases_with_the_same_beginning_is_drafted_and_shares_its_chance():
    drafter = of_ids([5, 6, 7, 8], [5, 6, 9, 9], [5, 6, 7, 4], [5, 6, 7, 8])
    draft = drafter.draft([5, 6], 8)
    alone = of_ids([5, 6, 7, 8]).draft([5, 6], 8)
    assert list(draft.token_ids) == list(alone.token_ids) == [7, 8]
    first, second = (found / sure for found, sure in zip(draft.confidences, alone.confidences, strict=True))
    assert first == pytest.approx(2 / 3)  # of three different phrases two go on with 7
    assert second == pytest.approx(1 / 2)


def test_draft_says_what_it_is_based_on():
    draft = of_ids([1, 2, 3], [5, 6, 7, 8, 9]).draft([5, 6, 7], 8)
    assert (draft.match_length, draft.source) == (3, "phrases[7:9]")


def test_phrase_no_longer_than_the_minimum_is_of_no_use():
    assert ids(of_ids([5, 6], min_match=2), [5, 6]) == []
    assert ids(of_ids([5, 6], min_match=1), [5]) == [6]


@pytest.mark.parametrize("max_match", [2, 3, 5, 8, 255])
def test_long_phrase_is_followed_to_its_end(max_match):
    phrase = list(range(100, 400))
    drafter = of_ids(phrase, max_match=max_match)
    for length in range(2, len(phrase)):
        draft = drafter.draft(phrase[:length], 3)
        assert list(draft.token_ids) == phrase[length : length + 3]
        assert draft.match_length <= max_match


def test_long_phrase_is_found_again_after_a_difference():
    phrase = list(range(100, 400))
    text = [*phrase[:50], 1, *phrase[51:120]]
    assert ids(of_ids(phrase), text, 2) == [220, 221]


def test_largest_ids():
    assert ids(of_ids([262_143, 0, 262_142, 511, 512]), [1, 262_143, 0]) == [262_142, 511, 512]


def test_halves_of_neighbouring_tokens_are_no_match():
    one, other = 3 << 9 | 5, 4 << 9 | 6
    crossed = 5 << 9 | 4
    assert ids(of_ids([one, other, 1]), [crossed, other]) == []
    assert ids(of_ids([crossed, 7, 8], min_match=1), [one, other]) == []


def test_text_is_known_with_and_without_a_leading_space():
    for phrase in ("import numpy", " import numpy"):
        drafter = create(phrases=[phrase], min_match=1)
        assert drafted_text(drafter, "i") == drafted_text(drafter, "x i") == "mport nu"
        assert drafted_text(drafter, " ") == "import n"


def test_phrases_come_from_files_and_token_lists(tmp_path):
    (tmp_path / "lines.txt").write_text("first one\n\nsecond one\n")
    lines = ["third\none", [5, 6, 7], {"text": "fourth"}, {"token_ids": [8, 9, 10]}]
    (tmp_path / "lines.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    drafter = create(phrases=[(2, 3, 4)], files=[tmp_path / "lines.txt", tmp_path / "lines.jsonl"])
    assert drafted_text(drafter, "se") == "cond one"
    assert drafted_text(drafter, "third") == "\none"
    assert drafted_text(drafter, "fo") == "urth"
    assert [ids(drafter, [2, 3]), ids(drafter, [5, 6]), ids(drafter, [8, 9])] == [[4], [7], [10]]


def test_errors_in_files_name_the_line(tmp_path):
    (tmp_path / "broken.jsonl").write_text('"good"\n{"name": "x"}\n')
    with pytest.raises(InvalidInputError, match=r"broken\.jsonl, line 2: must be"):
        create(files=[tmp_path / "broken.jsonl"])
    with pytest.raises(InvalidInputError, match=r"missing\.txt' cannot be read"):
        create(files=[tmp_path / "missing.txt"])
    (tmp_path / "ids.jsonl").write_text("[1, 2]\n[3, 1000]\n")
    with pytest.raises(InvalidInputError, match=r"ids\.jsonl, line 2: token ids must be in 0\.\.999, found 1000"):
        create(files=[tmp_path / "ids.jsonl"])


def test_text_without_a_tokenizer_is_refused():
    with pytest.raises(InvalidInputError, match=r"phrases\[0\]: text needs a tokenizer"):
        create(DrafterContext(), phrases=["abc"])


@pytest.mark.parametrize(
    "options",
    [
        {"min_match": 0},
        {"max_match": 256},
        {"min_match": 5, "max_match": 4},
        {"phrases": "abc"},
        {"phrases": [3]},
        {"phrase": ["a"]},
    ],
    ids=str,
)
def test_unusable_options_are_refused(options):
    with pytest.raises(ValidationError, match=next(iter(options))):
        AhoCorasickOptions(**options)


def test_one_file_can_stand_for_a_list():
    assert AhoCorasickOptions.model_validate({"files": "a.txt"}) == AhoCorasickOptions(files=["a.txt"])


def test_clones_share_the_phrases():
    drafter = of_ids([5, 6, 7])
    clone = drafter.clone()
    assert clone._index is drafter._index
    assert ids(clone, [5, 6]) == [7]


@pytest.mark.alone
def test_cost_of_a_token_does_not_grow_with_the_history():
    index = PhraseIndex([[1, 2, 3, 4, 2] * 20], 2, 32)
    assert growth(lambda: AhoCorasickDrafter(index), periodic) < 4


@pytest.mark.bench
@pytest.mark.timeout(300)
def test_hundred_thousand_phrases_build_in_half_a_minute():
    import time

    rng = Random(6)
    phrases = [[rng.randrange(150_000) for _ in range(20)] for _ in range(100_000)]
    began = time.process_time()
    PhraseIndex(phrases, 2, 32)
    assert time.process_time() - began < 30


def test_phrases_a_drafter_saves_make_the_same_drafter(tmp_path):
    drafter = create(phrases=["import numpy", (2, 3, 4)])
    drafter.save(tmp_path / "api.phrases")
    loaded = create(compiled=tmp_path / "api.phrases")
    assert loaded._index.phrases == drafter._index.phrases
    assert drafted_text(loaded, "im") == "port num"
    assert drafted_text(create(compiled=tmp_path / "api.phrases", phrases=["say"]), "sa") == "y"
