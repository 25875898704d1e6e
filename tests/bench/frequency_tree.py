"""Compares `auto` with a frequency-weighted suffix tree on recorded answers, by kind of text, at several costs.

The reference drafts what followed the longest match most often, token by token, at most as many tokens as match, and
stops where the product of the count ratios falls below 0.1; each of its drafts is verified to its end. `perfect` is
what an oracle would make of the reference's choice of place: the same occurrence, cut where it is best. No model runs:
what a forward takes comes from the tables. Each line of a file is a JSON object with the token ids `prompt` and
`output` and a `category`. From the project's root:

    python tests/bench/frequency_tree.py FILE...
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import cera_core
from cera_core.drafter import Draft, IncrementalDrafter
from cera_core.drafting.acceptance import Acceptance
from cera_core.generation_options import GenerationOptions
from cera_core.instruments.replay import CostTable
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import first_tokens
from cera_core.speculation.history import History
from cera_suffix_automaton.automaton import SuffixAutomaton

MAX_K = 15
STEP_SECONDS = 0.03
TABLES: dict[str, dict[int, float]] = {
    "8 rows cost 2.25, evenly": {1: 1, 8: 2.25},
    "8 rows cost 2.25, the first few little": {1: 1, 2: 1.05, 4: 1.3, 6: 1.75, 8: 2.25, 12: 3.2, 16: 4.2},
    "native, 135M": {1: 3.22, 2: 3.12, 4: 3.46, 8: 5.06, 16: 9.37},
    "native, 1.5B": {1: 33.0, 2: 31.4, 4: 33.0, 8: 46.7, 16: 90.9},
    "8 rows cost 6.9": {1: 1, 2: 1.8, 4: 3.1, 8: 6.9},
}


class FrequencyTreeDrafter(IncrementalDrafter):
    """The reference; its tree is the suffix automaton, whose states count the same."""

    def __init__(self) -> None:
        super().__init__()
        self._automaton = SuffixAutomaton()

    def clone(self) -> FrequencyTreeDrafter:
        return FrequencyTreeDrafter()

    def reset(self) -> None:
        super().reset()
        self._automaton = SuffixAutomaton()

    def extend(self, new_tokens: Sequence[int]) -> None:
        self._automaton.extend(new_tokens)

    def propose(self, max_k: int) -> Draft:
        tree = self._automaton
        state, token_ids, product = tree.longest_match, [], 1.0
        tree.settle(1)
        for _ in range(min(max_k, tree.length(state))):
            followers = list(tree.transitions(state))
            if not followers:
                break
            token_id, follower = max(followers, key=lambda follower: tree.count(follower[1]))
            product *= tree.count(follower) / tree.count(state)
            if product < 0.1:
                break
            token_ids.append(token_id)
            state = follower
        return Draft(token_ids)


Ask = Callable[[History, Sequence[int]], Draft]
"""Makes a draft after a history; the rest of the answer is for oracles only."""


def num_steps(prompt: list[int], output: list[int], costs: CostTable, ask: Ask, budget: DraftBudget | None) -> float:
    """Returns what an answer takes, in plain steps; without a budget each draft is verified to its end."""
    history, position, steps = History(prompt), 0, 0.0
    while position < len(output):
        commit(output[position : position + 1], history, budget)
        position += 1
        draft = ask(history, output[position:])
        if budget and draft.token_ids:
            draft = first_tokens(draft, budget.num_to_verify(draft))
        num_agreed = agreement(draft.token_ids, output[position:])
        cost = costs(1 + len(draft.token_ids))
        if budget:
            budget.observe_forward(1 + len(draft.token_ids), cost * STEP_SECONDS)
            if draft.token_ids:
                budget.observe_round(draft, num_agreed, cost * STEP_SECONDS)
        commit(output[position : position + num_agreed], history, budget)
        position += num_agreed
        steps += cost
    return steps


def commit(token_ids: Sequence[int], history: History, budget: DraftBudget | None) -> None:
    for token_id in token_ids:
        history.append(token_id)
        if budget:
            budget.observe_token(token_id)


def agreement(draft: Sequence[int], text: Sequence[int]) -> int:
    pairs = enumerate(zip(draft, text, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), min(len(draft), len(text)))


def asking(name: str, costs: CostTable) -> Ask:
    """Makes what asks a contestant during one answer."""
    drafter = (
        FrequencyTreeDrafter() if name == "tree" else cera_core.create_drafter("auto" if name == "auto" else PLACE)
    )
    if name == "perfect":
        drafter = cera_core.create_drafter(PLACE, tokens_per_match=1000)

    def ask(history: History, rest: Sequence[int]) -> Draft:
        draft = drafter.draft(history.view(), min(MAX_K, len(rest)))
        draft = draft if isinstance(draft, Draft) else Draft(draft)
        if name != "perfect":
            return draft
        lengths = range(agreement(draft.token_ids, rest) + 1)
        return first_tokens(draft, max(lengths, key=lambda length: (1 + length) / costs(1 + length)))

    return ask


PLACE = "suffix-automaton"


def compare(answers: list[dict[str, list[int]]], costs: CostTable) -> None:
    calibrated = {num_rows: costs(num_rows) for num_rows in (1, 2, 4, 8, 16)}  # as an engine does once
    learned = RoundCosts(calibrated)
    speeds: dict[str, list[float]] = {}
    kinds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name in ("tree", "auto", "perfect"):
        speeds[name] = []
        for answer in answers:
            budget = DraftBudget(GenerationOptions(), learned, Acceptance()) if name == "auto" else None
            steps = num_steps(answer["prompt"], answer["output"], costs, asking(name, costs), budget)
            speeds[name].append(len(answer["output"]) / steps)
            for kind in (str(answer["category"]), "all"):
                kinds[kind][name] += steps
                kinds[kind]["tokens"] += len(answer["output"]) / 3
    print(f"  {'kind':24} {'tokens':>7} {'tree':>6} {'auto':>6} {'ratio':>6} {'perfect':>7}")
    for kind, sums in sorted(kinds.items()):
        tree, auto, perfect = (sums["tokens"] / sums[name] for name in ("tree", "auto", "perfect"))
        print(f"  {kind:24} {sums['tokens']:7.0f} {tree:6.3f} {auto:6.3f} {auto / tree:6.3f} {perfect:7.3f}")
    print(f"  slowest answer: tree {min(speeds['tree']):.3f}, auto {min(speeds['auto']):.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--half", type=int, choices=(0, 1), help="only every other answer, from this one on")
    options = parser.parse_args()
    answers = [json.loads(line) for path in options.files for line in path.read_text().splitlines()]
    if options.half is not None:
        answers = answers[options.half :: 2]
    for name, points in TABLES.items():
        print(f"{name}:")
        compare(answers, CostTable(points, STEP_SECONDS))


if __name__ == "__main__":
    main()
