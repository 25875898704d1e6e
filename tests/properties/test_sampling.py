"""Sampling against its definition: counts kept or counted anew, sorted in part or in full, drawn often or once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cera_core.generation_options import GenerationOptions
from cera_core.speculation import sampling
from cera_core.speculation.sampling import Sampler, log_softmax, sample, uniform

VOCAB_SIZE = 6
logits = st.one_of(
    st.integers(-4, 4).map(float),
    st.sampled_from([math.nan, math.inf, -math.inf, 3.4e38, -3.4e38]),
    st.floats(-10, 10, width=32),
)
rows = st.lists(logits, min_size=VOCAB_SIZE, max_size=VOCAB_SIZE)
usable_rows = rows.filter(lambda row: any(value > -math.inf for value in row))
finite_rows = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-5, 5, width=32)), min_size=VOCAB_SIZE, max_size=VOCAB_SIZE
)
token_ids = st.integers(0, VOCAB_SIZE - 1)
biases = st.dictionaries(token_ids, st.one_of(st.floats(-3, 3), st.just(-math.inf)), max_size=VOCAB_SIZE - 1)
all_options = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.3, 1.0, 4.0]),
        "seed": st.integers(0, 2**63 - 1),
        "top_k": st.integers(0, VOCAB_SIZE + 1),
        "top_p": st.floats(0.05, 1.0),
        "min_p": st.floats(0.0, 1.0),
        "repetition_penalty": st.floats(0.5, 2.0),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "logit_bias": biases,
        "min_tokens": st.integers(0, 5),
    },
)


def options_of(values: dict[str, Any]) -> GenerationOptions:
    return GenerationOptions(**{"seed": 1, **values})


def outcome(function: Any, *arguments: Any) -> int | str:
    """Returns the token, or the error where nothing can be chosen."""
    try:
        return function(*arguments)
    except (sampling.ModelError, sampling.InvalidInputError) as error:
        return str(error)


@given(
    values=all_options,
    prompt=st.lists(token_ids, max_size=5),
    steps=st.lists(st.one_of(token_ids, st.none()), max_size=20),
    row=st.one_of(rows, st.just([1.0] * VOCAB_SIZE)),
    end_ids=st.sets(token_ids, max_size=2),
)
def test_sampler_equals_the_pure_function_however_the_prefix_came_about(
    values: dict[str, Any], prompt: list[int], steps: list[int | None], row: list[float], end_ids: set[int]
) -> None:
    options, logits_row = options_of(values), np.array(row, np.float32)
    sampler = Sampler(options, len(prompt), end_ids)
    sampler.push_all(prompt)
    prefix = list(prompt)
    for token_id in steps:
        if token_id is not None:
            sampler.push(token_id)
            prefix.append(token_id)
        elif prefix:  # a pop, below the prompt too
            sampler.pop()
            prefix.pop()
        expected = outcome(sample, logits_row, prefix, len(prompt), options, end_ids)
        assert outcome(sampler.choose, logits_row) == expected


def naive(row: Sequence[float], prefix: Sequence[int], num_prompt_tokens: int, options: GenerationOptions) -> dict:
    """Returns what each possible token weighs, computed one token at a time in the order of the processors."""
    seen, output = set(prefix), Counter(prefix[num_prompt_tokens:])
    scores = {}
    for token_id, logit in enumerate(row):
        score = float(np.float32(logit)) + options.logit_bias.get(token_id, 0.0)
        if token_id in seen:
            score = score / options.repetition_penalty if score > 0 else score * options.repetition_penalty
        score -= options.frequency_penalty * output[token_id] + options.presence_penalty * (output[token_id] > 0)
        if score > -math.inf:
            scores[token_id] = score
    top = max(scores.values())
    if options.temperature == 0:
        return {min(token_id for token_id, score in scores.items() if score == top): 1.0}
    by_rank = sorted(scores, key=lambda token_id: (-scores[token_id], token_id))
    kept = by_rank[: options.top_k or None]
    weights = {token_id: math.exp((scores[token_id] - top) / options.temperature) for token_id in kept}
    target, reached = options.top_p * sum(weights.values()), 0.0
    for rank, token_id in enumerate(kept):
        reached += weights[token_id]
        if reached >= target and options.top_p < 1:
            kept = kept[: rank + 1]
            break
    return {token_id: weights[token_id] for token_id in sorted(kept) if weights[token_id] >= options.min_p}


# Values that float32 holds exactly, so that the naive definition in float64 gives the same numbers.
exact_options = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from([0.0, 0.5, 1.0, 2.0]),
        "seed": st.integers(0, 2**63 - 1),
        "top_k": st.integers(0, VOCAB_SIZE + 1),
        "top_p": st.sampled_from([0.1, 0.37, 0.61, 0.83, 0.97, 1.0]),
        "min_p": st.sampled_from([0.0, 0.03, 0.21, 0.7]),
        "repetition_penalty": st.sampled_from([0.5, 1.0, 2.0]),
        "presence_penalty": st.sampled_from([-1.0, 0.0, 0.5]),
        "frequency_penalty": st.sampled_from([-0.5, 0.0, 0.25]),
        "logit_bias": st.dictionaries(token_ids, st.sampled_from([-math.inf, -1.0, 0.5, 2.0]), max_size=VOCAB_SIZE - 1),
    },
)


@given(
    values=exact_options,
    row=st.lists(st.integers(-4, 4).map(lambda value: value / 2), min_size=VOCAB_SIZE, max_size=VOCAB_SIZE),
    prefix=st.lists(token_ids, max_size=8),
    num_prompt_tokens=st.integers(0, 8),
)
def test_every_processor_equals_its_naive_definition(
    values: dict[str, Any], row: list[float], prefix: list[int], num_prompt_tokens: int
) -> None:
    options, num_prompt_tokens = options_of(values), min(num_prompt_tokens, len(prefix))
    weights = naive(row, prefix, num_prompt_tokens, options)
    point = uniform(options.seed or 0, len(prefix)) * sum(weights.values())
    reached, expected, margin = 0.0, max(weights), math.inf
    for token_id, weight in weights.items():
        reached += weight
        margin = min(margin, abs(reached - point))
        if reached > point:
            expected = token_id
            break
    if options.temperature and margin < 1e-9:
        return  # the last bit of a sum decides
    assert sample(np.array(row, np.float32), prefix, num_prompt_tokens, options) == expected


def test_draws_follow_the_probabilities() -> None:
    row = np.log(np.array([0.4, 0.05, 0.3, 0.05, 0.2], np.float32))
    options = GenerationOptions(temperature=1.0, seed=20_240_601)
    counts = Counter(sample(row, range(position), position, options) for position in range(20_000))
    for token_id, probability in enumerate([0.4, 0.05, 0.3, 0.05, 0.2]):
        spread = math.sqrt(probability * (1 - probability) / 20_000)
        assert abs(counts[token_id] / 20_000 - probability) < 4 * spread


def test_draws_of_neighbouring_seeds_and_positions_are_independent() -> None:
    numbers = np.array([[uniform(seed, position) for position in range(200)] for seed in range(100)])
    by_position = np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]
    by_seed = np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]
    diagonal = np.corrcoef(numbers[:-1, 1:].ravel(), numbers[1:, :-1].ravel())[0, 1]
    assert max(abs(by_position), abs(by_seed), abs(diagonal)) < 0.03  # four deviations of chance
    assert abs(numbers.mean() - 0.5) < 0.01


@given(row=finite_rows, seed=st.integers(0, 2**63 - 1), prefix=st.lists(token_ids, max_size=6))
def test_draw_depends_on_seed_and_position_only(row: list[float], seed: int, prefix: list[int]) -> None:
    options, logits_row = GenerationOptions(temperature=1.0, seed=seed), np.array(row, np.float32)
    other_tokens = [(token_id + 1) % VOCAB_SIZE for token_id in prefix]
    first = sample(logits_row, prefix, len(prefix), options)
    assert sample(logits_row, other_tokens, 0, options) == first


@given(row=usable_rows, values=all_options, position=st.integers(0, 4))
@example(row=[math.nan, -math.inf, -math.inf, math.inf, math.nan, 0.0], values={}, position=0)
def test_neither_nan_nor_a_banned_token_is_ever_chosen(row: list[float], values: dict[str, Any], position: int) -> None:
    options = options_of(values)
    choice = outcome(sample, np.array(row, np.float32), [0] * position, 0, options)
    if isinstance(choice, int):
        assert not math.isnan(row[choice])
        assert options.logit_bias.get(choice) != -math.inf


@given(
    seed=st.integers(0, 1000),
    size=st.integers(1, 3000),
    num_levels=st.sampled_from([2, 5, 10_000]),
    spread=st.sampled_from([0.1, 3.0, 30.0]),
    top_p=st.floats(0.001, 0.999),
)
def test_top_p_by_partial_sorting_equals_full_sorting(
    seed: int, size: int, num_levels: int, spread: float, top_p: float
) -> None:
    generator = np.random.default_rng(seed)
    scores = generator.integers(0, num_levels, size) / num_levels * spread
    weights = np.exp(scores - scores.max())
    order = np.argsort(-weights, kind="stable")
    num_kept = int(np.argmax(np.cumsum(weights[order]) >= top_p * weights.sum())) + 1
    assert sampling._top_p(weights, top_p).tolist() == sorted(order[:num_kept].tolist())


@given(row=usable_rows)
def test_log_probabilities_add_up_to_one(row: list[float]) -> None:
    assert math.isclose(np.exp(log_softmax(np.array(row, np.float32))).sum(), 1.0, rel_tol=1e-9)
