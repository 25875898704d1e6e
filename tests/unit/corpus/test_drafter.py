"""The corpus drafter: what it drafts, how sure it is, what a damaged file does; options; the drafter contract."""

import os

import pytest

import cera_core
from cera_core.drafting.confidence import copy_confidence
from cera_core.drafting.corpora.file import open_corpus
from cera_core.errors import InvalidInputError
from cera_core.specs import DrafterContext
from cera_core.testing.drafter_checks import DRAFTER_CHECKS, VOCAB_SIZE, sample_histories
from cera_corpus import CorpusOptions, cera_register_drafters
from cera_corpus.drafter import MAX_PLACES, CorpusDrafter
from support.corpora import write_corpus
from support.rounds import RoundLog
from support.sessions import plain, session_of
from support.small_models import options_of


def create(*files, context=DrafterContext(), **options):  # noqa: B008 - never changed
    specs = []
    cera_register_drafters(specs.append)
    (spec,) = specs
    assert spec.name == "corpus"
    return spec.create(CorpusOptions(files=files, **options), context)


def test_one_file_can_stand_for_a_list():
    assert CorpusOptions.model_validate({"files": "a.corpus"}) == CorpusOptions(files=["a.corpus"])


@pytest.fixture
def drafter_of(tmp_path):
    """Makes a drafter with a corpus of documents."""

    def make(*documents, **options):
        named = {f"d{number}": token_ids for number, token_ids in enumerate(documents)}
        return create(write_corpus(tmp_path / "a.corpus", named), **options)

    return make


def ids(drafter, tokens, max_k=8):
    return list(drafter.draft(tokens, max_k).token_ids)


@pytest.mark.parametrize("check", DRAFTER_CHECKS, ids=lambda check: check.__name__)
def test_contract(check, drafter_of):
    check(drafter_of(*filter(None, sample_histories().values()), min_match=1, tokens_per_match=3).clone)


def test_what_followed_the_longest_match_is_drafted(drafter_of):
    drafter = drafter_of([1, 2, 3, 4, 5, 6], [9, 2, 3, 7, 8, 8], [3, 1, 1])
    assert ids(drafter, [0, 1, 2, 3]) == [4, 5, 6]
    assert ids(drafter, [0, 9, 2, 3]) == [7, 8, 8]
    assert ids(drafter, [0, 0, 0, 3]) == []
    assert ids(drafter, [0, 1, 2, 3], max_k=2) == [4, 5]


def test_most_frequent_continuation_is_drafted_token_by_token(drafter_of):
    drafter = drafter_of([1, 2, 5, 6], [1, 2, 4, 7], [1, 2, 4, 8], [1, 2, 4, 8, 9], tokens_per_match=9)
    draft = drafter.draft([1, 2], 8)
    assert list(draft.token_ids) == [4, 8, 9]
    assert draft.confidences == [
        copy_confidence(2, 3 / 4, 4),
        copy_confidence(3, 2 / 3, 3),
        copy_confidence(4, 1 / 2, 2),
    ]


def test_documents_do_not_run_into_one_another(drafter_of):
    drafter = drafter_of([1, 2, 3], [4, 5, 6])
    assert ids(drafter, [1, 2]) == [3]
    assert ids(drafter, [1, 2, 3]) == []
    assert drafter.draft([2, 3, 4, 5], 8).match_length == 2


def test_longest_match_at_the_end_of_a_document_gives_way_to_a_shorter_one(drafter_of):
    draft = drafter_of([1, 2, 3], [7, 2, 3, 4, 5]).draft([1, 2, 3], 8)
    assert (list(draft.token_ids), draft.match_length, draft.source) == ([4, 5], 2, "d1[3:5]")


def test_draft_grows_with_the_match(drafter_of):
    drafter = drafter_of(range(100), tokens_per_match=1.5)
    assert [len(ids(drafter, range(50 - length, 50), 16)) for length in (1, 2, 4, 20)] == [0, 3, 6, 16]
    assert len(ids(drafter_of(range(100), tokens_per_match=1e308), [4, 5], 16)) == 16


def test_match_is_counted_up_to_its_limit(drafter_of):
    drafter = drafter_of(range(100))
    assert [drafter.draft(list(range(50 - length, 50)), 1).match_length for length in (31, 32, 33)] == [31, 32, 32]


def test_what_occurs_often_is_looked_at_in_part(drafter_of):
    documents = [[1, 2, 3 if number % 4 else 4] for number in range(10 * MAX_PLACES)]
    draft = drafter_of(*documents).draft([1, 2], 1)
    assert (list(draft.token_ids), draft.match_length) == ([3], 2)
    assert 0.5 < draft.confidences[0] < 0.9


def test_largest_ids_are_found(drafter_of):
    largest = VOCAB_SIZE - 1
    drafter = drafter_of([largest - 1, largest, largest - 2])
    assert ids(drafter, [largest - 1, largest]) == [largest - 2]
    assert ids(drafter, [largest, largest + 1]) == []


def test_longest_match_of_several_corpora_wins_and_the_first_on_a_tie(tmp_path):
    one = write_corpus(tmp_path / "one.corpus", {"one": [1, 2, 3, 4]})
    two = write_corpus(tmp_path / "two.corpus", {"two": [0, 1, 2, 9, 9]})
    assert create(one, two).draft([7, 1, 2], 1).source == "one[2:3]"
    assert create(two, one).draft([7, 1, 2], 1).source == "two[3:4]"
    assert create(one, two).draft([0, 1, 2], 1).source == "two[3:4]"


def test_without_files_there_is_no_draft():
    assert ids(create(), [1, 2, 1, 2]) == []


def test_clone_shares_the_corpus_and_nothing_is_held_for_a_session(drafter_of):
    drafter = drafter_of([1, 2, 3])
    clone = drafter.clone()
    assert ids(clone, [1, 2]) == [3]
    assert clone.corpora is drafter.corpora
    assert drafter.memory_bytes() == 0


def test_corpus_of_another_tokenizer_is_refused(tmp_path):
    path = write_corpus(tmp_path / "a.corpus", {"a": [1, 2]}, "one")
    assert ids(create(path, context=DrafterContext(tokenizer_fingerprint="one")), [9, 1], 1) == []
    with pytest.raises(InvalidInputError, match="built with the tokenizer other, found one built with one"):
        create(path, context=DrafterContext(tokenizer_fingerprint="other"))


def test_file_that_is_written_over_ends_the_drafting(drafter_of):
    drafter = drafter_of([1, 2, 3])
    os.truncate(drafter.corpora[0].path, 10)
    with pytest.raises(InvalidInputError, match=r"was written over while in use. Load the model again"):
        drafter.draft([1, 2], 8)


def test_places_outside_the_corpus_are_an_error(drafter_of, tmp_path):
    path = drafter_of([1, 2, 3], [1, 2, 4]).corpora[0].path
    corpus = open_corpus(path)
    content = path.read_bytes()
    order = content.index(corpus.order.tobytes())
    path.write_bytes(content[:order] + b"\xff\xff\xff\x7f" * 6 + content[order + 24 :])
    with pytest.raises(InvalidInputError, match=r"is damaged\. 'cera corpus info' checks it"):
        CorpusDrafter([open_corpus(path)]).draft([1, 2], 8)


@pytest.mark.parametrize("max_draft_tokens", [1, 8, 15])
def test_text_is_the_same_with_drafts_some_accepted_and_some_not(max_draft_tokens):
    expected = plain(max_tokens=60).token_ids
    log = RoundLog()
    drafter = cera_core.create_drafter("corpus", **options_of("corpus", expected))
    session = session_of(observers=log.observers)
    answer = session.generate(drafter=drafter, max_tokens=60, adaptive=False, max_draft_tokens=max_draft_tokens)
    assert answer.token_ids == expected
    accepted = sum(each.num_accepted for each in log.rounds)
    assert 0 < accepted < sum(each.num_drafted for each in log.rounds)
