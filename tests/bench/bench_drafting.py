"""Plain and drafted generation side by side: how much faster is copying, and does prose lose anything?

    python tests/bench/bench_drafting.py --backend numpy --repeats 5

Plain, adaptively drafted and runs with fixed draft lengths take turns in one process; the first turn is dropped. For
each task the ratio of speeds is taken turn by turn, and its median is printed, of the adaptive runs also the lowest and
highest. Prefill is not part of the figures.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import cera_core

CONTACTS = "\n".join(
    f"{name}, {street} {number}, {town}"
    for number, (name, street, town) in enumerate(
        [
            ("Ada Brook", "Mill Lane", "Ely"),
            ("Ben Carter", "Station Road", "Hull"),
            ("Cleo Dean", "Church Street", "Bath"),
            ("Dan Evans", "High Street", "Leeds"),
            ("Eva Finch", "Park Avenue", "York"),
            ("Fay Green", "Bridge Street", "Wells"),
        ],
        start=11,
    )
)
RAW_TASKS = {"copy": f"{CONTACTS}\n\nThe same list once more:\n\n{CONTACTS.splitlines()[0]}\n"}
"""Continued as they are; the others go through the chat template."""
CODE = """def total(prices, discount):
    result = 0
    for price in prices:
        result = result + price * (1 - discount)
    return result


def largest(prices):
    result = prices[0]
    for price in prices:
        if price > result:
            result = price
    return result
"""
TASKS = {
    **RAW_TASKS,
    "code edit": f"Rename the variable 'result' to 'answer' in this file and give the whole file:\n\n{CODE}",
    "quoting": f"Repeat this list of contacts word for word, without a comment:\n\n{CONTACTS}",
    "prose": "Write a short story about a lighthouse keeper who finds a letter.",
    "question": "Why is the sky blue? Explain it to a child.",
}
FIXED_LENGTHS = (1, 2, 4, 8, 15)


def measure(engine: cera_core.Engine, task: str, **options: Any) -> cera_core.Generation:
    prompt = TASKS[task]
    if task in RAW_TASKS:
        return engine.generate(prompt, **options)
    return engine.chat([{"role": "user", "content": prompt}], **options)


def ways_to_draft(drafter: str) -> dict[str, dict[str, Any]]:
    """Returns options of a generation by name; the first is plain, the second adaptive."""
    fixed = {f"k = {k}": {"drafter": drafter, "adaptive": False, "max_draft_tokens": k} for k in FIXED_LENGTHS}
    return {"plain": {"drafter": None}, "adaptive": {"drafter": drafter}, **fixed}


def speed_ups(turns: Sequence[Mapping[str, cera_core.Generation]], way: str) -> list[float]:
    """Returns the speed of one way by the plain one of the same turn, for each turn."""
    return [turn[way].stats.tokens_per_second / turn["plain"].stats.tokens_per_second for turn in turns]


def row(task: str, turns: Sequence[Mapping[str, cera_core.Generation]]) -> str:
    """Returns the line of a task in the table."""
    ratios = speed_ups(turns, "adaptive")
    fixed = {way: median(speed_ups(turns, way)) for way in turns[0] if way not in ("plain", "adaptive")}
    best = max(fixed, key=fixed.__getitem__)
    same = all(found.token_ids == turn["plain"].token_ids for turn in turns for found in turn.values())
    stats = turns[-1]["adaptive"].stats
    return (
        f"| {task} | {median(turn['plain'].stats.tokens_per_second for turn in turns):.1f} "
        f"| {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
        f"| {', '.join(f'{ratio:.2f}' for ratio in fixed.values())} "
        f"| {median(ratios) / max(1.0, fixed[best]):.2f} of {best if fixed[best] > 1 else 'plain'} "
        f"| {stats.num_accepted}/{stats.num_drafted} | {'yes' if same else 'no'} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--drafter", default="auto")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    arguments = parser.parse_args()
    engine = cera_core.load(arguments.model, backend=arguments.backend)
    ways = ways_to_draft(arguments.drafter)
    print(f"{arguments.model}, {type(engine.model).__name__}, drafter {arguments.drafter}, {arguments.repeats} turns")
    print(
        f"| task | plain tokens/s | adaptive speed-up (lowest to highest) | k = {', '.join(map(str, FIXED_LENGTHS))} "
        "| of the best fixed length | accepted/drafted | same text |"
    )
    print("|---|---|---|---|---|---|---|")
    for task in arguments.tasks:
        turns = [
            {way: measure(engine, task, max_tokens=arguments.max_tokens, **options) for way, options in ways.items()}
            for _ in range(arguments.repeats + 1)
        ]
        print(row(task, turns[1:]), flush=True)


if __name__ == "__main__":
    main()
