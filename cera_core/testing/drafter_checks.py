"""The invariants of the `Drafter` contract, one check each.

Each check takes a function that makes a fresh drafter, and raises `CheckError` where the invariant does not hold.
`DrafterSuite` runs them as tests, `cera check drafter` without a test framework. They know nothing of what a good draft
is.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cera_core.drafter import Draft, Drafter
from cera_core.foreign_errors import error_line
from cera_core.speculation.history import History
from cera_core.testing.checking import CheckError, checks_in, contract_check, require

DrafterFactory = Callable[[], Drafter]

VOCAB_SIZE = 262_144
MAX_KS = (1, 3, 16)
SHORT = ("no tokens", "one token")


def sample_histories() -> dict[str, list[int]]:
    """Returns histories that are awkward for drafters: short, repeating, copying, with the largest ids."""
    rng = random.Random(20_240_501)
    passage = [rng.randrange(VOCAB_SIZE) for _ in range(24)]
    return {
        "no tokens": [],
        "one token": [5],
        "two equal tokens": [5, 5],
        "a constant run": [7] * 40,
        "a period of 3": [1, 2, 3] * 14,
        "a run broken once": [7] * 20 + [8] + [7] * 12,
        "two letters at random": [rng.randrange(2) for _ in range(120)],
        "four letters at random": [rng.randrange(4) for _ in range(120)],
        "a passage copied with one change": [*passage, *passage[:10], 3, *passage[11:20]],
        "the largest and smallest ids": [VOCAB_SIZE - 1, 0, VOCAB_SIZE - 2, VOCAB_SIZE - 1, 0],
    }


@contract_check
def check_draft_is_a_draft_or_ids(factory: DrafterFactory) -> None:
    """`draft` returns a `Draft` or a sequence of ids; no guess is an empty one, not None."""
    for name, tokens in _histories():
        answer = factory().draft(_view(tokens), 8)
        ids = answer.token_ids if isinstance(answer, Draft) else answer
        is_sequence = hasattr(ids, "__len__") and hasattr(ids, "__getitem__") and not isinstance(ids, str | bytes)
        require(is_sequence, "a Draft or a sequence of token ids", f"a {type(ids).__name__} after {name}")


@contract_check
def check_returns_at_most_max_k_ids(factory: DrafterFactory) -> None:
    """A draft has at most `max_k` ids, and none for 0. What is more would be cut, and is counted as a fault."""
    for name, tokens in _histories():
        for max_k in (0, *MAX_KS):
            num_ids = len(_draft(factory(), _view(tokens), max_k).token_ids)
            require(num_ids <= max_k, f"at most {max_k} ids of draft(tokens, max_k={max_k})", f"{num_ids} after {name}")


@contract_check
def check_ids_are_in_the_vocabulary(factory: DrafterFactory) -> None:
    """Every id is a whole number, and one that stands in the history or that the drafter knows to be in the vocabulary.

    The histories have ids up to 262,143, as the largest vocabularies do.
    """
    for name, tokens in _histories():
        for token_id in _draft(factory(), _view(tokens), 16).token_ids:
            is_id = hasattr(token_id, "__index__") and 0 <= operator.index(token_id) < VOCAB_SIZE
            require(is_id, f"whole numbers in 0..{VOCAB_SIZE - 1}", f"{token_id!r} after {name}")


@contract_check
def check_confidences_are_chances(factory: DrafterFactory) -> None:
    """A draft with confidences has one for each id, in 0..1. Without them it has None."""
    for name, tokens in _histories():
        draft = _draft(factory(), _view(tokens), 16)
        if draft.confidences is not None:
            sound = len(draft.confidences) == len(draft.token_ids) and all(0 <= p <= 1 for p in draft.confidences)
            wanted = f"{len(draft.token_ids)} confidences in 0..1, one an id"
            require(sound, wanted, f"{list(draft.confidences)} after {name}")


@contract_check
def check_match_is_within_the_history(factory: DrafterFactory) -> None:
    """A `match_length` counts tokens at the end of the history, so there are no more of them than that has."""
    for name, tokens in _histories():
        length = _draft(factory(), _view(tokens), 16).match_length
        require(
            length is None or 0 <= length <= len(tokens),
            f"a match_length of None or 0..{len(tokens)}",
            f"{length} after {name}",
        )


@contract_check
def check_short_histories_are_answered(factory: DrafterFactory) -> None:
    """Histories of no and of one token are valid, and are answered with at most `max_k` ids."""
    for name in SHORT:
        for max_k in (0, *MAX_KS):
            try:
                num_ids = len(_draft(factory(), _view(sample_histories()[name]), max_k).token_ids)
            except Exception as error:
                raise CheckError(f"a draft after {name}", error_line(error)) from error
            require(num_ids <= max_k, f"at most {max_k} ids after {name}", num_ids)


@contract_check
def check_draft_twice_is_the_same(factory: DrafterFactory) -> None:
    """Drafting changes nothing: the same history gives the same answer again, and in another instance."""
    for name, tokens in _histories():
        drafter = factory()
        first = _draft(drafter, _view(tokens), 8)
        _require_equal(_draft(drafter, _view(tokens), 8), first, f"the second answer after {name}")
        _require_equal(_draft(factory(), _view(tokens), 8), first, f"another instance's answer after {name}")


@contract_check
def check_views_are_read_like_lists(factory: DrafterFactory) -> None:
    """A read-only view, as the loop lends it, is answered like a list of the same ids."""
    for name, tokens in _histories():
        expected = _draft(factory(), list(tokens), 8)
        _require_equal(_draft(factory(), _view(tokens), 8), expected, f"the answer for a view of {name}")


@contract_check
def check_step_by_step_equals_at_once(factory: DrafterFactory) -> None:
    """A history fed token by token is answered, at every length, like one fed at once."""
    for name, tokens in _histories():
        history = History(tokens[:1])
        stepwise, viewing = factory(), factory()
        for length in range(2, len(tokens) + 1):
            history.append(tokens[length - 1])
            what = f"the answer after the first {length} tokens of {name}, token by token"
            _require_equal(
                _draft(stepwise, tokens[:length], 8), _draft(factory(), tokens[:length], 8), f"{what}, as lists"
            )
            _require_equal(_draft(viewing, history.view(), 8), _draft(factory(), history.view(), 8), what)


@contract_check
def check_shrunken_history_is_like_fresh(factory: DrafterFactory) -> None:
    """A history that was cut, by any length, and grows on is answered like a fresh one."""
    for name, tokens in _histories():
        for length in _lengths_to_cut_to(tokens):
            for growth in ([], [11, 12], tokens[:9]):
                regrown = tokens[:length] + growth
                if len(regrown) < 2 or regrown == tokens:
                    continue
                what = f"the answer after {name} was cut to {length} tokens and grew to {len(regrown)}"
                shown = [tokens, tokens[:length], regrown] if length > 1 and growth else [tokens, regrown]
                drafter = factory()
                found = [_draft(drafter, history, 8) for history in shown][-1]
                _require_equal(found, _draft(factory(), regrown, 8), f"{what}, as lists")
                found, expected = _answer_after_rewind(factory, tokens, length, growth)
                _require_equal(found, expected, what)


def _answer_after_rewind(
    factory: DrafterFactory, tokens: list[int], length: int, growth: list[int]
) -> tuple[Draft, Draft]:
    """Drafts for one history that is cut to `length` and grows before its drafter sees it again; and as fresh."""
    history, drafter = History(tokens), factory()
    _draft(drafter, history.view(), 8)
    history.truncate(length)
    history.extend(growth)
    return _draft(drafter, history.view(), 8), _draft(factory(), history.view(), 8)


@contract_check
def check_replaced_history_is_like_fresh(factory: DrafterFactory) -> None:
    """A history replaced by another, of equal length too, is answered like a fresh one."""
    for name, tokens in _histories():
        for replacement in _replacements(tokens):
            for form in (list, _view):
                drafter = factory()
                _draft(drafter, form(tokens), 8)
                found = _draft(drafter, form(replacement), 8)
                _require_equal(found, _draft(factory(), form(replacement), 8), f"the answer after {name} was replaced")


@contract_check
def check_reset_forgets(factory: DrafterFactory) -> None:
    """After `reset` a drafter answers like a fresh one."""
    for name, tokens in _histories():
        for other in (tokens, *_replacements(tokens)):
            drafter = factory()
            _draft(drafter, _view(tokens), 8)
            drafter.reset()
            found = _draft(drafter, _view(other), 8)
            _require_equal(found, _draft(factory(), _view(other), 8), f"the answer after {name} and a reset")


@contract_check
def check_clones_share_no_session(factory: DrafterFactory) -> None:
    """A clone answers like a fresh drafter, whatever its original saw or sees, and the other way round."""
    for name, tokens in _histories():
        for other in _replacements(tokens):
            original, longer = factory(), [*tokens, 11, 12]
            _draft(original, _view(tokens), 8)
            clone = original.clone()
            found = _draft(clone, _view(other), 8)
            _require_equal(found, _draft(factory(), _view(other), 8), f"a clone's answer after {name} in the original")
            found = _draft(original, _view(longer), 8)
            expected = _draft(factory(), _view(longer), 8)
            _require_equal(found, expected, f"the original's answer after {name}, once it was cloned")


@contract_check
def check_history_is_not_changed(factory: DrafterFactory) -> None:
    """A drafter leaves the tokens it is shown as they are."""
    for name, tokens in _histories():
        shown = list(tokens)
        _draft(factory(), shown, 8)
        require(shown == tokens, f"{name} to stay {tokens}", shown)


@contract_check
def check_feedback_is_taken(factory: DrafterFactory) -> None:
    """`accept` may be called after any draft with any count up to its length."""
    for name, tokens in _histories():
        drafter = factory()
        draft = _draft(drafter, _view(tokens), 8)
        for num_accepted in range(len(draft.token_ids) + 1):
            try:
                drafter.accept(draft, num_accepted)
            except Exception as error:
                raise CheckError(f"accept(draft, {num_accepted}) to return after {name}", error_line(error)) from error


@contract_check
def check_memory_is_a_number_of_bytes(factory: DrafterFactory) -> None:
    """`memory_bytes` is a whole number of at least 0, at any time."""
    for name, tokens in _histories():
        drafter = factory()
        for what in ("at first", f"after {name}"):
            memory = drafter.memory_bytes()
            require(isinstance(memory, int) and memory >= 0, "memory_bytes() of 0 or more", f"{memory!r} {what}")
            _draft(drafter, _view(tokens), 8)


@contract_check
def check_suggested_k_is_a_length(factory: DrafterFactory) -> None:
    """`suggested_k` is None or a whole number of at least 0."""
    length = factory().suggested_k
    require(length is None or (isinstance(length, int) and length >= 0), "a suggested_k of None or 0 or more", length)


DRAFTER_CHECKS: tuple[Callable[[DrafterFactory], None], ...] = checks_in(globals())
"""Every check of this module, in the order of the file."""


def _histories() -> Iterator[tuple[str, list[int]]]:
    """Yields the sample histories that a draft can stand on."""
    yield from ((name, tokens) for name, tokens in sample_histories().items() if name not in SHORT)


def _view(tokens: Sequence[int]) -> Sequence[int]:
    """Lends tokens as the loop does."""
    return History(tokens).view()


def _replacements(tokens: list[int]) -> Iterator[list[int]]:
    """Yields histories to put in the place of `tokens`, neither of which begins with the other."""
    changed = [
        [token_id ^ (place in places) for place, token_id in enumerate(tokens)]
        for places in ({0}, {2}, {len(tokens) - 1}, set(range(len(tokens))))
    ]
    for other in (*changed, *(other for _, other in _histories())):
        common = min(len(other), len(tokens))
        if other[:common] != tokens[:common]:
            yield other


def _lengths_to_cut_to(tokens: Sequence[int]) -> list[int]:
    """Returns lengths near both ends and in the middle."""
    size = len(tokens)
    return sorted({length for length in (0, 1, 2, size // 2, size - 3, size - 2, size - 1) if 0 <= length < size})


def _draft(drafter: Drafter, tokens: Sequence[int], max_k: int) -> Draft:
    """Asks for a draft and gives it one form."""
    answer = drafter.draft(tokens, max_k)
    draft = answer if isinstance(answer, Draft) else Draft(answer)
    confidences = None if draft.confidences is None else list(draft.confidences)
    return replace(draft, token_ids=list(draft.token_ids), confidences=confidences)


def _require_equal(found: Draft, required: Draft, what: str) -> None:
    require(found == required, f"{what} to be {required}", found)
