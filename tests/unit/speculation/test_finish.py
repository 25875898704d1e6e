"""Where a text ends: the earliest reason wins, and what may begin a stop string is held back."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core.speculation.finish import FinishRules, StopText
from support.spelling import SpellingDecoder


def spoken(*pieces: str | bytes, stops: tuple[str, ...] = (), may_stop_from: int = 0) -> tuple[list[str], str]:
    """Returns the text each token makes certain, and the rest; a stop string ends it early."""
    encoded = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    text = StopText(SpellingDecoder(encoded), stops)
    taken = []
    for token_id in range(len(pieces)):
        has_stopped = text.push(token_id, may_stop=token_id >= may_stop_from)
        taken.append(text.take())
        assert text.is_undecided == (not has_stopped and "".join(taken) != text_of(encoded[: token_id + 1]))
        if has_stopped:
            break
    return taken, text.finish()


def text_of(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")


def test_text_without_stop_strings_comes_with_its_token() -> None:
    assert spoken("a", "bc", "") == (["a", "bc", ""], "")


def test_text_is_cut_before_the_stop_string() -> None:
    assert spoken("a", "bEND c", "d", stops=("END",)) == (["a", "b"], "")


def test_stop_string_over_several_tokens_is_found() -> None:
    assert spoken("a", "bE", "N", "Dc", "d", stops=("END",)) == (["a", "b", "", ""], "")


def test_what_only_looked_like_a_stop_string_is_given_later() -> None:
    assert spoken("E", "N", "X", stops=("END",)) == (["", "", "ENX"], "")


def test_what_is_held_back_at_the_end_is_the_rest() -> None:
    assert spoken("a", "EN", stops=("END",)) == (["a", ""], "EN")


def test_held_back_text_may_begin_the_stop_string_anew() -> None:
    assert spoken("aa", "a", "b", "c", stops=("aab",)) == (["", "a", ""], "")


def test_earliest_of_several_stop_strings_cuts() -> None:
    assert spoken("xyabcd", stops=("cd", "ab", "b")) == (["xy"], "")
    assert spoken("x", "a", "b", stops=("b", "ab")) == (["x", "", ""], "")


def test_character_split_over_tokens_is_held_back() -> None:
    euro = "€".encode()
    assert spoken("a", euro[:1], euro[1:2], euro[2:] + b"b") == (["a", "", "", "€b"], "")


def test_character_that_is_never_completed_is_replaced_at_the_end() -> None:
    assert spoken("a", "€".encode()[:2]) == (["a", ""], "�")


def test_stop_string_of_split_characters_is_found() -> None:
    euro = "€".encode()
    assert spoken("a", euro[:2], euro[2:], "b", stops=("€",)) == (["a", "", ""], "")


def test_stop_string_does_not_count_before_it_may() -> None:
    assert spoken("a", "END", "b", "END", "c", stops=("END",), may_stop_from=2) == (["a", "END", "b", ""], "")


pieces = st.lists(st.text("abE€", max_size=3), max_size=12)


@given(pieces=pieces, stops=st.lists(st.text("abE€", min_size=1, max_size=4), max_size=3))
def test_joined_text_is_the_whole_text_cut_before_the_first_stop_string(pieces: list[str], stops: list[str]) -> None:
    whole, place = "", -1
    for piece in pieces:  # the token that completes a match ends the text
        whole += piece
        places = [found for stop in stops if (found := whole.find(stop)) >= 0]
        if places:
            place = min(places)
            break
    taken, rest = spoken(*pieces, stops=tuple(stops))
    assert "".join(taken) + rest == (whole if place < 0 else whole[:place])


@given(text=st.text(max_size=20), cuts=st.lists(st.integers(0, 80), max_size=10))
def test_joined_text_does_not_depend_on_where_tokens_cut_the_bytes(text: str, cuts: list[int]) -> None:
    encoded = text.encode()
    borders = sorted({0, len(encoded), *(cut for cut in cuts if cut <= len(encoded))})
    parts = [encoded[start:end] for start, end in itertools.pairwise(borders)]
    taken, rest = spoken(*parts)
    assert "".join(taken) + rest == text


def rules_of(
    *pieces: str,
    stops: tuple[str, ...] = (),
    max_tokens: int = 100,
    min_tokens: int = 0,
    stop_ids: tuple[int, ...] = (),
) -> FinishRules:
    text = StopText(SpellingDecoder([piece.encode() for piece in pieces]), stops)
    return FinishRules(stop_ids, max_tokens, min_tokens, text)


def test_budget_counts_every_token() -> None:
    rules = FinishRules((), 2)
    assert rules.num_left == 2
    assert rules.after(5) is None
    assert rules.num_left == 1
    assert rules.after(5) == "max_tokens"
    assert rules.num_left == 0


def test_stop_string_wins_over_the_budget_with_the_same_token() -> None:
    rules = rules_of("a", "END", stops=("END",), max_tokens=2)
    assert [rules.after(0), rules.after(1)] == [None, "stop"]


def test_budget_wins_over_a_stop_string_completed_later() -> None:
    rules = rules_of("EN", "D", stops=("END",), max_tokens=1)
    assert rules.after(0) == "max_tokens"


@pytest.mark.parametrize(("min_tokens", "reasons"), [(0, ["stop"]), (1, ["stop"]), (2, [None, "stop"])])
def test_stop_string_counts_from_min_tokens_on(min_tokens: int, reasons: list[str | None]) -> None:
    rules = rules_of("END", stops=("END",), min_tokens=min_tokens)
    assert [rules.after(0) for _ in reasons] == reasons


def test_no_stop_token_at_all_is_fine() -> None:
    assert FinishRules((), 1).stop_ids == frozenset()
    assert FinishRules([3, 5], 1).stop_ids == {3, 5}
