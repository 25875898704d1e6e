"""Plain and drafted generation side by side: how much faster is copying, and does prose lose anything?

    python tests/bench/bench_drafting.py --backend numpy --repeats 5

Plain and drafted runs take turns in one process; the first turn is dropped. For each task the ratio of speeds is taken
turn by turn, and its median, lowest and highest are printed. Prefill is not part of the figures.
"""

from __future__ import annotations

import argparse
from statistics import median

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
TASKS = {
    **RAW_TASKS,
    "prose": "Write a short story about a lighthouse keeper who finds a letter.",
    "question": "Why is the sky blue? Explain it to a child.",
}


def measure(engine: cera_core.Engine, task: str, drafter: str | None, max_tokens: int) -> cera_core.Generation:
    prompt = TASKS[task]
    if task in RAW_TASKS:
        return engine.generate(prompt, drafter=drafter, max_tokens=max_tokens)
    return engine.chat([{"role": "user", "content": prompt}], drafter=drafter, max_tokens=max_tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--drafter", default="auto")
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    engine = cera_core.load(arguments.model, backend=arguments.backend)
    print(f"{arguments.model}, {type(engine.model).__name__}, drafter {arguments.drafter}, {arguments.repeats} turns")
    print("| task | plain tokens/s | drafted tokens/s | speed-up (lowest to highest) | accepted/drafted | same text |")
    print("|---|---|---|---|---|---|")
    for task in TASKS:
        pairs = []
        for _ in range(arguments.repeats + 1):
            plain = measure(engine, task, None, arguments.max_tokens)
            pairs.append((plain, measure(engine, task, arguments.drafter, arguments.max_tokens)))
        pairs = pairs[1:]
        ratios = [drafted.stats.tokens_per_second / plain.stats.tokens_per_second for plain, drafted in pairs]
        same = all(plain.token_ids == drafted.token_ids for plain, drafted in pairs)
        stats = pairs[-1][1].stats
        print(
            f"| {task} | {median(plain.stats.tokens_per_second for plain, _ in pairs):.1f} "
            f"| {median(drafted.stats.tokens_per_second for _, drafted in pairs):.1f} "
            f"| {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
            f"| {stats.num_accepted}/{stats.num_drafted} | {'yes' if same else 'no'} |"
        )


if __name__ == "__main__":
    main()
