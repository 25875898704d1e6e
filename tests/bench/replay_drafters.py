"""Replays recorded answers through the drafters, without a model, and predicts the speed-up.

Each line of the file is a JSON object with the token ids `prompt` and `output`. A round is simulated as the loop does
it: one token is certain, the draft is verified with it in one forward of a cost from a table, and the tokens that
agree with the recorded output are kept. Run from the project's root:

    python tests/bench/replay_drafters.py --transcripts FILE [--costs 1:1,4:1.6,8:2.25,16:4] [--by-category]
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cera_core.drafter import Draft, Drafter
from cera_core.speculation.history import History
from cera_prompt_lookup import PromptLookupDrafter
from cera_suffix_automaton.drafter import SuffixAutomatonDrafter

PREDICTED = "1:1,4:1.6,8:2.25,16:4"
POLICIES = ("whole", "confident")


@dataclass
class Tally:
    """What one setting did: sums over rounds."""

    num_tokens: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_rounds: int = 0
    cost: float = 0.0
    seconds: float = 0.0
    brier: float = 0.0
    """Squared error of the confidences, over the drafted tokens that were judged."""
    num_judged: int = 0
    calibration: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))

    def add(self, draft: Draft, num_verified: int, num_accepted: int, cost: float) -> None:
        self.num_rounds += 1
        self.num_tokens += 1 + num_accepted
        self.num_drafted += num_verified
        self.num_accepted += num_accepted
        self.cost += cost
        for position, confidence in enumerate((draft.confidences or ())[: num_accepted + 1]):
            if position < num_verified:
                accepted = position < num_accepted
                self.num_judged += 1
                self.brier += (confidence - accepted) ** 2
                cell = self.calibration[int(confidence * 10)]
                cell[0] += 1
                cell[1] += accepted


def cost_table(text: str, max_rows: int) -> list[float]:
    """Returns the cost of a forward for 0..max_rows rows, relative to one, linear between the points given."""
    points = [(int(rows), float(cost)) for rows, cost in (item.split(":") for item in text.split(","))]
    table = [0.0]
    for rows in range(1, max_rows + 1):
        below = max(point for point in points if point[0] <= rows)
        above = min((point for point in points if point[0] > rows), default=None)
        if above is None:  # past the last point: as steep as from the first to the last
            below, above = points[0], points[-1]
        slope = (above[1] - below[1]) / (above[0] - below[0])
        table.append(below[1] + slope * (rows - below[0]))
    return table


def as_draft(answer: Draft | Sequence[int]) -> Draft:
    return answer if isinstance(answer, Draft) else Draft(tuple(answer))


def best_length(draft: Draft, costs: Sequence[float], policy: str) -> int:
    """Returns how many tokens of the draft to verify: all, or as many as its confidences make worth while."""
    if policy == "whole" or draft.confidences is None:
        return len(draft.token_ids)
    best, best_speed = 0, 1.0
    expected, chance = 1.0, 1.0
    for length, confidence in enumerate(draft.confidences, start=1):
        chance *= confidence
        expected += chance
        if expected / costs[1 + length] > best_speed:
            best, best_speed = length, expected / costs[1 + length]
    return best


def replay(drafter: Drafter, prompt: list[int], output: list[int], costs: list[float], policy: str) -> Tally:
    """Simulates one generation; drafts are at most as long as `costs` goes."""
    tally = Tally()
    drafter = drafter.clone()
    history = History(prompt)
    position = 0
    while position < len(output):
        history.append(output[position])
        position += 1
        began = time.perf_counter()
        draft = as_draft(drafter.draft(history.view(), min(len(costs) - 2, len(output) - position)))
        tally.seconds += time.perf_counter() - began
        num_verified = best_length(draft, costs, policy)
        num_accepted = 0
        while num_accepted < num_verified and draft.token_ids[num_accepted] == output[position + num_accepted]:
            num_accepted += 1
        drafter.accept(draft, num_accepted)
        if num_accepted:
            history.extend(output[position : position + num_accepted])
        position += num_accepted
        tally.add(draft, num_verified, num_accepted, costs[1 + num_verified])
    return tally


def settings() -> Iterator[tuple[str, Drafter]]:
    """Yields the settings to compare."""
    for ngram_max, ngram_min in ((1, 1), (2, 2), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3), (6, 2)):
        yield f"prompt-lookup {ngram_max}..{ngram_min}", PromptLookupDrafter(ngram_max, ngram_min)
    for min_match in (1, 2, 3):
        for tokens_per_match in (0.5, 1.0, 2.0, 100.0):
            name = f"suffix-automaton {min_match} x{tokens_per_match:g}"
            yield name, SuffixAutomatonDrafter(min_match, tokens_per_match=tokens_per_match)
    for occurrence in ("most-frequent", "earliest"):
        yield f"suffix-automaton 2 x1 {occurrence}", SuffixAutomatonDrafter(2, occurrence)


def merge(tallies: Sequence[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        for name in (
            "num_tokens",
            "num_drafted",
            "num_accepted",
            "num_rounds",
            "cost",
            "seconds",
            "brier",
            "num_judged",
        ):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        for cell, (judged, accepted) in tally.calibration.items():
            total.calibration[cell][0] += judged
            total.calibration[cell][1] += accepted
    return total


def line(name: str, tally: Tally) -> str:
    return (
        f"{name:42} {tally.num_accepted:6}/{tally.num_drafted:<6} {tally.num_tokens / tally.num_rounds:5.2f} "
        f"{tally.num_tokens / tally.cost:6.3f} {1e6 * tally.seconds / tally.num_rounds:7.1f} "
        f"{tally.brier / max(tally.num_judged, 1):7.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcripts", type=Path, required=True, nargs="+")
    parser.add_argument("--costs", default=PREDICTED, help="rows:cost,...; relative to one row")
    parser.add_argument("--max-k", type=int, nargs="+", default=[8, 15])
    parser.add_argument("--by-category", action="store_true")
    parser.add_argument("--calibration", action="store_true", help="print confidence against what was accepted")
    parser.add_argument("--only", default="", help="only settings that contain this text")
    options = parser.parse_args()
    transcripts: list[dict[str, Any]] = [
        json.loads(text) for path in options.transcripts for text in path.read_text().splitlines()
    ]
    print(f"{'setting':42} {'accepted/drafted':>13} {'t/rnd':>5} {'speed':>6} {'us/rnd':>7} {'brier':>7}")
    for max_k in options.max_k:
        costs = cost_table(options.costs, max_k + 1)
        for name, drafter in settings():
            if options.only not in name:
                continue
            for policy in POLICIES:
                results = defaultdict(list)
                for transcript in transcripts:
                    tally = replay(drafter, transcript["prompt"], transcript["output"], costs, policy)
                    results[transcript.get("category", "")].append(tally)
                label = f"{name} k={max_k} {policy}"
                total = merge([tally for tallies in results.values() for tally in tallies])
                print(line(label, total))
                if options.by_category:
                    for category, tallies in results.items():
                        print(line(f"    {category}", merge(tallies)))
                if options.calibration:
                    for cell, (judged, accepted) in sorted(total.calibration.items()):
                        print(f"    confidence {cell / 10:.1f}..: {judged:6} judged, {accepted / judged:.3f} accepted")


if __name__ == "__main__":
    main()
