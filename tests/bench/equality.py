"""Is the text with drafts the text without, token for token and bit for bit, over a thousand tokens?

    python tests/bench/equality.py smollm2-135m --tokens 1000
    python tests/bench/equality.py qwen2.5-coder-0.5b --prompts both

Every drafter drafts 1, 8 and 15 tokens a round and adaptively, greedy and sampled, on text that copies and on text that
does not. Prints a table for the documentation. Ends with an error where anything differs, or where a drafter had
nothing accepted or nothing rejected, for then its equality proves nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import cera_core
from cera_core.instruments.equality import Comparison, compare
from cera_core.testing.drafters import RandomDrafter

LIST = """Ada Brook, Mill Lane 11, Ely
Ben Carter, Station Road 12, Hull
Cleo Dean, Church Street 13, Bath
Dan Evans, High Street 14, Leeds
Eva Finch, Park Avenue 15, York
Fay Green, Bridge Street 16, Wells"""
PROMPTS = {
    "copy": f"{LIST}\n\nThe same list once more, word for word:\n\n{LIST.splitlines()[0]}\n",
    "prose": "It was the last day of summer when the keeper of the lighthouse found a letter in a bottle. He",
    "both": f"{LIST}\n\nThe same list once more, then a story about the people in it:\n\n{LIST.splitlines()[0]}\n",
}
SAMPLINGS = {
    "greedy": {"frequency_penalty": 0.1},  # without it greedy text soon goes in a circle, where every guess is right
    "sampled": {"temperature": 0.8, "top_p": 0.95, "seed": 7},
}
NAMED_DRAFTERS = ("prompt-lookup", "suffix-automaton", "auto")
PHRASE_LENGTH = 12
PHRASE_DISTANCE = 40


@dataclass
class Row:
    """What one drafter did over all budgets, prompts and samplings."""

    num_runs: int = 0
    num_tokens: int = 0
    accepted: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    differing: list[Comparison] = field(default_factory=list)

    def add(self, comparison: Comparison) -> None:
        self.num_runs += 1
        self.num_tokens += comparison.num_tokens
        self.accepted[comparison.sampling] += comparison.num_accepted
        self.rejected[comparison.sampling] += comparison.num_rejected
        if comparison.divergence is not None:
            self.differing.append(comparison)

    @property
    def proves_equality(self) -> bool:
        return not self.differing and all(counts[key] for counts in (self.accepted, self.rejected) for key in SAMPLINGS)


def phrases_from(token_ids: Sequence[int]) -> list[list[int]]:
    """Cuts phrases out of a text, every second with another end, so that some of what they guess is wrong."""
    phrases = []
    for number, start in enumerate(range(0, len(token_ids) - PHRASE_LENGTH, PHRASE_DISTANCE)):
        phrase = list(token_ids[start : start + PHRASE_LENGTH])
        phrases.append(phrase[:-4] + phrase[:4] if number % 2 else phrase)
    return phrases


def table_of(engine: cera_core.Engine, prompts: Sequence[str], num_tokens: int) -> dict[str, Row]:
    """Compares on every prompt in every sampling, a line to standard error for each run."""
    table: dict[str, Row] = defaultdict(Row)
    for prompt, (sampling, how) in product(prompts, SAMPLINGS.items()):
        ids = engine.tokenizer.encode(PROMPTS[prompt])
        options = {**how, "max_tokens": num_tokens, "ignore_eos": True}
        text = engine.generate(ids, drafter=None, **options).token_ids
        drafters = {
            **{name: name for name in NAMED_DRAFTERS},
            "aho-corasick": cera_core.create_drafter("aho-corasick", phrases=phrases_from(text)),
            "random ids": RandomDrafter(engine.model.config.vocab_size, share_of_history=0.5),
        }
        for comparison in compare(engine, ids, drafters, {sampling: options}):
            table[comparison.drafter].add(comparison)
            print(f"{prompt}: {comparison}", file=sys.stderr, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--backend", default="native")
    parser.add_argument("--exact", action="store_true", help="the NumPy backend's exact mode")
    parser.add_argument("--tokens", type=int, default=1000)
    parser.add_argument("--prompts", nargs="+", choices=PROMPTS, default=["copy", "prose"])
    arguments = parser.parse_args()
    backend_options = {"exact": True} if arguments.exact else {}
    engine = cera_core.load(
        arguments.model, backend=arguments.backend, backend_options=backend_options, context_length=2048
    )
    start = time.perf_counter()
    table = table_of(engine, arguments.prompts, arguments.tokens)
    print(f"{arguments.model}, {arguments.backend}, {arguments.tokens} tokens a run, {', '.join(arguments.prompts)}\n")
    print("| drafter | runs | equal | tokens | greedy: accepted / rejected | sampled: accepted / rejected |")
    print("|---|---|---|---|---|---|")
    for name, row in table.items():
        counts = " | ".join(f"{row.accepted[key]:,} / {row.rejected[key]:,}" for key in SAMPLINGS)
        num_equal = row.num_runs - len(row.differing)
        print(f"| {name} | {row.num_runs} | {num_equal} | {row.num_tokens:,} | {counts} |")
    print(f"\n{time.perf_counter() - start:.0f} s")
    if not all(row.proves_equality for row in table.values()):
        sys.exit("Something differs, or a drafter had nothing accepted or nothing rejected.")


if __name__ == "__main__":
    main()
