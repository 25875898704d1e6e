"""Prints what a drafter costs: microseconds and bytes a token at several lengths of history, for several kinds of text.

Feeding at once is what a prompt costs, step by step what each generated token costs with its draft. Run it from the
project's root: `python tests/bench/drafter_costs.py [--lengths 10000 100000]`
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

from cera_aho_corasick.drafter import AhoCorasickDrafter
from cera_aho_corasick.index import PhraseIndex
from cera_core.drafter import Drafter
from cera_core.speculation.history import History
from cera_prompt_lookup import PromptLookupDrafter
from cera_suffix_automaton.drafter import SuffixAutomatonDrafter


def some_phrases() -> list[list[int]]:
    rng = random.Random(4)
    return [[int(50_000 ** rng.random()) for _ in range(12)] for _ in range(2_000)]


DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "prompt-lookup": PromptLookupDrafter,
    "suffix-automaton": SuffixAutomatonDrafter,
    "aho-corasick": partial(AhoCorasickDrafter, PhraseIndex(some_phrases(), 2, 32)),
}


def constant_run(length: int) -> list[int]:
    return [7] * length


def random_ids(length: int) -> list[int]:
    rng = random.Random(1)
    return [rng.randrange(150_000) for _ in range(length)]


def like_text(length: int) -> list[int]:
    """Makes ids with a Zipf-like distribution in which a third of the text copies passages from before."""
    rng = random.Random(2)
    tokens: list[int] = []
    while len(tokens) < length:
        if len(tokens) > 100 and rng.random() < 0.03:
            start = rng.randrange(len(tokens) - 50)
            tokens += tokens[start : start + rng.randrange(5, 50)]
        else:
            tokens.append(int(50_000 ** rng.random()))
    return tokens[:length]


def broken_runs(length: int) -> list[int]:
    """Makes two long runs of one token."""
    return [7] * (length // 2) + [8] + [7] * (length - length // 2 - 1)


def two_letters(length: int) -> list[int]:
    rng = random.Random(3)
    return [rng.randrange(2) for _ in range(length)]


TEXTS = (like_text, random_ids, two_letters, constant_run, broken_runs)


def at_once(make: Callable[[], Drafter], tokens: list[int]) -> float:
    drafter, view = make(), History(tokens).view()
    began = time.process_time()
    drafter.draft(view, 8)
    return time.process_time() - began


def step_by_step(make: Callable[[], Drafter], tokens: list[int]) -> float:
    drafter, history = make(), History()
    seconds = 0.0
    for token_id in tokens:
        history.append(token_id)
        view = history.view()
        began = time.process_time()
        drafter.draft(view, 8)
        seconds += time.process_time() - began
    return seconds


def memory(make: Callable[[], Drafter], tokens: list[int]) -> tuple[int, int]:
    """Returns the bytes a drafter holds: traced, and as it says itself."""
    history = History(tokens).view()
    gc.collect()
    tracemalloc.start()
    drafter = make()
    drafter.draft(history, 8)
    gc.collect()
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return traced, drafter.memory_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--only", default="", help="only drafters whose name contains this")
    options = parser.parse_args()
    print(
        f"{'drafter':28} {'text':14} {'tokens':>8} {'us at once':>11} {'us a step':>10} {'bytes':>7} {'own count':>10}"
    )
    for name, make in DRAFTERS.items():
        if options.only not in name:
            continue
        for text in TEXTS:
            for length in options.lengths:
                tokens = text(length)
                batch, steps = 1e6 * at_once(make, tokens) / length, 1e6 * step_by_step(make, tokens) / length
                traced, own = (count / length for count in memory(make, tokens))
                print(f"{name:28} {text.__name__:14} {length:8} {batch:11.2f} {steps:10.2f} {traced:7.0f} {own:10.0f}")


if __name__ == "__main__":
    main()
