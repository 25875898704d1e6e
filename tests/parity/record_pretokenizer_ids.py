"""Records what llama.cpp makes of texts with each pre-tokenizer: writes pretokenizer_ids.json.

    PYTHONPATH=tests python tests/parity/record_pretokenizer_ids.py

All use one vocabulary, trained here without any cutting of text, so that its merges reach across every place where a
pre-tokenizer may cut: another cut gives other ids. Needs `xllamacpp` and the packages of the tests.

Texts with marks that combine are left out: llama.cpp's regexes for the families of gpt-4o and tekken drop `\\p{M}`,
which the published ones have. So are odd kinds of whitespace, which its deepseek ones confuse with one another.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from unittest import mock

from llama_cpp_server import ENGINE, LlamaCppServer, write_fixture
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from cera_core.modelfile.pretokenizers import PRETOKENIZERS
from support import tiny_gguf
from support.tiny_vocabulary import byte_level_alphabet, vocabulary_of_merges

FOLDER = Path(__file__).parent
TEXTS = (
    *("contractions", "capitals", "numbers", "numbers in words", "tabs", "newlines", "spaces before newline", "python"),
    *("typographic quotes", "punctuation runs", "mixed scripts", "japanese", "russian", "mathematics", "html"),
)
SIZE = 1000


def train(texts: list[str]) -> list[str]:
    trained = Tokenizer(BPE())
    trained.pre_tokenizer = ByteLevel(add_prefix_space=False, use_regex=False)
    windows = [text[start : start + 24] for text in texts for start in range(0, len(text), 12)]
    trainer = BpeTrainer(
        vocab_size=SIZE, min_frequency=1, initial_alphabet=byte_level_alphabet(), special_tokens=[], show_progress=False
    )
    trained.train_from_iterator(windows, trainer)
    return [" ".join(pair) for pair in json.loads(trained.to_str())["model"]["merges"]]


def main() -> None:
    all_texts = json.loads((FOLDER / "tokenizer_texts.json").read_text(encoding="utf-8"))
    texts = {name: all_texts[name] for name in TEXTS}
    merges = train(list(texts.values()))
    vocabulary = vocabulary_of_merges(merges)
    names = {pretokenizer: name for name, pretokenizer in reversed(PRETOKENIZERS.items())}
    ids = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        for name in reversed(names.values()):
            with mock.patch.object(tiny_gguf, "tiny_vocabulary", return_value=vocabulary):
                tiny_gguf.write_tiny_gguf(path, pre_tokeniser=name, vocab_size=len(vocabulary.tokens))
            server = LlamaCppServer(path)
            ids[name] = {text_name: server.encode(text) for text_name, text in texts.items()}
    write_fixture(FOLDER / "pretokenizer_ids.json", {"engine": ENGINE, "merges": merges, "ids": ids})


if __name__ == "__main__":
    main()
