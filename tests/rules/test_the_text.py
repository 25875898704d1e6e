"""Rules 1 to 7: a guess never changes the text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cera_core.drafter import Drafter
from cera_core.errors import ConfigError, InvalidInputError, ModelError
from cera_core.generation import Generation
from cera_core.instruments.equality import BUDGETS, Divergence, first_divergence
from cera_core.model import InferenceState
from cera_core.session import Session
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter, RandomDrafter
from cera_core.testing.fakes import TableModel
from support.native import WEIGHT_TYPES
from support.sessions import CheapRows, plain, session_of
from support.small_models import SmallModel, drafter_names, model_on
from support.tiny_gguf import write_tiny_gguf

GREEDY: dict[str, Any] = {"max_tokens": 36, "logprobs": 3}
SAMPLED: dict[str, Any] = {**GREEDY, "temperature": 0.8, "seed": 3, "top_p": 0.9}
EIGHT: dict[str, Any] = {"adaptive": False, "max_draft_tokens": 8}


def random_ids(vocab_size: int, seed: int = 0) -> RandomDrafter:
    """Makes a drafter of random ids, some of which are right."""
    return RandomDrafter(vocab_size, seed, share_of_history=0.5)


@dataclass(frozen=True)
class Compared:
    """A plain generation, and those with each drafter in every budget."""

    expected: Generation
    drafted: dict[str, list[Generation]]


@pytest.fixture(scope="module", params=[GREEDY, SAMPLED], ids=["greedy", "sampled"])
def compared(small_model: SmallModel, request: pytest.FixtureRequest) -> Compared:
    expected = small_model.plain(**request.param)
    drafted = {
        name: [
            small_model.session().generate(drafter=drafter, **request.param, **budget) for budget in BUDGETS.values()
        ]
        for name, drafter in small_model.drafters(expected.token_ids).items()
    }
    return Compared(expected, drafted)


def judged(generations: Sequence[Generation]) -> Counter[str]:
    """Counts draft tokens by what became of them."""
    accepted = sum(generation.stats.num_accepted for generation in generations)
    drafted = sum(generation.stats.num_drafted for generation in generations)
    return Counter(accepted=accepted, rejected=drafted - accepted)


def test_rule_01_with_any_drafter_the_text_is_the_plain_text_token_for_token(
    small_model: SmallModel, compared: Compared
) -> None:
    assert small_model.model.batch_invariant
    for name, generations in compared.drafted.items():
        for generation in generations:
            assert generation.token_ids == compared.expected.token_ids, name
            assert generation.finish_reason == compared.expected.finish_reason, name
        counts = judged(generations)
        assert counts["rejected"] > 0, name
        assert (counts["accepted"] > 0) == (name != "always wrong"), name
    assert set(drafter_names()) < set(compared.drafted)


class Inexact(TableModel):
    """Prefers another token where several share a forward, as sums in another order do in a near tie."""

    batch_invariant = False

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Any:
        rows = super().forward_all(token_ids, state).copy()
        if len(rows) > 1 and state.seq_len > 20:
            first, second = np.argsort(-rows[0], kind="stable")[:2]
            rows[0, [first, second]] = rows[0, [second, first]]
        return rows


def test_rule_01_where_a_backend_is_not_exact_the_first_divergence_is_found_with_its_logit_gap() -> None:
    model = Inexact()
    expected = plain(model=model, max_tokens=30, logprobs=3)
    found = session_of(model=model).generate(drafter=random_ids(16), max_tokens=30, logprobs=3, **EIGHT)
    divergence = first_divergence(expected, found)
    assert isinstance(divergence, Divergence)
    assert expected.token_ids[: divergence.position] == found.token_ids[: divergence.position]
    row = model.row([*session_of().token_ids, *expected.token_ids[: divergence.position]])
    assert divergence.gap == pytest.approx(row[divergence.plain] - row[divergence.drafted], abs=1e-6)


def test_rule_02_the_first_draft_token_is_judged_by_the_logits_after_the_last_committed_token() -> None:
    """A drafter one token ahead guesses what the bonus row would say: everything it says is judged wrong."""
    text = plain(max_tokens=40).token_ids
    ahead = BrokenDrafter(lambda tokens, max_k: text[len(tokens) - 16 + 1 :][:max_k])
    right = BrokenDrafter(lambda tokens, max_k: text[len(tokens) - 16 :][:max_k])
    one_token = {"adaptive": False, "max_draft_tokens": 1, "max_tokens": 40}
    found = session_of().generate(drafter=ahead, **one_token)
    assert found.token_ids == text
    repeats = sum(one == other for one, other in pairwise(text))
    assert found.stats.num_accepted <= repeats
    assert session_of().generate(drafter=right, **one_token).stats.acceptance_rate == 1


def test_rule_02_an_always_wrong_drafter_changes_nothing(small_model: SmallModel) -> None:
    expected = small_model.plain(**GREEDY)
    drafter = small_model.mostly_right(expected.token_ids, wrong_every=1)
    session = small_model.session()
    found = session.generate(drafter=drafter, **GREEDY, **EIGHT)
    assert found.token_ids == expected.token_ids
    assert found.logprobs == expected.logprobs
    assert found.stats.num_accepted == 0
    assert found.stats.num_rounds == found.stats.num_emitted - 1


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("weight_type", WEIGHT_TYPES)
def test_rule_03_random_ids_in_random_number_change_nothing_on_any_backend_and_weight_type(
    tmp_path: Path, backend: str, weight_type: str
) -> None:
    model = model_on(backend, write_tiny_gguf(tmp_path / "tiny.gguf", quantisation=weight_type, seed=3))
    vocab_size = model.config.vocab_size
    repeating = BrokenDrafter(lambda tokens, max_k: [tokens[-1]] * max_k)

    def generated(drafter: Drafter | None, **options: Any) -> Generation:
        session = Session(model, costs=CheapRows())
        session.append(range(30, 60))
        return session.generate(drafter=drafter, max_tokens=20, logprobs=2, **options)

    expected = generated(None)
    for drafter in (
        random_ids(vocab_size, 1),
        random_ids(vocab_size, 2),
        repeating,
    ):
        for max_draft_tokens in (1, 15):
            found = generated(drafter, adaptive=False, max_draft_tokens=max_draft_tokens)
            assert first_divergence(expected, found) is None
            assert found.stats.num_drafted > 0


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("chunk_length", [1, 7, 64])
def test_rule_04_one_seed_one_text_however_the_prompt_was_fed(
    small_model: SmallModel, options: dict[str, Any], chunk_length: int
) -> None:
    expected = small_model.plain(**options)
    session = Session(small_model.model, costs=CheapRows(), options=small_model.options)
    for start in range(0, len(small_model.prompt), chunk_length):
        session.append(small_model.prompt[start : start + chunk_length])
        session.prefill()
    found = session.generate(drafter=small_model.mostly_right(expected.token_ids), **options, **EIGHT)
    assert first_divergence(expected, found) is None
    assert found.stats.num_accepted > 0


@pytest.mark.parametrize("options", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
def test_rule_04_one_seed_one_text_in_many_sessions_at_once(small_model: SmallModel, options: dict[str, Any]) -> None:
    expected = small_model.plain(**options)
    drafters = small_model.drafters(expected.token_ids).values()
    ways = [(drafter, BUDGETS[budget]) for drafter in drafters for budget in ("8", "adaptive")]

    def generated(way: tuple[Drafter, Any]) -> Generation:
        drafter, budget = way
        return small_model.session().generate(drafter=drafter, **options, **budget)

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(generated, ways))
    assert all(first_divergence(expected, each) is None for each in found)
    assert {each.seed for each in found} == {options.get("seed")}
    assert sum(each.stats.num_accepted for each in found) > 0


PROCESSORS: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 1.3, "seed": 1},
    "top-k": {"temperature": 1.3, "seed": 1, "top_k": 3},
    "top-p": {"temperature": 1.3, "seed": 1, "top_p": 0.6},
    "min-p": {"temperature": 1.3, "seed": 1, "min_p": 0.3},
    "repetition penalty": {"repetition_penalty": 1.6},
    "presence penalty": {"presence_penalty": 1.9},
    "frequency penalty": {"frequency_penalty": 1.3},
    "logit bias": {"logit_bias": {3: 4.0, 5: -3.0}},
    "banned tokens": {"logit_bias": {11: -np.inf, 4: -np.inf}},
    "minimum length": {"min_tokens": 30, "stop_token_ids": (4, 11)},
}


@pytest.mark.parametrize("options", PROCESSORS.values(), ids=PROCESSORS)
def test_rule_05_each_option_of_sampling_acts_on_every_row_the_bonus_row_too(options: dict[str, Any]) -> None:
    """Every fifth guess is wrong, so there are corrections, and bonus rows after short drafts."""
    options = {**options, "max_tokens": 40}
    prompt = [1, 2, 3] * 6
    expected = plain(prompt, **options)
    assert expected.token_ids != plain(prompt, max_tokens=40).token_ids  # the option does something
    drafter = OracleDrafter([*prompt, *expected.token_ids], 16, wrong_every=5)
    for max_draft_tokens in (1, 2, 4, 8):
        found = session_of(prompt).generate(
            drafter=drafter, adaptive=False, max_draft_tokens=max_draft_tokens, **options
        )
        assert found.token_ids == expected.token_ids
        assert found.stats.num_drafted > found.stats.num_accepted > 0


def test_rule_05_each_row_sees_the_tokens_accepted_before_it_and_never_those_after() -> None:
    """A model that always says the same, under a penalty that moves it on: what was said decides what comes."""

    class Constant(TableModel):
        def row(self, tokens: Sequence[int]) -> Any:
            return np.linspace(1.5, 0, 16, dtype=np.float32)

    options = {"presence_penalty": 1.6, "max_tokens": 15}
    text = plain([15], model=Constant(), **options).token_ids
    assert text == list(range(15))
    drafter = BrokenDrafter(lambda tokens, max_k: text[len(tokens) - 1 :][:max_k])
    reversed_order = BrokenDrafter(lambda tokens, max_k: text[::-1][:max_k])
    found = session_of([15], model=Constant()).generate(drafter=drafter, **options, **EIGHT)
    assert (found.token_ids, found.stats.acceptance_rate) == (text, 1)
    assert session_of([15], model=Constant()).generate(drafter=reversed_order, **options, **EIGHT).token_ids == text


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"stop": "x"}, InvalidInputError, "'stop'"),
        ({"logit_bias": {16: 1.0}}, InvalidInputError, "'logit_bias'"),
        ({"stop_token_ids": [16]}, InvalidInputError, "'stop_token_ids'"),
        ({"min_tokens": 9, "max_tokens": 4}, ConfigError, "'min_tokens'"),
    ],
)
def test_rule_05_a_combination_that_cannot_be_honoured_is_refused(
    options: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        session_of().generate(**options)


def test_rule_06_log_probabilities_of_accepted_tokens_are_those_of_a_plain_run_bit_for_bit(compared: Compared) -> None:
    assert compared.expected.logprobs is not None
    assert len(compared.expected.logprobs) == len(compared.expected.token_ids)
    for name, generations in compared.drafted.items():
        assert all(generation.logprobs == compared.expected.logprobs for generation in generations), name
    assert judged(compared.drafted["mostly right"])["accepted"] > 0


class Rows(TableModel):
    """Gives one row at every position, and another at a position of choice."""

    def __init__(self, row: Sequence[float], other: Sequence[float] = (), position: int = -1) -> None:
        super().__init__(len(row))
        self.rows = [np.array(values, np.float32) for values in (row, other)]
        self.position = position

    def row(self, tokens: Sequence[int]) -> Any:
        return self.rows[len(tokens) == self.position]


@pytest.mark.parametrize("drafter", [None, random_ids(4), BrokenDrafter(lambda tokens, max_k: [1] * max_k)])
def test_rule_07_the_lowest_id_wins_a_tie_and_nan_never_wins(drafter: Drafter | None) -> None:
    for row in ([0, 2, 2, 1], [np.nan, 2, 2, np.nan], [-np.inf, 0, -np.inf, np.nan]):
        found = session_of([0] * 20, model=Rows(row)).generate(drafter=drafter, max_tokens=12, adaptive=False)
        assert found.token_ids == [1] * 12


@pytest.mark.parametrize("drafter", [None, BrokenDrafter(lambda tokens, max_k: [1] * max_k)])
def test_rule_07_a_row_of_nothing_but_nan_is_an_error_that_names_the_position(drafter: Drafter | None) -> None:
    model = Rows([0, 2, 1], [np.nan] * 3, position=25)
    session = session_of([0] * 20, model=model)
    with pytest.raises(ModelError, match=r"nothing but NaN. That was for position 25"):
        session.generate(drafter=drafter, max_tokens=12, adaptive=False)
    assert session.token_ids == [0] * 20 + [1] * 5
