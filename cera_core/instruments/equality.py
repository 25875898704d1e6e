"""Compares generations with and without drafts, token for token and log-probability for log-probability.

Equality proves nothing where nothing was drafted, or where every guess was right. So what was accepted and rejected is
counted with it, and each drafter runs with fixed numbers of draft tokens as well as adaptively. It knows nothing of
which drafters there are, nor of what is done about a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from cera_core.engine import Engine
from cera_core.generation import Generation
from cera_core.session import Session
from cera_core.session_drafters import DrafterChoice

NUM_ALTERNATIVES = 20
"""Log-probabilities compared at each position, besides the emitted token's own."""
SAMPLINGS: Mapping[str, Mapping[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "sampled": {"temperature": 0.8, "seed": 1},
}
"""Options of a generation, by name."""
BUDGETS: Mapping[str, Mapping[str, Any]] = {
    "1": {"adaptive": False, "max_draft_tokens": 1},
    "8": {"adaptive": False, "max_draft_tokens": 8},
    "15": {"adaptive": False, "max_draft_tokens": 15},
    "adaptive": {"adaptive": True},
}
"""Ways to draft, by name: fixed numbers of tokens a round, and what the draft budget chooses."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where a generation first differs from the plain one, in tokens or in a bit of their log-probabilities.

    Attributes:
        position: Index in the output.
        plain: The plain text's token there; None if it had ended.
        drafted: The other text's token; None if it had ended.
        gap: By how much the plain logit of the one exceeds that of the other, 0 where only log-probabilities differ;
            None if a text had ended, or the other token is none of the `NUM_ALTERNATIVES` likeliest.
    """

    position: int
    plain: int | None
    drafted: int | None
    gap: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run with drafts, compared with the plain run of the same prompt.

    Attributes:
        sampling: A name in `SAMPLINGS`.
        drafter: The drafter's name.
        budget: A name in `BUDGETS`.
        num_tokens: Length of the plain output.
        num_accepted: Draft tokens accepted.
        num_rejected: Draft tokens rejected.
        divergence: Where the texts differ; None if they are equal.
    """

    sampling: str
    drafter: str
    budget: str
    num_tokens: int
    num_accepted: int
    num_rejected: int
    divergence: Divergence | None


def compare(
    engine: Engine,
    prompt: Sequence[int],
    drafters: Mapping[str, DrafterChoice],
    samplings: Mapping[str, Mapping[str, Any]] = SAMPLINGS,
    budgets: Mapping[str, Mapping[str, Any]] = BUDGETS,
) -> Iterator[Comparison]:
    """Yields a comparison for each sampling, drafter and budget, on one prompt.

    Args:
        engine: Generates; its settings hold where a sampling or budget says nothing.
        prompt: Token ids.
        drafters: What to draft with, by name.
        samplings: Options of a generation by name.
        budgets: Likewise.
    """
    prepared = _prepared(engine, prompt)
    for sampling, how in samplings.items():
        options = {**how, "logprobs": NUM_ALTERNATIVES}
        plain = _prepared(engine, prompt).generate(drafter=None, **options)
        for name, drafter in drafters.items():
            for budget, limits in budgets.items():
                session = prepared.fork() if engine.model.supports_copy else _prepared(engine, prompt)
                drafted = session.generate(drafter=drafter, **{**options, **limits, "seed": plain.seed})
                num_accepted, num_drafted = drafted.stats.num_accepted, drafted.stats.num_drafted
                yield Comparison(
                    sampling,
                    name,
                    budget,
                    len(plain.token_ids),
                    num_accepted,
                    num_drafted - num_accepted,
                    first_divergence(plain, drafted),
                )


def first_divergence(plain: Generation, drafted: Generation) -> Divergence | None:
    """Returns the first place where two generations differ; None if there is none.

    Args:
        plain: With log-probabilities.
        drafted: With as many of them.
    """
    for position, (ours, theirs) in enumerate(zip_longest(plain.logprobs or (), drafted.logprobs or ())):
        if ours is None or theirs is None:
            return Divergence(position, ours.token_id if ours else None, theirs.token_id if theirs else None, None)
        if ours != theirs:
            other = {**dict(ours.top), ours.token_id: ours.logprob}.get(theirs.token_id)
            gap = None if other is None else ours.logprob - other
            return Divergence(position, ours.token_id, theirs.token_id, gap)
    return None


def _prepared(engine: Engine, prompt: Sequence[int]) -> Session:
    """Makes a session with the prompt in its cache."""
    session = engine.session()
    session.append(prompt)
    session.prefill()
    return session
