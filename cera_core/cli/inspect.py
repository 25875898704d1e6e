"""`cera inspect`: what a model file holds, and whether cera can run it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cera_core.cli.flags import MODEL_HELP
from cera_core.cli.output import write_json, write_table
from cera_core.modelfile.catalogue import resolve
from cera_core.modelfile.gguf import ModelFile, open_model_file

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import TensorInfo

app = typer.Typer(add_completion=False)


@app.command()
def inspect(
    file: Annotated[str, typer.Argument(metavar="FILE", help=MODEL_HELP)],
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON, with every key and tensor.")] = False,
) -> None:
    """Shows what a model file holds, and whether it can be run."""
    with open_model_file(resolve(file)) as model_file:
        if as_json:
            write_json(_everything(model_file))
        else:
            _write_summary(model_file)
            if tensors:
                _write_tensors(model_file.tensors)


def _why_not_run(model_file: ModelFile) -> dict[str, str | None]:
    """Returns for each backend why it cannot run the file, or None if it can."""
    from cera_core.assembly import why_not_run  # noqa: PLC0415 - the help of a command should not cost its import
    from cera_core.config import load_config  # noqa: PLC0415
    from cera_core.discovery import discover  # noqa: PLC0415

    return why_not_run(model_file, discover(load_config().disabled_plugins))


def _why_unsupported(reasons: Mapping[str, str | None]) -> str | None:
    """Returns what stands in the way of running the file with any backend, or None."""
    if None in reasons.values():
        return None
    return next((reason for reason in reversed(list(reasons.values())) if reason), "no backend is installed")


def _write_summary(model_file: ModelFile) -> None:
    reasons = _why_not_run(model_file)
    unsupported = _why_unsupported(reasons)
    runners = ", ".join(name for name, reason in reasons.items() if reason is None)
    rows: dict[str, object] = {
        "file": model_file.path,
        "format": f"GGUF version {model_file.version}",
        "architecture": model_file.architecture,
        "can be run": f"no: {unsupported}" if unsupported else f"yes, by {runners}",
        **{f"not by {name}": reason for name, reason in reasons.items() if reason and not unsupported},
        "weights": f"{_num_weights(model_file.tensors.values()) / 1e6:.1f} million",
        "chat template": "yes" if "tokenizer.chat_template" in model_file.metadata else "no",
    }
    prefixes = ("general.", f"{model_file.architecture}.", "tokenizer.ggml.")
    keys = {key: _shown(value) for key, value in model_file.metadata.items() if key.startswith(prefixes)}
    write_table(("property", "value"), [*rows.items(), *keys.items()])
    typer.echo()
    _write_types(model_file.tensors)


def _write_types(tensors: Mapping[str, TensorInfo]) -> None:
    """Writes how the weights are stored, the type with the most bytes first."""
    sizes = Counter[str]()
    for tensor in tensors.values():
        sizes[tensor.type.name] += tensor.num_bytes
    rows = []
    for name, num_bytes in sizes.most_common():
        of_type = [tensor for tensor in tensors.values() if tensor.type.name == name]
        weights = _num_weights(of_type)
        rows.append((name, len(of_type), weights, f"{num_bytes / 1e6:.2f} MB", f"{8 * num_bytes / weights:.2f}"))
    write_table(("tensor type", "tensors", "weights", "size", "bits a weight"), rows)


def _write_tensors(tensors: Mapping[str, TensorInfo]) -> None:
    typer.echo()
    write_table(
        ("tensor", "type", "shape", "bytes", "offset"),
        (
            (tensor.name, tensor.type.name, " x ".join(map(str, tensor.shape)), tensor.num_bytes, tensor.offset)
            for tensor in tensors.values()
        ),
    )


def _everything(model_file: ModelFile) -> dict[str, Any]:
    reasons = _why_not_run(model_file)
    return {
        "path": str(model_file.path),
        "version": model_file.version,
        "architecture": model_file.architecture,
        "unsupported_because": _why_unsupported(reasons),
        "backends": reasons,
        "metadata": {key: _plain(value) for key, value in model_file.metadata.items()},
        "tensors": [
            {
                "name": tensor.name,
                "type": tensor.type.name,
                "shape": tensor.shape,
                "num_bytes": tensor.num_bytes,
                "offset": tensor.offset,
            }
            for tensor in model_file.tensors.values()
        ],
    }


def _plain(value: Any) -> Any:
    """Returns a value of the metadata as JSON can hold it; bytes of a token that are no UTF-8 are escaped."""
    if isinstance(value, list):
        return [text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for text in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _shown(value: Any) -> str:
    """Returns a value of the metadata on one short line."""
    if isinstance(value, str):
        line = " ".join(value.split())
        return line if len(line) <= 80 else f"{line[:77]}..."
    return f"{len(value)} values" if hasattr(value, "__len__") else str(value)


def _num_weights(tensors: Any) -> int:
    return sum(math.prod(tensor.shape) for tensor in tensors)
