"""The invariants of the `Drafter` contract as checks, for a plugin author's own tests.

Each check takes a function that makes a fresh drafter and raises `DrafterCheckError` when the invariant does not hold:

    @pytest.mark.parametrize("check", DRAFTER_CHECKS)
    def test_contract(check):
        check(MyDrafter)

The checks know nothing of what a good draft is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cera_core.drafter import Draft, Drafter
from cera_core.speculation.history import History

DrafterFactory = Callable[[], Drafter]

VOCAB_SIZE = 262_144
MAX_KS = (1, 3, 16)


class DrafterCheckError(AssertionError):
    """A drafter does not keep its contract."""


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


def check_returns_at_most_max_k_ids(factory: DrafterFactory) -> None:
    """A draft has at most `max_k` ids, none for 0, and is a `Draft` or a sequence of ints."""
    for name, tokens in sample_histories().items():
        for max_k in (0, *MAX_KS):
            draft = _draft(factory(), tokens, max_k)
            _require(
                len(draft.token_ids) <= max_k,
                f"draft(tokens, max_k={max_k}) returns at most {max_k} ids",
                f"{len(draft.token_ids)} after {name}",
            )


def check_ids_are_in_the_vocabulary(factory: DrafterFactory) -> None:
    """Every id is a token id."""
    for name, tokens in sample_histories().items():
        for token_id in _draft(factory(), tokens, 16).token_ids:
            _require(
                isinstance(token_id, int) and 0 <= token_id < VOCAB_SIZE,
                f"a draft holds ints in 0..{VOCAB_SIZE - 1}",
                f"{token_id!r} after {name}",
            )


def check_confidences_are_chances(factory: DrafterFactory) -> None:
    """A draft with confidences has one for each id, in 0..1; its match is no longer than the history."""
    for name, tokens in sample_histories().items():
        draft = _draft(factory(), tokens, 16)
        if draft.confidences is not None:
            _require(
                len(draft.confidences) == len(draft.token_ids)
                and all(0 <= chance <= 1 for chance in draft.confidences),
                f"{len(draft.token_ids)} confidences in 0..1",
                f"{list(draft.confidences)} after {name}",
            )
        if draft.match_length is not None:
            _require(
                0 <= draft.match_length <= len(tokens),
                f"a match_length in 0..{len(tokens)}",
                f"{draft.match_length} after {name}",
            )


def check_draft_twice_is_the_same(factory: DrafterFactory) -> None:
    """Drafting changes nothing: the same history gives the same answer again."""
    for name, tokens in sample_histories().items():
        drafter = factory()
        first = _draft(drafter, tokens, 8)
        _require_equal(_draft(drafter, tokens, 8), first, f"the second answer after {name}")


def check_step_by_step_equals_at_once(factory: DrafterFactory) -> None:
    """A history fed token by token is answered, at every length, like one fed at once."""
    for name, tokens in sample_histories().items():
        history = History()
        stepwise, viewing = factory(), factory()
        for length in range(len(tokens) + 1):
            if length:
                history.append(tokens[length - 1])
            expected = _draft(factory(), tokens[:length], 8)
            what = f"the answer after the first {length} tokens of {name}"
            _require_equal(_draft(stepwise, tokens[:length], 8), expected, what)
            _require_equal(_draft(viewing, history.view(), 8), expected, f"{what}, fed as views of one history")


def check_shrunken_history_is_like_fresh(factory: DrafterFactory) -> None:
    """A history that was cut, by any length, and grows on is answered like a fresh one."""
    for name, tokens in sample_histories().items():
        for length in _lengths_to_cut_to(tokens):
            for growth in ([], [11, 12], tokens[:9]):
                regrown = tokens[:length] + growth
                expected = _draft(factory(), regrown, 8)
                what = f"the answer after {name} was cut to {length} tokens and grew to {len(regrown)}"
                drafter = factory()
                for shown in (tokens, tokens[:length], regrown):
                    found = _draft(drafter, shown, 8)
                _require_equal(found, expected, what)
                _require_equal(_answer_after_rewind(factory(), tokens, length, growth), expected, f"{what}, as views")


def _answer_after_rewind(drafter: Drafter, tokens: list[int], length: int, growth: list[int]) -> Draft:
    """Drafts for one session history that is cut to `length` and grows before the drafter sees it again."""
    history = History(tokens)
    _draft(drafter, history.view(), 8)
    history.truncate(length)
    for token_id in growth:
        history.append(token_id)
    return _draft(drafter, history.view(), 8)


def check_replaced_history_is_like_fresh(factory: DrafterFactory) -> None:
    """A history replaced by another, of equal length too, is answered like a fresh one."""
    for name, tokens in sample_histories().items():
        for replacement in _replacements(tokens):
            drafter = factory()
            _draft(drafter, tokens, 8)
            expected = _draft(factory(), replacement, 8)
            _require_equal(_draft(drafter, replacement, 8), expected, f"the answer after {name} was replaced")


def check_reset_forgets(factory: DrafterFactory) -> None:
    """After `reset` a drafter answers like a fresh one."""
    for name, tokens in sample_histories().items():
        for other in _replacements(tokens):
            drafter = factory()
            _draft(drafter, tokens, 8)
            drafter.reset()
            expected = _draft(factory(), other, 8)
            _require_equal(_draft(drafter, other, 8), expected, f"the answer after {name} and a reset")


def check_clones_share_no_session(factory: DrafterFactory) -> None:
    """A clone answers like a fresh drafter, whatever its original saw or sees, and the other way round."""
    for name, tokens in sample_histories().items():
        for other in _replacements(tokens):
            original = factory()
            expected = _draft(original, tokens, 8)
            clone = original.clone()
            what = f"after {name} in the original"
            _require_equal(_draft(clone, other, 8), _draft(factory(), other, 8), f"a clone's answer {what}")
            _require_equal(_draft(original, tokens, 8), expected, f"the original's own answer {what}")


def check_history_is_not_changed(factory: DrafterFactory) -> None:
    """A drafter leaves the tokens it is shown as they are."""
    for name, tokens in sample_histories().items():
        shown = list(tokens)
        _draft(factory(), shown, 8)
        _require(shown == tokens, "the history to stay as it was", f"{shown} after {name}")


def check_feedback_is_taken(factory: DrafterFactory) -> None:
    """`accept` may be called after any draft with any count up to its length, and `memory_bytes` at any time."""
    for name, tokens in sample_histories().items():
        drafter = factory()
        draft = _draft(drafter, tokens, 8)
        for num_accepted in range(len(draft.token_ids) + 1):
            drafter.accept(draft, num_accepted)
        memory = drafter.memory_bytes()
        _require(isinstance(memory, int) and memory >= 0, "memory_bytes() in 0..", f"{memory!r} after {name}")


DRAFTER_CHECKS: tuple[Callable[[DrafterFactory], None], ...] = (
    check_returns_at_most_max_k_ids,
    check_ids_are_in_the_vocabulary,
    check_confidences_are_chances,
    check_draft_twice_is_the_same,
    check_step_by_step_equals_at_once,
    check_shrunken_history_is_like_fresh,
    check_replaced_history_is_like_fresh,
    check_reset_forgets,
    check_clones_share_no_session,
    check_history_is_not_changed,
    check_feedback_is_taken,
)


def _replacements(tokens: Sequence[int]) -> Iterator[list[int]]:
    """Yields histories to put in the place of `tokens`: of equal length, changed at some places or all, and others."""
    for places in ({0}, {2}, {len(tokens) - 1}, set(range(len(tokens)))):
        yield [token_id ^ (place in places) for place, token_id in enumerate(tokens)]
    yield from sample_histories().values()


def _lengths_to_cut_to(tokens: Sequence[int]) -> Iterator[int]:
    """Yields lengths near both ends and in the middle."""
    size = len(tokens)
    yield from sorted({length for length in (0, 1, 2, size // 2, size - 3, size - 2, size - 1) if 0 <= length < size})


def _draft(drafter: Drafter, tokens: Sequence[int], max_k: int) -> Draft:
    """Asks for a draft and gives it one form."""
    answer = drafter.draft(tokens, max_k)
    draft = answer if isinstance(answer, Draft) else Draft(answer)
    confidences = None if draft.confidences is None else list(draft.confidences)
    return replace(draft, token_ids=list(draft.token_ids), confidences=confidences)


def _require_equal(found: Draft, required: Draft, what: str) -> None:
    _require(found == required, f"{what} to be {required}", f"{found}")


def _require(holds: bool, required: str, found: str) -> None:
    if not holds:
        raise DrafterCheckError(f"Required: {required}. Found: {found}.")
