"""Plain values that cross the border between cera and its plugins. No logic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from cera_core.drafter import Draft, Drafter
    from cera_core.model import Model
    from cera_core.modelfile.gguf import ModelFile
    from cera_core.speculation.stats import SpecStats


MAX_VOCAB_SIZE = 2**31
"""Every token id is below it, as ids are held in 32 bits: what holds where the vocabulary is not known."""


class PluginOptions(BaseModel):
    """Base of a plugin's options: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Tokenizer(Protocol):
    """Text to token ids and back, as a drafter or a session sees it."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids."""

    @property
    def fingerprint(self) -> str:
        """Names the vocabulary: two tokenizers of one fingerprint give the same ids for the same text."""

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Turns text into ids.

        Args:
            text: Any Unicode text.
            add_special: Put the beginning-of-sequence token first if the model file asks for it.
            parse_special: Read the names of control tokens in `text` as those tokens.
        """

    def decode(self, token_ids: Sequence[int]) -> str:
        """Turns ids into text; bytes that are no UTF-8 become U+FFFD, control tokens nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterContext:
    """What a drafter may want to know when it is made; each is None when it is made outside an engine."""

    tokenizer: Tokenizer | None = None
    vocab_size: int | None = None
    tokenizer_fingerprint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterSpec:
    """A drafter that can be chosen by name.

    Attributes:
        name: In kebab-case.
        summary: One line for listings.
        options: The model its options are checked with; every field has a default.
        create: Makes a drafter from checked options; raises `InvalidInputError` for a file or value it cannot use.
    """

    name: str
    summary: str
    create: Callable[[Any, DrafterContext], Drafter]
    options: type[BaseModel] = PluginOptions


def always_available() -> str | None:
    """Says that nothing stands in the way."""
    return None


def any_file(model_file: ModelFile) -> None:
    """Finds nothing wrong with a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model backend that can be chosen by name.

    Attributes:
        name: In kebab-case.
        summary: One line for listings.
        options: The model its options are checked with; every field has a default.
        load: Makes a model from an open model file and checked options.
        availability: Returns why the backend cannot run here and what would help, or None if it can.
        check_file: Raises the `ModelFileError` that `load` would raise for an open file, without reading its weights.
        priority: `auto` takes the available backend with the highest.
    """

    name: str
    summary: str
    load: Callable[[ModelFile, Any], Model]
    options: type[BaseModel] = PluginOptions
    availability: Callable[[], str | None] = always_available
    check_file: Callable[[ModelFile], None] = any_file
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEvent:
    """One round of the loop, for observers.

    Attributes:
        position: Length of the history before the round.
        token_ids: The tokens the round committed.
        num_drafted: Draft tokens verified; 0 for a plain step.
        num_accepted: Draft tokens the model agreed with.
        drafter: Name of the drafter whose draft was verified; None for a plain step.
        source: Where the draft came from, if the drafter says.
        skip_reason: Why nothing was drafted, or None.
        draft_seconds: Time the drafter took.
        verify_seconds: Time the model took.
        guess: What the drafter guessed, of which the draft is the beginning; None if it was not asked or had none.
        chances: For each token of the guess up to a stop token the chance that it is accepted given those before it,
            as the draft budget saw it; empty where the budget did not decide.
        steps: What forwards of 1, 2, ... rows cost in plain steps, as the draft budget saw it; likewise.
        step_seconds: What a plain step takes in a context of this length; None if that was not measured lately.
    """

    position: int
    token_ids: tuple[int, ...]
    num_drafted: int
    num_accepted: int
    drafter: str | None
    source: str | None
    skip_reason: str | None
    draft_seconds: float
    verify_seconds: float
    guess: Draft | None = None
    chances: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()
    step_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationEvent:
    """A generation that ended, for observers."""

    token_ids: tuple[int, ...]
    finish_reason: str
    stats: SpecStats = field(repr=False)
