"""Time and memory of building and searching a corpus, by hand: python tests/bench/corpora.py MODEL [MILLIONS...]

The text is Python's own standard library with its tests, and then the sources of installed packages, as it comes in
the order of paths, up to so many million tokens (default: 1 and 10).
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import sysconfig
import time
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy

BYTES_PER_TOKEN = 3.6  # about, of such sources with a vocabulary of 50,000; what came of it is printed
NUM_DRAFTS = 2000


def link_sources(folder: Path, num_bytes: float) -> None:
    """Fills a folder with links to sources of so many bytes."""
    library = Path(sysconfig.get_path("stdlib"))
    packages = Path(numpy.__file__).parents[1]
    own = [path for path in sorted(library.rglob("*.py")) if "site-packages" not in path.parts]
    for number, path in enumerate((*own, *sorted(packages.rglob("*.py")))):
        if num_bytes <= 0:
            return
        (folder / f"{number:06}-{path.name}").symlink_to(path)
        num_bytes -= path.stat().st_size
    raise SystemExit("There are not enough sources on this machine; ask for fewer tokens.")


def build(folder: str, output: str, model: str) -> None:
    """Builds a corpus and prints what it took."""
    from cera_core.drafting.corpora.building import build_corpus
    from cera_core.modelfile.gguf import open_model_file
    from cera_core.modelfile.tokenizer import load_tokenizer
    from cera_core.specs import DrafterContext

    with open_model_file(model) as model_file:
        tokenizer = load_tokenizer(model_file)
    context = DrafterContext(
        tokenizer=tokenizer, vocab_size=tokenizer.vocab_size, tokenizer_fingerprint=tokenizer.fingerprint
    )
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    ordering_began = 0.0

    def note(done: int, total: int, step: str) -> None:
        nonlocal ordering_began
        del total
        if (done, step) == (0, "ordering"):
            ordering_began = time.perf_counter()

    report = build_corpus([Path(folder)], Path(output), context, progress=note)
    ended = time.perf_counter()
    print(
        json.dumps(
            {
                "num_tokens": report.header.num_tokens,
                "seconds": round(ended - began, 1),
                "of them ordering and writing": round(ended - ordering_began, 1),
                "seconds a million tokens": round((ended - began) / report.header.num_tokens * 1e6, 1),
                "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
                "of them before": round(peak_before / 1e3),
                "file MB": round(os.path.getsize(output) / 1e6),
            }
        )
    )


def search(path: Path) -> None:
    """Prints what opening and drafting cost, the processor time of the best of five passes."""
    from cera_core.drafting.corpora.file import open_corpus
    from cera_core.speculation.history import History
    from cera_corpus.drafter import CorpusDrafter

    began = time.perf_counter()
    corpus = open_corpus(path)
    print(f"  opening: {1e3 * (time.perf_counter() - began):.2f} ms")
    drafter = CorpusDrafter([corpus])
    for name, tails in histories(corpus.tokens).items():
        views = [History(tail).view() for tail in tails]
        passes = []
        for _ in range(5):
            began = time.thread_time()
            drafts = [drafter.draft(view, 16) for view in views]
            passes.append((time.thread_time() - began) / len(views))
        length = sum(draft.match_length or 0 for draft in drafts) / len(drafts)
        drafted = sum(len(draft.token_ids) for draft in drafts) / len(drafts)
        print(f"  {name}: {1e6 * min(passes):.1f} us a draft, {length:.1f} tokens match, {drafted:.1f} drafted")


def histories(tokens: memoryview) -> dict[str, list[list[int]]]:
    """Returns ends of histories that match long, short and hardly."""
    rng = random.Random(1)
    places = (rng.randrange(64, len(tokens)) for _ in range(4 * NUM_DRAFTS))
    tails = [tail for place in places if min(tail := tokens[place - 64 : place].tolist()) >= 0][:NUM_DRAFTS]
    return {
        "passages of the corpus": tails,
        "four tokens of one after another": [one[:-4] + two[-4:] for one, two in pairwise(tails)],
        "tokens of a passage shuffled": [rng.sample(tail, len(tail)) for tail in tails],
    }


def main(model: str, *millions: str) -> None:
    """Builds and searches a corpus of each size; the builds run in processes of their own."""
    for wanted in map(float, millions or ("1", "10")):
        with TemporaryDirectory() as scratch:
            folder, output = Path(scratch, "sources"), Path(scratch, "sources.corpus")
            folder.mkdir()
            link_sources(folder, wanted * 1e6 * BYTES_PER_TOKEN)
            command = [sys.executable, __file__, "--build", str(folder), str(output), model]
            print(
                f"{wanted:g} million: {subprocess.run(command, capture_output=True, text=True, check=True).stdout}",
                end="",
            )
            search(output)


if __name__ == "__main__":
    if sys.argv[1] == "--build":
        build(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
