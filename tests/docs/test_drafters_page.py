"""The page about the drafters names them all, and the defaults they have."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from cera_aho_corasick import AhoCorasickOptions
from cera_corpus import CorpusOptions
from cera_prompt_lookup import PromptLookupOptions
from cera_suffix_automaton import SuffixAutomatonOptions

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "drafters.md").read_text(encoding="utf-8")

STATED = [
    ("prompt-lookup", PromptLookupOptions(), ("ngram_max", "ngram_min")),
    ("suffix-automaton", SuffixAutomatonOptions(), ("min_match", "tokens_per_match")),
    ("corpus", CorpusOptions(), ("min_match", "tokens_per_match")),
    ("aho-corasick", AhoCorasickOptions(), ("min_match", "max_match")),
]


@pytest.mark.parametrize(
    ("name", "options", "fields"), STATED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_defaults_on_the_page_are_the_live_ones(name: str, options: BaseModel, fields: tuple[str, ...]) -> None:
    assert f"\n## {name}\n" in PAGE
    first, second = (f"`{field}` = {getattr(options, field)}" for field in fields)
    assert f"`{name}` has {first} and {second}" in " ".join(PAGE.split())
