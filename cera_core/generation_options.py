"""What can be asked of one generation: the single list behind keyword arguments, `[generation]`, `CERA_*` and flags.

It knows nothing of how an option is carried out, nor of layers of settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from cera_core.validation import list_of_one, validated

DEFAULT_MAX_DRAFT_TOKENS = 15
"""The most tokens drafted a round where neither caller nor drafter says: 16 rows with the token before them."""

LARGEST_MAX_DRAFT_TOKENS = 1024
MAX_SEED = 2**63 - 1  # the largest integer a TOML file can hold


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _none_from_text(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() == "none" else value


Int = Annotated[int, BeforeValidator(_no_truth_value)]
TokenId = Annotated[Int, Field(ge=0)]
Float = Annotated[float, BeforeValidator(_no_truth_value), Field(allow_inf_nan=False)]
OptionalInt = Annotated[Int | None, BeforeValidator(_none_from_text)]
"""A whole number, or None, which a file, a variable or a flag writes as the text `none`."""
OptionalText = Annotated[str | None, BeforeValidator(_none_from_text)]
"""A text, or None, written likewise."""


class GenerationOptions(BaseModel):
    """How one generation is sampled, where it ends, and how it is drafted. The default is greedy."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_tokens: Int = Field(default=256, ge=0, description="The most tokens to generate.")
    temperature: Float = Field(
        default=0.0,
        ge=0,
        description="Divides the logits before sampling. 0 is greedy: top_k, top_p, min_p and seed then do nothing.",
    )
    top_k: Int = Field(default=0, ge=0, description="Sample from this many of the likeliest tokens only. 0 is off.")
    top_p: Float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="Sample from the likeliest tokens whose probabilities add up to this share. 1 is off.",
    )
    min_p: Float = Field(
        default=0.0, ge=0, le=1, description="Drop tokens less likely than this share of the likeliest one's. 0 is off."
    )
    seed: OptionalInt = Field(
        default=None,
        ge=0,
        le=MAX_SEED,
        description="Seed of the random draws. `none` draws one, and the result records it.",
    )
    repetition_penalty: Float = Field(
        default=1.0,
        gt=0,
        description="Above 1, makes tokens of the prompt and the output less likely; below 1, likelier. 1 is off.",
    )
    presence_penalty: Float = Field(
        default=0.0, ge=-2, le=2, description="Is subtracted once from the logit of each token in the output. 0 is off."
    )
    frequency_penalty: Float = Field(
        default=0.0,
        ge=-2,
        le=2,
        description="Is subtracted from a token's logit for each time it is in the output. 0 is off.",
    )
    logit_bias: dict[TokenId, float] = Field(
        default={},
        description="Is added to the logits of these token ids; in text `ID=BIAS,ID=BIAS`. -inf bans a token.",
    )
    stop: Annotated[tuple[str, ...], BeforeValidator(list_of_one)] = Field(
        default=(), description="Texts that end the generation. The text returned ends before them."
    )
    stop_token_ids: tuple[TokenId, ...] = Field(
        default=(), description="Token ids that end the generation, besides the model's own; in text `ID,ID`."
    )
    min_tokens: Int = Field(
        default=0, ge=0, description="Choose no stop token before this many tokens. At most max_tokens."
    )
    ignore_eos: bool = Field(default=False, description="Go on past the model's own end-of-generation tokens.")
    logprobs: OptionalInt = Field(
        default=None,
        ge=0,
        le=100,
        description="Return log-probabilities: each token's, and this many of the likeliest alternatives'. "
        "`none` is off.",
    )
    max_draft_tokens: OptionalInt = Field(
        default=None,
        ge=0,
        le=LARGEST_MAX_DRAFT_TOKENS,
        description="The most tokens to draft a round. 0 is off; `none` is what the drafter suggests, "
        f"else {DEFAULT_MAX_DRAFT_TOKENS}.",
    )
    adaptive: bool = Field(
        default=True,
        description="Choose how much to draft by measured cost and acceptance. "
        "Off drafts up to max_draft_tokens each round.",
    )

    @field_validator("stop", "stop_token_ids", mode="before")
    @classmethod
    def _none_is_empty(cls, value: object) -> object:
        return () if value is None else value

    @field_validator("stop")
    @classmethod
    def _no_empty_stop_text(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "" in value:
            raise ValueError("must hold no empty text, which would end every generation at once")
        return value

    @field_validator("stop_token_ids", mode="before")
    @classmethod
    def _ids_from_text(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("logit_bias", mode="before")
    @classmethod
    def _biases_from_text(cls, value: object) -> object:
        if isinstance(value, str):
            pairs = [part.partition("=") for part in value.split(",")]
            if not all(token_id.strip() and bias.strip() for token_id, _, bias in pairs):
                raise ValueError("must have the form ID=BIAS,ID=BIAS")
            return {token_id.strip(): bias.strip() for token_id, _, bias in pairs}
        return {} if value is None else value

    @field_validator("logit_bias")
    @classmethod
    def _biases_are_finite_or_ban(cls, value: dict[int, float]) -> dict[int, float]:
        if any(math.isnan(bias) or bias == math.inf for bias in value.values()):
            raise ValueError("must hold finite numbers, or -inf to ban a token")
        return value

    @model_validator(mode="after")
    def _min_tokens_fit(self) -> GenerationOptions:
        if self.min_tokens > self.max_tokens:
            raise ValueError(f"'min_tokens' ({self.min_tokens}) must be at most 'max_tokens' ({self.max_tokens})")
        return self

    def without_effect(self) -> list[str]:
        """Returns the options that were set, but do nothing at temperature 0."""
        if self.temperature > 0:
            return []
        is_active = {
            "top_k": self.top_k > 0,
            "top_p": self.top_p < 1,
            "min_p": self.min_p > 0,
            "seed": self.seed is not None,
        }
        return [name for name in is_active if is_active[name]]

    def updated(self, changes: Mapping[str, Any]) -> GenerationOptions:
        """Makes options with some values changed.

        Raises:
            ConfigError: A name is unknown or a value not usable.
        """
        if not changes:
            return self
        return validated(GenerationOptions, self.model_dump(exclude_unset=True) | dict(changes), owner="a generation")
