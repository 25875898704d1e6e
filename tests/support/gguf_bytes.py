"""Puts GGUF files together byte by byte, so that tests can make every mistake a writer could."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = range(13)
F32, F16, Q4_0, Q4_K = 0, 1, 2, 12


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return pack("<Q", len(raw)) + raw


def key(name: str | bytes, kind: int, payload: bytes) -> bytes:
    return string(name) + pack("<I", kind) + payload


def array(kind: int, count: int, payload: bytes) -> bytes:
    return pack("<IQ", kind, count) + payload


def tensor(name: str | bytes, file_order_shape: Sequence[int], kind: int = F32, offset: int = 0) -> bytes:
    dimensions = b"".join(pack("<Q", size) for size in file_order_shape)
    return string(name) + pack("<I", len(file_order_shape)) + dimensions + pack("<IQ", kind, offset)


ARCHITECTURE = key("general.architecture", STRING, string("llama"))


def gguf_bytes(
    keys: Sequence[bytes] = (ARCHITECTURE,),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    num_keys: int | None = None,
    num_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:
    """Joins the parts; the counts are true unless given, and the data begins aligned."""
    counts = pack(
        "<QQ", len(tensors) if num_tensors is None else num_tensors, len(keys) if num_keys is None else num_keys
    )
    header = b"GGUF" + pack("<I", version) + counts + b"".join(keys) + b"".join(tensors)
    return header + bytes(-len(header) % alignment) + data
