"""The feed-forward of one block: dense, or made of experts of which each token goes through a few."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cera_numpy.layers import gated, gating_weights
from cera_numpy.weights import Matrix, StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cera_core.modelfile.architectures import Activation
    from cera_core.modelfile.blocks import ExpertsDescription
    from cera_numpy.execution import Execution
    from cera_numpy.weights import Floats


class FeedForward:
    """Widens each row, lets it through a gate, and narrows it again (arXiv:2002.05202)."""

    def __init__(
        self, gate: StoredTensor, up: StoredTensor, down: StoredTensor, activation: Activation, execution: Execution
    ) -> None:
        self._apply = execution.apply
        self._gate = partial(gated, activation=activation)
        self._gate_and_up = Matrix([gate, up], execution)
        self._down = Matrix([down], execution)

    def forward(self, x: Floats) -> Floats:
        """Returns float32[n, hidden_size] for rows of that shape."""
        return self._down.product(self._apply(self._gate, self._gate_and_up.product(x)))


class Experts:
    """Several feed-forwards, of which each row goes through those that its scores choose.

    Rows are grouped by expert, so that each chosen one is read once a forward. What a row's experts give is added in
    the order of their numbers: its bits do not depend on the other rows.
    """

    def __init__(
        self,
        stored: Mapping[str, StoredTensor],
        experts: ExpertsDescription,
        activation: Activation,
        execution: Execution,
    ) -> None:
        self._num_used = experts.num_used
        self._apply = execution.apply
        self._gating_weights = partial(gating_weights, gating=experts.gating)
        self._scores = Matrix([stored["ffn_gate_inp.weight"]], execution)
        bias = "exp_probs_b.bias"
        self._selection_bias = stored[bias].vector() if bias in stored else np.zeros(experts.num_experts, np.float32)
        parts = (stored[f"ffn_{name}_exps.weight"].split(experts.num_experts) for name in ("gate", "up", "down"))
        self._experts = [FeedForward(*three, activation, execution) for three in zip(*parts, strict=True)]

    def forward(self, x: Floats) -> Floats:
        """Returns float32[n, hidden_size] for rows of that shape."""
        weights = self._apply(self._gating_weights, self._scores.product(x))
        chosen = np.argsort(-(weights + self._selection_bias), axis=1, kind="stable")[:, : self._num_used]
        shares = self._apply(_shares, np.take_along_axis(weights, chosen, axis=1))
        result = np.zeros_like(x)
        for expert in np.unique(chosen):
            rows, places = np.nonzero(chosen == expert)
            result[rows] += self._experts[expert].forward(x[rows]) * shares[rows, places, np.newaxis]
        return result


def _shares(weights: Floats) -> Floats:
    """Makes the weights of a row's experts sum to one; they may all be nearly 0, which llama.cpp bounds likewise."""
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), np.float32(2.0**-14))
