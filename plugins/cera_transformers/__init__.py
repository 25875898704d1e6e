"""Drafters of cera inside `transformers`: `generate` with drafts from text, and no second model.

transformers has no public way to bring a candidate generator of one's own: it makes one of its classes in a method of
the model. `drafting` takes the place of that method while it is entered. The method is not public, so a new version may
have changed it; `pip install 'cera[transformers]'` takes versions like the one this was tested with.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from transformers.generation.candidate_generator import CandidateGenerator

from cera_core.drafting.hosted import HostedDrafter
from cera_core.engine import create_drafter

if TYPE_CHECKING:
    from cera_core.drafter import Drafter

__all__ = ["CeraCandidateGenerator", "drafting"]

SEAM = "_get_candidate_generator"


class CeraCandidateGenerator(CandidateGenerator):  # type: ignore[misc]
    """Guesses with a drafter of cera, for one sequence.

    Args:
        hosted: Asks the drafter.
        max_length: The most tokens of prompt and answer; the forward that verifies a guess brings one more.
    """

    def __init__(self, hosted: HostedDrafter, max_length: int) -> None:
        self._hosted = hosted
        self._max_length = max_length

    def get_candidates(self, input_ids: torch.Tensor, **kwargs: Any) -> tuple[torch.Tensor, None]:
        """Returns the ids, int64[1, n], with the guess behind them; there are no logits of a guess from text."""
        del kwargs
        token_ids = input_ids[0].tolist()
        guess = self._hosted.draft(token_ids, self._max_length - len(token_ids) - 1)
        return torch.cat((input_ids, input_ids.new_tensor([guess])), dim=1) if guess else input_ids, None


@contextmanager
def drafting(
    model: Any, drafter: str | Drafter = "auto", max_draft_tokens: int = 4, **options: Any
) -> Iterator[dict[str, Any]]:
    """Has a model of transformers draft with a drafter of cera.

    with drafting(model, "auto") as drafts:
        model.generate(**inputs, **drafts)

    Args:
        model: A causal language model with a cache that can be cropped.
        drafter: A drafter, or the name of one that is installed.
        max_draft_tokens: The most tokens to guess a round. All of them are verified, whatever that costs.
        **options: Of the drafter, where it is given by name.

    Yields:
        What `generate` must be given to verify guesses at all.
    """
    made = create_drafter(drafter, **options) if isinstance(drafter, str) else drafter
    vocab_size = model.config.get_text_config().vocab_size

    def candidate_generator(*, generation_config: Any, **kwargs: Any) -> CeraCandidateGenerator:
        del kwargs
        hosted = HostedDrafter(made, vocab_size, max_draft_tokens)
        return CeraCandidateGenerator(hosted, generation_config.max_length)

    setattr(model, SEAM, candidate_generator)
    try:
        yield {"prompt_lookup_num_tokens": max_draft_tokens}
    finally:
        delattr(model, SEAM)
