"""The readable reference backend: a transformer in NumPy, for any weights the `gguf` package can dequantise.

This module is all that listing plugins loads; NumPy and the model come in when a model is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from cera_core import ModelSpec, PluginOptions, hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from cera_core.model import Model
    from cera_core.modelfile.gguf import ModelFile


class NumpyOptions(PluginOptions):
    """What can be chosen when a model is loaded."""

    exact: bool = Field(
        default=False,
        description="Compute every row of a forward by itself, so that its logits have the same bits however many rows "
        "share the forward. Text is then the same with and without drafts; verifying a draft costs more.",
    )
    weights: Literal["float32", "file"] = Field(
        default="float32",
        description="Where the weights of the matrices are: 'float32' holds them in memory, 4 bytes a weight; 'file' "
        "dequantises them from the mapped file in every forward, slow but in little memory. The text is the same.",
    )
    threads: int | None = Field(
        default=None,
        ge=1,
        description="Threads for products; None takes one for each processor, at most 4. The text is the same.",
    )


def load(model_file: ModelFile, options: NumpyOptions) -> Model:
    """Makes a model from an open file."""
    # Heavy, and not needed for a listing.
    from cera_numpy.execution import Execution  # noqa: PLC0415
    from cera_numpy.model import NumpyModel  # noqa: PLC0415
    from cera_numpy.workers import Workers, default_num_threads  # noqa: PLC0415

    workers = Workers(options.threads or default_num_threads())
    keep_weights = options.weights == "float32"
    return NumpyModel(model_file, Execution(options.exact, keep_weights, workers))


@hookimpl
def cera_register_models(register: Callable[[ModelSpec], None]) -> None:
    """Registers the backend `numpy`."""
    register(
        ModelSpec(
            name="numpy",
            summary="The readable reference on NumPy: every weight type, no compiler.",
            load=load,
            options=NumpyOptions,
            priority=10,
        )
    )
