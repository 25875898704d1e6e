"""Prints what cera itself costs a token: microseconds outside the model, at several lengths of history.

    python tests/bench/glue_costs.py --lengths 1000 32000 128000

The model says a text that was written before and waits meanwhile, as long as a small model computes. What is left of
the time is sampling, counting, the loop, the draft budget and the drafter, which is asked each time. The index over the
history is built before the clock runs. Times are the best of several runs, as other load only ever adds.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from drafter_costs import like_text

import cera_core
from cera_core.model import InferenceState, Model, ModelConfig
from cera_core.session import Session

if TYPE_CHECKING:
    from cera_core.model import Logits

VOCAB_SIZE = 49_152
NUM_TOKENS = 256
MAX_ROWS = 32
SECONDS_OF_A_FORWARD = 0.003


class RecitingModel(Model):
    """Says the tokens of a script by position; a forward writes one number a row.

    Args:
        script: Token ids.
    """

    batch_invariant = True

    def __init__(self, script: Sequence[int]) -> None:
        self.config = ModelConfig(vocab_size=VOCAB_SIZE, max_seq_len=len(script))
        self._script = script
        self._rows = np.zeros((MAX_ROWS, VOCAB_SIZE), np.float32)
        self._written: list[tuple[int, int]] = []

    def new_state(self, max_seq_len: int | None = None) -> InferenceState:
        return InferenceState(max_seq_len or self.config.max_seq_len)

    def forward(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        state.seq_len += len(token_ids) - 1
        row: Logits = self.forward_all(token_ids[-1:], state)[0]
        return row

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Logits:
        end = perf_counter() + SECONDS_OF_A_FORWARD
        for place in self._written:
            self._rows[place] = 0
        following = range(state.seq_len + 1, state.seq_len + 1 + len(token_ids))
        self._written = [(row, self._script[position]) for row, position in enumerate(following)]
        for place in self._written:
            self._rows[place] = 1
        state.seq_len += len(token_ids)
        while perf_counter() < end:
            pass
        return self._rows[: len(token_ids)]

    def truncate(self, state: InferenceState, length: int) -> None:
        state.seq_len = length


def microseconds(script: Sequence[int], length: int, drafter: str | None, num_runs: int) -> tuple[float, float, float]:
    """Returns microseconds a token outside the model, microseconds of drafting a forward, and tokens a forward."""
    session = Session(RecitingModel(script), None, cera_core.create_drafter(drafter) if drafter else None)
    session.append(script[:length])
    session.generate(max_tokens=64, adaptive=False)  # builds the index
    found = []
    for _ in range(num_runs):
        stats = session.generate(max_tokens=NUM_TOKENS).stats
        session.truncate(session.position - NUM_TOKENS)
        session.generate(max_tokens=4, adaptive=False)  # the index follows the rewind before the clock runs
        num_forwards = stats.num_rounds + stats.num_plain_steps
        outside = stats.total_seconds - stats.verify_seconds - stats.plain_seconds
        found.append((1e6 * outside / stats.num_emitted, 1e6 * stats.draft_seconds / num_forwards, num_forwards))
    best = min(found)
    return best[0], best[1], NUM_TOKENS / best[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1_000, 32_000, 128_000])
    parser.add_argument("--drafters", nargs="+", default=["auto", "prompt-lookup", "suffix-automaton"])
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("| drafter | history | us a token outside the model | us of drafting a forward | tokens a forward |")
    print("|---|---|---|---|---|")
    for drafter in (None, *options.drafters):
        for length in options.lengths:
            script = [min(token_id, VOCAB_SIZE - 1) for token_id in like_text(length + 4096)]
            outside, drafting, tokens = microseconds(script, length, drafter, options.runs)
            print(f"| {drafter or 'none'} | {length} | {outside:.1f} | {drafting:.1f} | {tokens:.2f} |", flush=True)


if __name__ == "__main__":
    main()
