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
    rewind_headroom: int = Field(
        default=64,
        ge=1,
        le=65536,
        description="By how many tokens a state can go back where a model has short convolutions or sliding windows; "
        "drafts are no longer than that. Other models go back all the way.",
    )


def load(model_file: ModelFile, options: NumpyOptions) -> Model:
    """Makes a model from an open file."""
    # Heavy, and not needed for a listing.
    from cera_numpy.execution import Execution  # noqa: PLC0415
    from cera_numpy.model import NumpyModel  # noqa: PLC0415
    from cera_numpy.workers import Workers, default_num_threads  # noqa: PLC0415

    workers = Workers(options.threads or default_num_threads())
    keep_weights = options.weights == "float32"
    return NumpyModel(model_file, Execution(options.exact, keep_weights, workers), options.rewind_headroom)


def check_file(model_file: ModelFile) -> None:
    """Raises for a file that `load` would refuse, and reads one row of each type of weights only.

    Raises:
        UnsupportedModelError: The file asks for something that is not there.
        ModelFileError: The file is damaged.
    """
    from cera_core.modelfile.description import describe  # noqa: PLC0415
    from cera_numpy.weights import StoredTensor  # noqa: PLC0415

    description = describe(model_file)
    tensors = [description.tensors, *(layer.tensors for layer in description.layers)]
    for info in {info.type: info for part in tensors for info in part.values()}.values():
        StoredTensor(model_file, info)


@hookimpl
def cera_register_models(register: Callable[[ModelSpec], None]) -> None:
    """Registers the backend `numpy`."""
    register(
        ModelSpec(
            name="numpy",
            summary="The readable reference on NumPy: every weight type, no compiler.",
            load=load,
            check_file=check_file,
            options=NumpyOptions,
            priority=10,
        )
    )
