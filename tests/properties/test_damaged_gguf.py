"""Whatever happens to the bytes of a model file, opening it works or says what is wrong."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cera_core.errors import ModelFileError
from cera_core.modelfile.gguf import open_model_file
from support.tiny_gguf import write_tiny_gguf

INTERESTING = [
    pack("<Q", value & (1 << 64) - 1) for value in (0, 1, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 40, 1 << 63, -1, -32)
]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(scope="module")
def sound(folder: Path) -> tuple[bytes, int]:
    """A small complete model, and the length of its header."""
    path = write_tiny_gguf(folder / "sound.gguf", vocab_size=259, num_layers=1, chat_template=None)
    with open_model_file(path) as file:
        header_length = min(tensor.offset for tensor in file.tensors.values())
    return path.read_bytes(), header_length


def open_or_refuse(folder: Path, data: bytes) -> None:
    path = folder / "damaged.gguf"
    path.write_bytes(data)
    try:
        with open_model_file(path) as file:
            for name in file.tensors:
                file.tensor_bytes(name).sum()
    except ModelFileError as error:
        message = str(error)
    else:
        return
    assert str(path) in message
    assert len(message) < 1000


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 1 << 20), st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from(INTERESTING))),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=300, deadline=1000)
def test_overwritten_bytes(folder: Path, sound: tuple[bytes, int], changes: list[tuple[int, bytes]]) -> None:
    data, header_length = sound
    changed = bytearray(data)
    for position, piece in changes:
        start = position % header_length
        changed[start : start + len(piece)] = piece
    open_or_refuse(folder, bytes(changed))


@given(start=st.integers(0, 1 << 20), removed=st.integers(0, 64), inserted=st.binary(max_size=64))
@settings(max_examples=200, deadline=1000)
def test_removed_and_inserted_bytes(
    folder: Path, sound: tuple[bytes, int], start: int, removed: int, inserted: bytes
) -> None:
    data, header_length = sound
    start %= header_length
    open_or_refuse(folder, data[:start] + inserted + data[start + removed :])


@given(length=st.integers(0, 1 << 20))
@settings(max_examples=100, deadline=1000)
def test_truncated_files_are_refused(folder: Path, sound: tuple[bytes, int], length: int) -> None:
    data, _ = sound
    path = folder / "short.gguf"
    path.write_bytes(data[: length % len(data)])
    with pytest.raises(ModelFileError):
        open_model_file(path)


@given(data=st.binary(max_size=400))
@settings(max_examples=200, deadline=1000)
def test_anything_after_the_magic_number(folder: Path, data: bytes) -> None:
    open_or_refuse(folder, b"GGUF" + pack("<I", 3) + data)
