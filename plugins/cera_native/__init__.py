"""The native backend: GGUF models on the CPU, with kernels of its own and the same bits whatever the batch.

This module only registers the backend. The extension is loaded when a model is; where it was not built, the backend is
listed as unavailable, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from cera_core.errors import PluginError
from cera_core.hookspecs import hookimpl
from cera_core.specs import ModelSpec, PluginOptions

if TYPE_CHECKING:
    from cera_core.model import Model
    from cera_core.modelfile.gguf import ModelFile


class NativeOptions(PluginOptions):
    """Options of the native backend."""

    threads: int | None = Field(
        default=None, ge=1, le=1024, description="Threads to compute with; by default one for each physical core given."
    )
    cache_type: Literal["f16", "f32"] = Field(default="f16", description="Element type of the key/value cache.")
    instruction_set: Literal["avx512", "avx2", "neon", "plain"] | None = Field(
        default=None,
        description="Instruction set of the kernels; by default CERA_NATIVE_ISA, else the fastest there is.",
    )
    rewind_headroom: int = Field(
        default=64,
        ge=1,
        le=65536,
        description="By how many tokens a state can go back where a model has short convolutions or sliding windows; "
        "drafts are no longer than that. Other models go back all the way.",
    )


def availability() -> str | None:
    """Says why the backend cannot run here, and what would help."""
    try:
        import cera_native._native  # noqa: F401, PLC0415
    except ImportError as error:
        return (
            f"its extension cannot be loaded ({error}). Install a C++20 compiler and reinstall cera with "
            "CERA_REQUIRE_NATIVE=1, which shows why a build fails."
        )
    return None


def load(model_file: ModelFile, options: NativeOptions) -> Model:
    """Makes a model from an open file.

    Raises:
        PluginError: The extension is not there.
        ModelFileError: The file's numbers or tensors do not fit together, or are of a kind there is no kernel for.
    """
    reason = availability()
    if reason is not None:
        raise PluginError(f"The backend 'native' is not available: {reason}")
    from cera_native.loading import load_model  # noqa: PLC0415

    return load_model(model_file, options)


def check_file(model_file: ModelFile) -> None:
    """Raises for a file that `load` would refuse, without the extension and without reading weights.

    Raises:
        UnsupportedModelError: There is no kernel for a part of it.
        ModelFileError: The file is damaged.
    """
    from cera_native.support import describe_supported  # noqa: PLC0415

    describe_supported(model_file)


@hookimpl
def cera_register_models(register: Callable[[ModelSpec], None]) -> None:
    """Registers the backend."""
    register(
        ModelSpec(
            name="native",
            summary="GGUF models on the CPU in C++; a row's logits have the same bits whatever the batch.",
            options=NativeOptions,
            load=load,
            availability=availability,
            check_file=check_file,
            priority=100,
        )
    )
