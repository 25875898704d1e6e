"""Corpora of token ids, written for a test."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from cera_core.drafting.corpora.building import CorpusTables, write_tables
from cera_core.specs import DrafterContext

VOCAB_SIZE = 262_144


def write_corpus(
    path: Path, documents: Mapping[str, Sequence[int]], fingerprint: str = "", size: int = VOCAB_SIZE
) -> Path:
    """Writes a corpus of documents by name."""
    tables = CorpusTables()
    for name, token_ids in documents.items():
        tables.begin(name)
        tables.extend(token_ids)
        tables.end()
    context = DrafterContext(vocab_size=size, tokenizer_fingerprint=fingerprint)
    with path.open("wb") as file:
        write_tables(file, tables, context)
    return path
