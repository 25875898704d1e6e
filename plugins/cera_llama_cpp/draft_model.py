"""A drafter of cera as the `draft_model` of `llama_cpp.Llama`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llama_cpp.llama_speculative import LlamaDraftModel

from cera_core.drafting.hosted import HostedDrafter
from cera_core.engine import create_drafter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cera_core.drafter import Drafter


class CeraDraftModel(LlamaDraftModel):  # type: ignore[misc]
    """Guesses with a drafter of cera.

    vocab_size = Llama(path, vocab_only=True).n_vocab()
    Llama(path, draft_model=CeraDraftModel("auto", vocab_size))

    Args:
        drafter: A drafter, or the name of one that is installed.
        vocab_size: Number of token ids of the model: llama.cpp fails on any other, and does not say how many there are.
        max_draft_tokens: The most tokens to guess a round. The host verifies all of them, whatever that costs.
        **options: Of the drafter, where it is given by name.

    Attributes:
        hosted: Asks the drafter; its `guard` counts faults.
    """

    def __init__(self, drafter: str | Drafter, vocab_size: int, max_draft_tokens: int = 4, **options: Any) -> None:
        made = create_drafter(drafter, **options) if isinstance(drafter, str) else drafter
        self.hosted = HostedDrafter(made, vocab_size, max_draft_tokens)

    def __call__(self, input_ids: NDArray[np.intc], /, **kwargs: Any) -> NDArray[np.intc]:
        """Returns the guess for what follows the ids; empty for none."""
        del kwargs
        return np.array(self.hosted.draft(input_ids.tolist()), np.intc)
