"""Choosing a token: what each processor does, in which order, and what rows of no use do."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from cera_core.errors import InvalidInputError, ModelError
from cera_core.generation_options import GenerationOptions
from cera_core.speculation.sampling import Sampler, _top_p, argmax, likeliest, log_softmax, sample, uniform

NAN, INF = math.nan, math.inf


def row_of(*logits: float) -> np.ndarray:
    return np.array(logits, np.float32)


def chosen(row: np.ndarray, prefix: Sequence[int] = (), num_prompt_tokens: int | None = None, **options: object) -> int:
    length = len(prefix) if num_prompt_tokens is None else num_prompt_tokens
    return sample(row, prefix, length, GenerationOptions(**options))


def possible(row: np.ndarray, **options: object) -> set[int]:
    """Returns the tokens that 300 draws give."""
    return {chosen(row, range(seed), seed=7, **options) for seed in range(300)}


@pytest.mark.parametrize(
    ("row", "winner"),
    [
        (row_of(1, 3, 2), 1),
        (row_of(2, 5, 5, 5), 1),
        (row_of(NAN, 1, 2), 2),
        (row_of(NAN, 2, 2, NAN), 1),
        (row_of(NAN, -INF), 1),
        (row_of(-INF, NAN, -INF), 0),
        (row_of(-INF, -INF), 0),
        (row_of(1, INF, INF), 1),
        (row_of(NAN, INF), 1),
        (row_of(0, -0.0), 0),
        (row_of(7), 0),
    ],
)
def test_argmax_takes_the_lowest_id_of_a_tie_and_never_nan(row: np.ndarray, winner: int) -> None:
    assert argmax(row) == winner
    assert chosen(row) == winner


def test_row_of_nothing_but_nan_is_an_error_that_names_the_position() -> None:
    for options in ({}, {"temperature": 1.0, "seed": 1}, {"logit_bias": {0: 1.0}}, {"repetition_penalty": 2.0}):
        with pytest.raises(ModelError, match=r"nothing but NaN. That was for position 3"):
            chosen(row_of(NAN, NAN), [0, 1, 0], **options)


def test_choosing_does_not_change_the_row() -> None:
    row = row_of(3, 2, 1)
    options = {"logit_bias": {0: -INF}, "repetition_penalty": 2.0, "temperature": 0.5, "seed": 1, "top_p": 0.9}
    before = row.copy()
    chosen(row, [1, 1], 1, **options)
    assert (row == before).all()


def test_bias_is_added_before_the_choice() -> None:
    assert chosen(row_of(3, 2, 1), logit_bias={2: 2.5}) == 2


def test_banned_token_is_never_chosen_even_with_an_infinite_logit() -> None:
    assert chosen(row_of(3, 2, 1), logit_bias={0: -INF}) == 1
    assert chosen(row_of(INF, 2, 1), logit_bias={0: -INF}) == 1
    assert chosen(row_of(INF, 2, 1), logit_bias={0: -INF}, temperature=1.0, seed=1) in (1, 2)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_all_tokens_banned_is_an_error_that_names_the_position(temperature: float) -> None:
    with pytest.raises(InvalidInputError, match=r"At position 2 every token is banned"):
        chosen(row_of(1, NAN), [0, 0], logit_bias={0: -INF}, temperature=temperature, seed=1)


def test_stop_tokens_are_banned_until_min_tokens_of_output() -> None:
    row, options = row_of(1, 9), GenerationOptions(min_tokens=2)
    choices = [sample(row, [0] * (5 + num_emitted), 5, options, end_ids={1}) for num_emitted in range(4)]
    assert choices == [0, 0, 1, 1]
    assert sample(row, [0] * 5, 5, options) == 1  # nothing is banned where there is no stop token


def test_repetition_penalty_divides_positive_and_multiplies_negative_logits_of_prompt_and_output() -> None:
    assert chosen(row_of(4, 3, 1), [0], repetition_penalty=2.0) == 1
    assert chosen(row_of(4, 3, 1), [0], 0, repetition_penalty=2.0) == 1
    assert chosen(row_of(-1, -1.5), [0], repetition_penalty=2.0) == 1
    assert chosen(row_of(-1, -2.5), [0], repetition_penalty=2.0) == 0
    assert chosen(row_of(3, 2), [1, 1, 1], repetition_penalty=0.5) == 1  # below 1 it favours, once however often


def test_presence_penalty_counts_output_once_and_not_the_prompt() -> None:
    assert chosen(row_of(2, 1), [0, 0], 2, presence_penalty=1.5) == 0
    assert chosen(row_of(2, 1), [0], 0, presence_penalty=1.5) == 1
    assert chosen(row_of(2, 0.4), [0, 0, 0], 0, presence_penalty=1.5) == 0


def test_frequency_penalty_counts_each_time_in_the_output() -> None:
    assert chosen(row_of(2, 0.4), [0], 0, frequency_penalty=1.0) == 0
    assert chosen(row_of(2, 0.4), [0, 0], 0, frequency_penalty=1.0) == 1
    assert chosen(row_of(2, 0.4), [0, 0], 1, frequency_penalty=1.0) == 0


def test_popped_token_leaves_no_trace() -> None:
    sampler = Sampler(GenerationOptions(frequency_penalty=1.0, repetition_penalty=1.5), 1)
    sampler.push_all([2])
    row = row_of(2, 1.9, 0)
    sampler.push(0)
    assert sampler.choose(row) == 1
    sampler.pop()
    assert sampler.choose(row) == 0
    sampler.pop()
    assert sampler.choose(row_of(0, 0, 0.1)) == 2
    sampler.push(2)
    assert sampler.choose(row_of(1, 0, 1.4)) == 0


def test_bias_comes_before_the_repetition_penalty() -> None:
    assert chosen(row_of(-1, 0.4), [0], logit_bias={0: 2.0}, repetition_penalty=2.0) == 0  # (-1 + 2) / 2 = 0.5


def test_top_k_leaves_the_lowest_ids_of_a_tie_at_the_border() -> None:
    assert possible(row_of(1, 2, 1, 1, 0), temperature=5.0, top_k=2) == {0, 1}
    assert possible(row_of(1, NAN, 1), temperature=5.0, top_k=2) == {0, 2}


def test_top_k_larger_than_the_vocabulary_is_off() -> None:
    assert possible(row_of(1, 1, 1), temperature=1.0, top_k=50) == {0, 1, 2}


def test_top_p_leaves_the_fewest_that_reach_the_share() -> None:
    row = np.log(row_of(0.5, 0.3, 0.2))
    assert possible(row, temperature=1.0, top_p=0.45) == {0}
    assert possible(row, temperature=1.0, top_p=0.79) == {0, 1}
    assert possible(row, temperature=1.0, top_p=0.81) == {0, 1, 2}
    assert possible(row, temperature=1.0, top_p=1e-9) == {0}


def test_min_p_drops_what_is_less_likely_than_a_share_of_the_likeliest() -> None:
    row = np.log(row_of(0.5, 0.3, 0.2))
    assert possible(row, temperature=1.0, min_p=0.59) == {0, 1}
    assert possible(row, temperature=1.0, min_p=0.61) == {0}
    assert possible(row, temperature=1.0, min_p=1.0) == {0}


def test_temperature_acts_before_top_p_and_min_p() -> None:
    row = np.log(row_of(0.6, 0.4))
    assert possible(row, temperature=1.0, min_p=0.7) == {0}
    assert possible(row, temperature=3.0, min_p=0.7) == {0, 1}


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-5, 1e300])
def test_extreme_temperatures_give_a_token_and_no_warning(temperature: float) -> None:
    choice = chosen(row_of(1, 3, 2), temperature=temperature, seed=3)
    assert choice in ({0, 1, 2} if temperature > 1 else {1})


def test_infinite_logits_are_drawn_like_greedy() -> None:
    assert possible(row_of(1, INF, INF), temperature=1.0) == {1}
    assert possible(row_of(-INF, -INF), temperature=1.0) == {0}
    assert possible(row_of(-INF, 1, 1), temperature=1.0) == {1, 2}


def test_extreme_options_give_a_token_and_no_warning() -> None:
    largest = float(np.finfo(np.float32).max)
    assert chosen(row_of(largest, 1), logit_bias={0: 1e300}) == 0
    assert chosen(row_of(1, 2), [1], repetition_penalty=1e300) == 0
    assert chosen(row_of(1, -2), [0, 1], repetition_penalty=1e-300) == 0


def test_sampling_without_a_seed_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'seed'"):
        chosen(row_of(1, 2), temperature=1.0)


def test_draw_never_takes_a_token_of_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of(-1000, 0, 0.1, -1000)
    for number in (0.0, 1 - 2.0**-53):
        monkeypatch.setattr("cera_core.speculation.sampling.uniform", lambda *_, number=number: number)
        assert chosen(row, temperature=1.0, seed=1) == (1 if number == 0 else 2)


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1])
def test_random_number_of_a_position_is_fixed_and_in_range(seed: int) -> None:
    numbers = [uniform(seed, position) for position in range(1000)]
    assert numbers == [uniform(seed, position) for position in range(1000)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) == 1000


def test_random_numbers_follow_splitmix64() -> None:
    # The first outputs of the public-domain reference, https://prng.di.unimi.it/splitmix64.c, begun with state 0.
    mixed = 0xE220A8397B1DCDAF
    second_of_that_state = 0x6E789E6AA1B965F4  # of state 0, second output; its state is one golden gamma further
    from cera_core.speculation import sampling

    assert sampling._mix(0) == mixed
    assert sampling._mix(0x9E3779B97F4A7C15) == second_of_that_state
    assert uniform(0, 0) == (sampling._mix(mixed) >> 11) / 2**53


def test_log_softmax_is_normalised_and_ignores_nan() -> None:
    result = log_softmax(row_of(1, NAN, 2, -INF))
    assert np.exp(result).sum() == pytest.approx(1)
    assert result[1] == result[3] == -INF
    assert result[2] - result[0] == pytest.approx(1)


def test_log_softmax_of_large_logits_does_not_overflow() -> None:
    assert log_softmax(row_of(1e30, 1e30)).tolist() == pytest.approx([math.log(0.5)] * 2)


def test_infinite_logits_share_all_of_the_probability() -> None:
    assert log_softmax(row_of(INF, 5, INF)).tolist() == pytest.approx([math.log(0.5), -INF, math.log(0.5)])
    assert log_softmax(row_of(-INF, -INF)).tolist() == pytest.approx([math.log(0.5)] * 2)


def test_likeliest_are_in_order_with_the_lowest_id_first_in_a_tie() -> None:
    scores = row_of(1, 5, NAN, 5, -INF, 3)
    assert likeliest(scores, 3).tolist() == [1, 3, 5]
    assert likeliest(scores, 50).tolist() == [1, 3, 5, 0]
    assert likeliest(scores, 0).tolist() == []


@pytest.mark.parametrize("top_p", [1e-9, 0.3, 0.5, 0.9, 0.999, 1 - 1e-12])
@pytest.mark.parametrize("spread", [0.0, 0.01, 0.1, 1.0, 6.0])
@pytest.mark.parametrize("size", [1, 3, 255, 256, 257, 5000])
def test_top_p_keeps_what_sorting_the_whole_row_keeps(size: int, spread: float, top_p: float) -> None:
    levels = np.round(np.random.default_rng(size).normal(0, spread, size), 2)  # so that there are ties
    weights = np.exp(levels - levels.max())
    order = np.argsort(-weights, kind="stable")
    num_short = np.count_nonzero(np.cumsum(weights[order]) < top_p * weights.sum())
    assert _top_p(weights, top_p).tolist() == sorted(order[: num_short + 1].tolist())
