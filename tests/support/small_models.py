"""Models that give a token's logits the same bits however many tokens share a forward, small enough for any test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import cera_core
import cera_numpy
from cera_core.discovery import discover
from cera_core.drafter import Drafter
from cera_core.generation import Generation
from cera_core.generation_options import GenerationOptions
from cera_core.model import Model
from cera_core.modelfile.gguf import open_model_file
from cera_core.session import Session
from cera_core.testing.drafters import OracleDrafter, RandomDrafter
from cera_core.testing.fakes import TableModel
from support import native
from support.corpora import write_corpus
from support.sessions import CheapRows
from support.tiny_gguf import write_tiny_gguf

NAMES = ("table", "numpy", "native")
"""A table of logits, and the backends of model files that promise to be batch-invariant."""


@dataclass(frozen=True)
class SmallModel:
    """A model with a prompt that its text goes on from, and options that keep the text to a few different tokens.

    Else the text of random weights would never repeat itself, and drafters that copy would have nothing to guess.
    """

    name: str
    model: Model
    prompt: tuple[int, ...]
    options: GenerationOptions

    @property
    def vocab_size(self) -> int:
        return self.model.config.vocab_size

    def session(self, **parts: Any) -> Session:
        session = Session(self.model, costs=CheapRows(), options=self.options, **parts)
        session.append(self.prompt)
        return session

    def plain(self, **options: Any) -> Generation:
        return self.session().generate(drafter=None, **options)

    def mostly_right(self, text: Sequence[int], wrong_every: int = 5) -> OracleDrafter:
        """Guesses a text that goes on from the prompt, wrong at times."""
        return OracleDrafter([*self.prompt, *text], self.vocab_size, wrong_every)

    def drafters(self, text: Sequence[int]) -> dict[str, Drafter]:
        """Every installed drafter, `auto`, one of random ids, one mostly right and one always wrong about a text."""
        installed = {name: cera_core.create_drafter(name, **options_of(name, text)) for name in drafter_names()}
        return {
            **installed,
            "random ids": RandomDrafter(self.vocab_size, share_of_history=0.5),
            "mostly right": self.mostly_right(text),
            "always wrong": self.mostly_right(text, wrong_every=1),
        }


def drafter_names() -> list[str]:
    """Returns the names of all installed drafters, and `auto`."""
    return [*discover().drafters, "auto"]


def options_of(name: str, text: Sequence[int]) -> Mapping[str, Any]:
    """Returns with what options a drafter guesses early and often in a text, some of it wrong."""
    pieces = [list(text[start : start + 8]) for start in range(0, len(text), 8)]
    phrases = [piece if number % 2 else piece[:5] + piece[:3] for number, piece in enumerate(pieces)]
    options: dict[str, Mapping[str, Any]] = {
        "aho-corasick": {"phrases": phrases},
        "corpus": {"files": [_corpus_of(tuple(map(tuple, phrases)))], "min_match": 1} if phrases else {},
        "prompt-lookup": {"ngram_min": 1},
        "suffix-automaton": {"min_match": 1},
    }
    return options.get(name, {})


@cache
def _corpus_of(documents: tuple[tuple[int, ...], ...]) -> Path:
    """Writes a corpus to a folder that the system removes."""
    named = {str(number): document for number, document in enumerate(documents)}
    return write_corpus(Path(mkdtemp(prefix="cera-test-")) / "text.corpus", named)


def small_model(name: str, folder: Path) -> SmallModel:
    """Makes one of `NAMES`; a model file is written into a folder once."""
    if name == "table":
        return SmallModel(name, TableModel(max_seq_len=512), tuple(range(16)), GenerationOptions())
    path = folder / "tiny.gguf"
    model = model_on(name, path if path.exists() else write_tiny_gguf(path, seed=2))
    few_tokens = GenerationOptions(logit_bias=dict.fromkeys(range(60, 66), 50.0), frequency_penalty=0.2)
    return SmallModel(name, model, (*range(50, 70), *range(50, 70)), few_tokens)


def model_on(name: str, path: Path) -> Model:
    """Loads a file with a backend in the mode in which it is batch-invariant."""
    if name == "native":
        native.skip_without_extension()
        return native.load(path, threads=1)
    with open_model_file(path) as model_file:
        return cera_numpy.load(model_file, cera_numpy.NumpyOptions(exact=True))
