"""Suffix automaton: what followed the longest suffix of the history that occurred before, in the session or in texts.

This module is what cera loads to list the drafter: its options and its spec.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from cera_core import DrafterContext, DrafterSpec, PluginOptions, hookimpl

if TYPE_CHECKING:
    from cera_suffix_automaton.drafter import SuffixAutomatonDrafter


class SuffixAutomatonOptions(PluginOptions):
    """Options of `suffix-automaton`."""

    min_match: int = Field(1, ge=1, description="Draft only where at least this many tokens match.")
    occurrence: Literal["most-recent", "most-frequent", "earliest"] = Field(
        "most-recent", description="Of several earlier occurrences of the match, the one to go on from."
    )
    tokens_per_match: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="Draft at most this many tokens for each token that matches, and one more.",
    )
    texts: tuple[str | tuple[int, ...], ...] = Field(
        (), description="Texts, or lists of token ids, that the answer may resemble."
    )
    files: tuple[Path, ...] = Field(
        (),
        description="Files of such texts: plain UTF-8 text, or '.jsonl' with a string, a list of token ids, or an "
        "object with 'text' or 'token_ids' on each line.",
    )


def _create(options: SuffixAutomatonOptions, context: DrafterContext) -> SuffixAutomatonDrafter:
    """Makes the drafter, and the automaton of its texts if there are any."""
    from cera_core.drafting.sources import given_sources, read_sources  # noqa: PLC0415  # loaded when first needed
    from cera_suffix_automaton.corpus import Corpus  # noqa: PLC0415
    from cera_suffix_automaton.drafter import SuffixAutomatonDrafter  # noqa: PLC0415

    sources = given_sources("texts", options.texts)
    for path in options.files:
        sources += read_sources(path, one_a_line=False)
    texts = [(source.place, source.token_ids(context)) for source in sources]
    corpus = Corpus(texts, options.min_match) if texts else None
    return SuffixAutomatonDrafter(options.min_match, options.occurrence, options.tokens_per_match, corpus)


@hookimpl
def cera_register_drafters(register: Callable[[DrafterSpec], None]) -> None:
    """Hands `suffix-automaton` over to cera."""
    register(
        DrafterSpec(
            name="suffix-automaton",
            summary="What followed the longest earlier match, in the session or in given texts.",
            options=SuffixAutomatonOptions,
            create=_create,
        )
    )
