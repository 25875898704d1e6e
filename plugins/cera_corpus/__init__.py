"""Corpus: what followed the longest suffix of the history in documents that `cera corpus build` made ready.

This module is what cera loads to list the drafter: its options and its spec.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field

from cera_core import DrafterContext, DrafterSpec, PluginOptions, hookimpl
from cera_core.validation import list_of_one

if TYPE_CHECKING:
    from cera_corpus.drafter import CorpusDrafter


class CorpusOptions(PluginOptions):
    """Options of `corpus`."""

    files: Annotated[tuple[Path, ...], BeforeValidator(list_of_one)] = Field(
        (), description="Files that 'cera corpus build' made with the model's tokenizer; the longest match wins."
    )
    min_match: int = Field(2, ge=1, description="Draft only where at least this many tokens match.")
    tokens_per_match: float = Field(
        1.0, gt=0, allow_inf_nan=False, description="Draft this many tokens for each token that matches, at least one."
    )


def _create(options: CorpusOptions, context: DrafterContext) -> CorpusDrafter:
    """Makes the drafter and opens its corpora."""
    from cera_core.drafting.corpora.file import open_corpus  # noqa: PLC0415  # loaded when first needed
    from cera_corpus.drafter import CorpusDrafter  # noqa: PLC0415

    corpora = [open_corpus(path, context.tokenizer_fingerprint) for path in options.files]
    return CorpusDrafter(corpora, options.min_match, options.tokens_per_match)


@hookimpl
def cera_register_drafters(register: Callable[[DrafterSpec], None]) -> None:
    """Hands `corpus` over to cera."""
    register(
        DrafterSpec(
            name="corpus",
            summary="What most often followed the longest match in a corpus of documents.",
            options=CorpusOptions,
            create=_create,
        )
    )
