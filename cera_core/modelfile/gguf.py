"""A validated view of a GGUF file: metadata, tensor table, and the weights where they lie.

Whatever the bytes of a file, opening it either succeeds or raises one `ModelFileError`. The weights stay in a memory
map, so opening costs the header only. This module does not know what an architecture is made of.

A file that is shortened while it is open cannot be defended against: reading a mapped page that is no longer there
ends the process (SIGBUS).
"""

from __future__ import annotations

import math
import mmap
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.modelfile.gguf_cursor import shorten
from cera_core.modelfile.gguf_header import Header, TensorInfo, read_header

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ModelFile", "TensorInfo", "open_model_file"]

T = TypeVar("T")


class ModelFile:
    """An open model file; made by `open_model_file`.

    Attributes:
        path: Where the file is.
        version: The version of the GGUF format, 2 or 3.
        metadata: Keys to plain values. Arrays of numbers are read-only NumPy arrays, arrays of strings lists. A string
            in an array that is no UTF-8, as tokens may be, keeps its bytes: `encode("utf-8", "surrogateescape")` gives
            them back. In a string on its own they become U+FFFD.
        tensors: Names to descriptions, in the file's order.
        architecture: The value of `general.architecture`.
    """

    def __init__(self, path: Path, mapped: mmap.mmap, header: Header) -> None:
        self.path = path
        self.version = header.version
        self.metadata: Mapping[str, Any] = MappingProxyType(header.metadata)
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(header.tensors)
        self.architecture = self.require("general.architecture", str)
        self._mapped: mmap.mmap | None = mapped
        self._refuse_part_of_split_model()

    def require(self, key: str, kind: type[T]) -> T:
        """Returns the value of a key.

        Args:
            key: The full key, for instance `llama.block_count`.
            kind: `int`, `float` (an integer will do), `bool`, `str`, `list` (of strings) or `numpy.ndarray`.

        Raises:
            ModelFileError: The key is missing, or its value is of another kind.
        """
        if key not in self.metadata:
            raise self._error(f"the key {key!r} ({kind.__name__}) is required, but missing.")
        value = self.metadata[key]
        if kind is float and type(value) is int:
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            found = f"{shorten(value)} ({type(value).__name__})"
            raise self._error(f"the key {key!r} must be of type {kind.__name__}, found {found}.")
        return value

    def get(self, key: str, kind: type[T], default: T) -> T:
        """Returns the value of a key like `require`, or `default` if the key is missing."""
        return self.require(key, kind) if key in self.metadata else default

    def tensor(self, name: str, shape: tuple[int, ...] | None = None) -> TensorInfo:
        """Returns a tensor's description.

        Args:
            name: The full name, for instance `blk.0.attn_q.weight`.
            shape: The shape it must have, in NumPy order; None takes any.

        Raises:
            ModelFileError: The tensor is missing, or has another shape.
        """
        if name not in self.tensors:
            wanted = f" of shape {shape}" if shape else ""
            raise self._error(f"the tensor {name!r}{wanted} is required, but missing.")
        tensor = self.tensors[name]
        if shape is not None and tensor.shape != shape:
            raise self._error(f"the tensor {name!r} must have the shape {shape}, found {tensor.shape}.")
        return tensor

    def tensor_bytes(self, name: str) -> NDArray[np.uint8]:
        """Returns a tensor's stored bytes, uint8[rows, bytes per row]: a read-only view, nothing is copied.

        Rows are counted over all dimensions but the last. The view stays valid after `close`.
        """
        tensor = self.tensor(name)
        if self._mapped is None:
            raise self._error("it is closed, so its weights cannot be read.")
        flat = np.frombuffer(self._mapped, np.uint8, tensor.num_bytes, tensor.offset)
        return flat.reshape(math.prod(tensor.shape[:-1]), -1)

    def release(self, name: str) -> None:
        """Gives back the memory a tensor's bytes take up while they are mapped; they are read again when needed.

        For who has made a copy: otherwise file and copy count as memory of the process until the file is closed.
        """
        tensor = self.tensor(name)
        if self._mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        first_page = -(-tensor.offset // mmap.PAGESIZE)
        end_page = (tensor.offset + tensor.num_bytes) // mmap.PAGESIZE
        if first_page < end_page:
            num_bytes = (end_page - first_page) * mmap.PAGESIZE
            self._mapped.madvise(mmap.MADV_DONTNEED, first_page * mmap.PAGESIZE, num_bytes)

    def close(self) -> None:
        """Lets go of the map; it goes away with the last view from `tensor_bytes`."""
        self._mapped = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _error(self, problem: str) -> ModelFileError:
        return ModelFileError(f"Model file {str(self.path)!r}: {problem}")

    def _refuse_part_of_split_model(self) -> None:
        num_parts = self.get("split.count", int, 0)
        if num_parts > 1:
            raise UnsupportedModelError(
                f"Model file {str(self.path)!r}: it is one of {num_parts} parts of a model, and cera reads models in "
                "one file. Merge them first, for instance with `llama-gguf-split --merge`."
            )


def open_model_file(path: str | os.PathLike[str]) -> ModelFile:
    """Opens a GGUF file and checks all of its header.

    Raises:
        ModelFileError: The file cannot be read, is damaged, or is no GGUF file.
        UnsupportedModelError: The file is sound, but of a kind cera does not read.
    """
    path = Path(path)
    mapped = _map_file(path)
    return ModelFile(path, mapped, read_header(mapped, path))


def _map_file(path: Path) -> mmap.mmap:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for a writer
            kind = "directory" if stat.S_ISDIR(status.st_mode) else "special file"
            raise ModelFileError(f"Model file {str(path)!r}: a regular file is required, found a {kind}.")
        if status.st_size == 0:
            raise ModelFileError(f"Model file {str(path)!r}: a GGUF file is required, found an empty one.")
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte, a file emptied meanwhile
        reason = getattr(error, "strerror", None) or error
        raise ModelFileError(f"Model file {str(path)!r} cannot be read: {reason}.") from error
