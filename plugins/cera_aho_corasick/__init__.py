"""Aho-Corasick: the rest of a known phrase, once the history ends inside one.

Phrases are what a text is likely to hold word for word: licence headers, boilerplate, the keys of a schema, templates
of tool calls, the names of an API. This module is what cera loads to list the drafter: its options and its spec.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, field_validator, model_validator

from cera_core import DrafterContext, DrafterSpec, PluginOptions, hookimpl
from cera_core.validation import list_of_one

if TYPE_CHECKING:
    from cera_aho_corasick.drafter import AhoCorasickDrafter


class AhoCorasickOptions(PluginOptions):
    """Options of `aho-corasick`."""

    phrases: tuple[str | tuple[int, ...], ...] = Field(
        (), description="Phrases, as text or as lists of token ids; of several that fit, the first is drafted."
    )
    files: Annotated[tuple[Path, ...], BeforeValidator(list_of_one)] = Field(
        (),
        description="Files of phrases: UTF-8 text with a phrase on each line, or '.jsonl' with a string, a list of "
        "token ids, or an object with 'text' or 'token_ids' on each line.",
    )
    compiled: Path | None = Field(
        None, description="A file of tokenised phrases that a drafter with the same tokenizer has saved."
    )
    min_match: int = Field(
        2, ge=1, le=255, description="Draft only where the history ends with at least this many tokens of a phrase."
    )
    max_match: int = Field(
        32, ge=1, le=255, description="Tell phrases apart by at most this many tokens; memory grows with it."
    )

    @field_validator("phrases", mode="before")
    @classmethod
    def _texts_or_ids(cls, value: object) -> object:
        if isinstance(value, list | tuple) and not all(isinstance(phrase, str | list | tuple) for phrase in value):
            raise ValueError("must hold texts, or lists of token ids")
        return value

    @model_validator(mode="after")
    def _min_is_at_most_max(self) -> AhoCorasickOptions:
        if self.min_match > self.max_match:
            raise ValueError(
                f"'min_match' must be at most 'max_match', found {self.min_match} and {self.max_match}; "
                "lower the one or raise the other"
            )
        return self


def _create(options: AhoCorasickOptions, context: DrafterContext) -> AhoCorasickDrafter:
    """Makes the drafter and compiles its phrases."""
    from cera_aho_corasick.drafter import AhoCorasickDrafter  # noqa: PLC0415  # loaded when first needed
    from cera_aho_corasick.index import PhraseIndex  # noqa: PLC0415
    from cera_aho_corasick.phrases import load_phrases, tokenise  # noqa: PLC0415
    from cera_core.drafting.sources import given_sources, read_sources  # noqa: PLC0415

    phrases = load_phrases(options.compiled, context) if options.compiled else []
    sources = given_sources("phrases", options.phrases)
    for path in options.files:
        sources += read_sources(path, one_a_line=True)
    for source in sources:
        phrases += tokenise(source, context)
    index = PhraseIndex(phrases, options.min_match, options.max_match)
    return AhoCorasickDrafter(index, context.tokenizer_fingerprint)


@hookimpl
def cera_register_drafters(register: Callable[[DrafterSpec], None]) -> None:
    """Hands `aho-corasick` over to cera."""
    register(
        DrafterSpec(
            name="aho-corasick",
            summary="The rest of a phrase from a given list, once the text is inside one.",
            options=AhoCorasickOptions,
            create=_create,
        )
    )
