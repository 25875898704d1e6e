"""Reads the header of a GGUF file: metadata and tensor table, trusting nothing in it.

Counts are checked before anything is looped over, and what is read is checked before it is used. This module knows
the container only, not what a key or a tensor means.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

from cera_core.modelfile.gguf_cursor import UINT32, UINT64, Buffer, Cursor, shorten

if TYPE_CHECKING:
    import gguf

MAX_KEYS = MAX_TENSORS = 1 << 16
MAX_DIMENSIONS = 4
DEFAULT_ALIGNMENT = 32
MIN_ALIGNMENT = 8
VERSIONS = (2, 3)

_MAGIC = b"GGUF"
_MIN_KEY_BYTES = 8 + 4 + 1  # name length, value type, the smallest value
_MIN_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8  # name length, number of dimensions, one dimension, type, offset

_BOOL, _STRING, _ARRAY = 7, 8, 9
_NUMBERS: Mapping[int, Struct] = {
    0: Struct("<B"),
    1: Struct("<b"),
    2: Struct("<H"),
    3: Struct("<h"),
    4: UINT32,
    5: Struct("<i"),
    6: Struct("<f"),
    _BOOL: Struct("<?"),
    10: UINT64,
    11: Struct("<q"),
    12: Struct("<d"),
}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor is and how it is stored.

    Attributes:
        name: The tensor's name.
        shape: Dimensions in NumPy order, the row length last: the reverse of the file's order.
        type: How the weights are stored.
        offset: First byte, counted from the start of the file.
        num_bytes: Number of bytes.
    """

    name: str
    shape: tuple[int, ...]
    type: gguf.GGMLQuantizationType
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """What stands before the weights."""

    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]


def read_header(data: Buffer, path: Path) -> Header:
    """Reads and checks the header at the start of `data`, the whole file; `path` is for messages.

    Raises:
        ModelFileError: The file is damaged, or no GGUF file.
        UnsupportedModelError: The file is sound, but of a kind that cannot be read.
    """
    cursor = Cursor(data, path)
    version = _read_version(cursor)
    num_tensors = cursor.number(UINT64, "the number of tensors")
    num_keys = cursor.number(UINT64, "the number of metadata keys")
    cursor.check_count(num_tensors, _MIN_TENSOR_BYTES, "tensors", MAX_TENSORS)
    cursor.check_count(num_keys, _MIN_KEY_BYTES, "metadata keys", MAX_KEYS)
    metadata = _read_metadata(cursor, num_keys)
    alignment = _checked_alignment(cursor, metadata)
    tensors = _read_tensors(cursor, num_tensors, alignment)
    return Header(version, metadata, tensors)


def _read_version(cursor: Cursor) -> int:
    magic = cursor.data[:4]
    if magic != _MAGIC:
        found = f"begins with {magic!r}" if magic else "is empty"
        raise cursor.error(f"a GGUF file begins with {_MAGIC!r}, this one {found}. Fetch it again, or convert it.")
    cursor.take(4, "the file's magic number")
    version: int = cursor.number(UINT32, "the file's version")
    swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in VERSIONS and swapped in (1, *VERSIONS):
        raise cursor.unsupported("it is big-endian; cera reads little-endian files. Convert it again.")
    if version not in VERSIONS:
        raise cursor.unsupported(f"its GGUF version must be 2 or 3, found {version}. Convert it again.")
    return version


def _read_metadata(cursor: Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for index in range(count):
        key = cursor.name(f"the name of metadata key {index}")
        if key in metadata:
            raise cursor.error(f"the key {shorten(key)} must be there once, found twice.")
        metadata[key] = _read_value(cursor, f"the value of key {shorten(key)}")
    return metadata


def _read_value(cursor: Cursor, what: str) -> Any:
    kind = cursor.number(UINT32, what)
    if kind in _NUMBERS:
        return cursor.number(_NUMBERS[kind], what)
    if kind == _STRING:
        return cursor.string(what).decode("utf-8", "replace")
    if kind == _ARRAY:
        return _read_array(cursor, what)
    raise cursor.error(f"{what} must be of a type from 0 to 12, found type {kind}.")


def _read_array(cursor: Cursor, what: str) -> Any:
    kind = cursor.number(UINT32, what)
    count = cursor.number(UINT64, what)
    if kind == _STRING:
        return cursor.strings(count, what)
    if kind == _ARRAY:
        raise cursor.unsupported(f"{what} is an array of arrays, which cera does not read.")
    if kind not in _NUMBERS:
        raise cursor.error(f"{what} must have elements of a type from 0 to 12, found type {kind}.")
    layout = _NUMBERS[kind]
    cursor.check_count(count, layout.size, f"numbers in {what}")
    start = cursor.take(count * layout.size, what)
    raw = cursor.data[start : cursor.position]
    if kind == _BOOL:
        return np.frombuffer(raw, np.uint8) != 0
    return np.frombuffer(raw, np.dtype(layout.format))


def _checked_alignment(cursor: Cursor, metadata: Mapping[str, Any]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    is_valid = isinstance(alignment, int) and alignment >= MIN_ALIGNMENT and alignment.bit_count() == 1
    if not is_valid:
        raise cursor.error(
            f"the key 'general.alignment' must be a power of two of at least {MIN_ALIGNMENT}, "
            f"found {shorten(alignment)}."
        )
    return int(alignment)


def _read_tensors(cursor: Cursor, count: int, alignment: int) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for index in range(count):
        tensor = _read_tensor(cursor, index)
        if tensor.name in tensors:
            raise cursor.error(f"the tensor {shorten(tensor.name)} must be there once, found twice.")
        tensors[tensor.name] = tensor
    data_start = -(-cursor.position // alignment) * alignment
    placed = {
        name: TensorInfo(name, tensor.shape, tensor.type, data_start + tensor.offset, tensor.num_bytes)
        for name, tensor in tensors.items()
    }
    _check_places(cursor, placed, data_start, alignment)
    return placed


def _read_tensor(cursor: Cursor, index: int) -> TensorInfo:
    """Reads one line of the table; the offset still counts from the start of the tensor data."""
    name = cursor.name(f"the name of tensor {index}")
    what = f"the tensor {shorten(name)}"
    num_dimensions = cursor.number(UINT32, what)
    if not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise cursor.error(f"{what} must have 1 to {MAX_DIMENSIONS} dimensions, found {num_dimensions}.")
    shape = tuple(cursor.number(UINT64, what) for _ in range(num_dimensions))[::-1]
    type_number = cursor.number(UINT32, what)
    offset = cursor.number(UINT64, what)
    if 0 in shape:
        raise cursor.error(f"{what} must have no empty dimension, found the shape {shape}.")
    tensor_type, num_bytes = _storage(cursor, what, shape, type_number)
    return TensorInfo(name, shape, tensor_type, offset, num_bytes)


def _storage(
    cursor: Cursor, what: str, shape: tuple[int, ...], type_number: int
) -> tuple[gguf.GGMLQuantizationType, int]:
    """Returns the type a number stands for and the bytes a tensor of this shape takes."""
    import gguf  # noqa: PLC0415  (60 ms, which importing this module should not cost)

    try:
        tensor_type = gguf.GGMLQuantizationType(type_number)
        block_length, block_bytes = gguf.GGML_QUANT_SIZES[tensor_type]
    except (ValueError, KeyError) as error:
        raise cursor.unsupported(f"{what} is of the unknown type number {type_number}.") from error
    if shape[-1] % block_length:
        raise cursor.error(
            f"{what} of type {tensor_type.name} must have rows of a multiple of {block_length} weights, "
            f"found {shape[-1]}."
        )
    return tensor_type, math.prod(shape) // block_length * block_bytes


def _check_places(cursor: Cursor, tensors: Mapping[str, TensorInfo], data_start: int, alignment: int) -> None:
    """Refuses tensors that are unaligned, past the end of the file, or share bytes."""
    end, before = data_start, ""
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
        what = f"the tensor {shorten(tensor.name)}"
        if tensor.offset % alignment:
            offset = tensor.offset - data_start
            raise cursor.error(f"{what} must begin at a multiple of {alignment} bytes, found the offset {offset}.")
        if tensor.offset < end:
            raise cursor.error(f"{what} begins at byte {tensor.offset}, inside the tensor {shorten(before)}.")
        end, before = tensor.offset + tensor.num_bytes, tensor.name
        if end > cursor.file_size:
            raise cursor.error(
                f"{what} of shape {tensor.shape} takes bytes {tensor.offset} to {end}, but the file ends at byte "
                f"{cursor.file_size}. It is truncated or damaged; fetch it again."
            )
