"""llama.cpp, through the package llama-cpp-python: a backend for every architecture it knows, and a seam for drafters.

This module only registers the backend; llama-cpp-python is imported when a model is loaded.
`cera_llama_cpp.draft_model` has the seam: a drafter of cera inside `llama_cpp.Llama`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pydantic import Field

from cera_core.errors import PluginError
from cera_core.hookspecs import hookimpl
from cera_core.modelfile.hyperparameters import unsupported
from cera_core.specs import ModelSpec, PluginOptions

if TYPE_CHECKING:
    from cera_core.model import Model
    from cera_core.modelfile.gguf import ModelFile


class LlamaCppOptions(PluginOptions):
    """Options of the backend `llama-cpp`."""

    threads: int | None = Field(
        default=None, ge=1, le=1024, description="Threads to compute with; by default one for each processor given."
    )
    flash_attention: bool | None = Field(
        default=None, description="Whether attention is computed in blocks; by default llama.cpp decides."
    )


def availability() -> str | None:
    """Says why the backend cannot run here, and what would help."""
    if find_spec("llama_cpp") is None:
        return "it needs llama-cpp-python. Install it with: pip install 'cera[llama-cpp]'"
    return None


def load(model_file: ModelFile, options: LlamaCppOptions) -> Model:
    """Makes a model from an open file.

    Raises:
        PluginError: llama-cpp-python is not there, or cannot be loaded.
        ModelFileError: llama.cpp refuses the file.
    """
    reason = availability()
    if reason is not None:
        raise PluginError(f"The backend 'llama-cpp' is not available: {reason}")
    try:
        import llama_cpp  # noqa: F401, PLC0415
    except (ImportError, OSError, RuntimeError) as error:
        raise PluginError(
            f"The backend 'llama-cpp' is not available: llama-cpp-python cannot be loaded ({error}). Reinstall it."
        ) from error
    from cera_llama_cpp.backend import load_model  # noqa: PLC0415

    return load_model(model_file, options)


def check_file(model_file: ModelFile) -> None:
    """Raises for a file that llama.cpp would refuse, as far as that shows without its weights.

    Raises:
        UnsupportedModelError: llama.cpp does not know the architecture, or is not there to be asked.
    """
    problem = f"the architecture must be one that llama.cpp knows, found {model_file.architecture!r}"
    if availability() is not None:
        raise unsupported(model_file, f"{problem}, and {availability()}")
    from cera_llama_cpp.backend import knows  # noqa: PLC0415

    if not knows(model_file):
        raise unsupported(model_file, f"{problem}. Install a newer llama-cpp-python.")


@hookimpl
def cera_register_models(register: Callable[[ModelSpec], None]) -> None:
    """Registers the backend, which `auto` takes only where there is no other."""
    register(
        ModelSpec(
            name="llama-cpp",
            summary="llama.cpp: every architecture it knows; texts may differ at near ties.",
            options=LlamaCppOptions,
            load=load,
            availability=availability,
            check_file=check_file,
            priority=0,
        )
    )
