"""Places in the order of the tokens that end there."""

import random

import numpy as np
import pytest

from cera_core.drafting.corpora.ordering import MAX_MATCH, NUM_ROUNDS, bounds_by_token, order_by_ends


def ordered(tokens):
    return order_by_ends(np.array(tokens, dtype=np.int32)).tolist()


def naively_ordered(tokens):
    places = [place for place, token in enumerate(tokens) if token >= 0]
    return sorted(places, key=lambda place: (tokens[max(place + 1 - MAX_MATCH, 0) : place + 1][::-1], place))


@pytest.mark.parametrize("largest", [1, 3, 262_143])
@pytest.mark.parametrize("length", [1, 2, 40, 300])
def test_places_are_sorted_by_what_ends_there_read_backwards(length, largest):
    rng = random.Random(length + largest)
    tokens = [-1, *(rng.randint(-(rng.random() < 0.05), largest) for _ in range(length)), 0, -1]
    assert ordered(tokens) == naively_ordered(tokens)


def test_places_that_agree_in_all_that_counts_are_in_order():
    tokens = [-1, *[7] * (3 * MAX_MATCH), -1]
    assert ordered(tokens) == naively_ordered(tokens)
    assert ordered(tokens)[-1] == 3 * MAX_MATCH


def test_rounds_are_told():
    told = []
    order_by_ends(np.array([-1, 5, -1], dtype=np.int32), told.append)
    assert told == list(range(1, NUM_ROUNDS + 1))


def test_bounds_say_where_the_places_of_a_token_begin():
    tokens = np.array([-1, 2, 0, 2, -1, 2, 3, -1], dtype=np.int32)
    assert bounds_by_token(tokens, 5).tolist() == [0, 1, 1, 4, 5, 5]
