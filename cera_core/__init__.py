"""cera: speculative decoding without a second model.

The public names, each imported from its home when first used, so that `import cera_core` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cera_core.config import Config
    from cera_core.drafter import Draft, Drafter, IncrementalDrafter
    from cera_core.engine import Engine, create_drafter, load, load_model
    from cera_core.errors import (
        CeraError,
        CeraWarning,
        ConfigError,
        ContextFullError,
        DownloadError,
        InvalidInputError,
        MissingModelError,
        ModelError,
        ModelFileError,
        PluginError,
        RewindError,
        SessionBusyError,
        UnknownNameError,
        UnsupportedModelError,
    )
    from cera_core.generation import Generation, Token, TokenLogprobs, TokenStream
    from cera_core.hookspecs import PLUGIN_API, hookimpl
    from cera_core.model import InferenceState, Model, ModelConfig
    from cera_core.session import Session
    from cera_core.specs import (
        DrafterContext,
        DrafterSpec,
        GenerationEvent,
        ModelSpec,
        PluginOptions,
        RoundEvent,
        Tokenizer,
    )
    from cera_core.speculation.greedy import greedy_generate_spec
    from cera_core.speculation.sampling import argmax
    from cera_core.speculation.stats import SpecStats
    from cera_core.speculation.verify import VerifyResult, verify_draft

__version__ = "0.1.0"

_HOMES = {
    "cera_core.config": ("Config",),
    "cera_core.drafter": ("Draft", "Drafter", "IncrementalDrafter"),
    "cera_core.engine": ("Engine", "create_drafter", "load", "load_model"),
    "cera_core.errors": (
        "CeraError",
        "CeraWarning",
        "ConfigError",
        "ContextFullError",
        "DownloadError",
        "InvalidInputError",
        "MissingModelError",
        "ModelError",
        "ModelFileError",
        "PluginError",
        "RewindError",
        "SessionBusyError",
        "UnknownNameError",
        "UnsupportedModelError",
    ),
    "cera_core.hookspecs": ("PLUGIN_API", "hookimpl"),
    "cera_core.model": ("InferenceState", "Model", "ModelConfig"),
    "cera_core.generation": ("Generation", "Token", "TokenLogprobs", "TokenStream"),
    "cera_core.session": ("Session",),
    "cera_core.specs": (
        "DrafterContext",
        "DrafterSpec",
        "GenerationEvent",
        "ModelSpec",
        "PluginOptions",
        "RoundEvent",
        "Tokenizer",
    ),
    "cera_core.speculation.greedy": ("greedy_generate_spec",),
    "cera_core.speculation.sampling": ("argmax",),
    "cera_core.speculation.stats": ("SpecStats",),
    "cera_core.speculation.verify": ("VerifyResult", "verify_draft"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "PLUGIN_API",
    "CeraError",
    "CeraWarning",
    "Config",
    "ConfigError",
    "ContextFullError",
    "DownloadError",
    "Draft",
    "Drafter",
    "DrafterContext",
    "DrafterSpec",
    "Engine",
    "Generation",
    "GenerationEvent",
    "IncrementalDrafter",
    "InferenceState",
    "InvalidInputError",
    "MissingModelError",
    "Model",
    "ModelConfig",
    "ModelError",
    "ModelFileError",
    "ModelSpec",
    "PluginError",
    "PluginOptions",
    "RewindError",
    "RoundEvent",
    "Session",
    "SessionBusyError",
    "SpecStats",
    "Token",
    "TokenLogprobs",
    "TokenStream",
    "Tokenizer",
    "UnknownNameError",
    "UnsupportedModelError",
    "VerifyResult",
    "argmax",
    "create_drafter",
    "greedy_generate_spec",
    "hookimpl",
    "load",
    "load_model",
    "verify_draft",
]


def __getattr__(name: str) -> Any:
    try:
        home = _HOME_OF[name]
    except KeyError:
        raise AttributeError(f"module 'cera_core' has no attribute {name!r}") from None
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
