from __future__ import annotations

import contextlib
import math
import tracemalloc
from pathlib import Path
from struct import pack

import gguf
import numpy as np
import pytest

from cera_core.errors import ModelFileError, UnsupportedModelError
from cera_core.modelfile import gguf_cursor
from cera_core.modelfile.gguf_header import read_header
from support import gguf_bytes as raw
from support.gguf_bytes import ARCHITECTURE, array, gguf_bytes, key, string, tensor

PATH = Path("some.gguf")
HUGE = (1 << 64) - 1


def refusal(data: bytes, kind: type[ModelFileError] = ModelFileError) -> str:
    """Returns the message `data` is refused with, which names the file."""
    with pytest.raises(ModelFileError) as caught:
        read_header(data, PATH)
    assert type(caught.value) is kind
    message = str(caught.value)
    assert message.startswith("Model file 'some.gguf': ")
    return message


def with_key(name: str, kind: int, payload: bytes) -> bytes:
    return gguf_bytes([ARCHITECTURE, key(name, kind, payload)])


class TestValues:
    @pytest.mark.parametrize("version", [2, 3])
    def test_both_versions_are_read(self, version: int) -> None:
        header = read_header(gguf_bytes(version=version), PATH)
        assert header.version == version
        assert header.metadata == {"general.architecture": "llama"}
        assert header.tensors == {}

    @pytest.mark.parametrize(
        ("kind", "payload", "value"),
        [
            (raw.UINT8, b"\xff", 255),
            (raw.INT8, b"\xff", -1),
            (raw.UINT16, pack("<H", 65_535), 65_535),
            (raw.INT16, pack("<h", -2), -2),
            (raw.UINT32, pack("<I", 1 << 31), 1 << 31),
            (raw.INT32, pack("<i", -3), -3),
            (raw.FLOAT32, pack("<f", 0.5), 0.5),
            (raw.BOOL, b"\x00", False),
            (raw.BOOL, b"\x01", True),
            (raw.UINT64, pack("<Q", HUGE), HUGE),
            (raw.INT64, pack("<q", -4), -4),
            (raw.FLOAT64, pack("<d", 0.1), 0.1),
            (raw.STRING, string("naïve"), "naïve"),
            (raw.STRING, string(""), ""),
            (raw.STRING, string(b"a\xffb"), "a\N{REPLACEMENT CHARACTER}b"),
        ],
    )
    def test_single_values_become_plain_python(self, kind: int, payload: bytes, value: object) -> None:
        found = read_header(with_key("k", kind, payload), PATH).metadata["k"]
        assert found == value
        assert type(found) is type(value)

    @pytest.mark.parametrize(
        ("kind", "dtype"),
        [
            (raw.UINT8, np.uint8),
            (raw.INT8, np.int8),
            (raw.UINT16, np.uint16),
            (raw.INT16, np.int16),
            (raw.UINT32, np.uint32),
            (raw.INT32, np.int32),
            (raw.FLOAT32, np.float32),
            (raw.UINT64, np.uint64),
            (raw.INT64, np.int64),
            (raw.FLOAT64, np.float64),
        ],
    )
    def test_arrays_of_numbers_become_read_only_arrays(self, kind: int, dtype: type[np.generic]) -> None:
        numbers = np.array([1, 2, 3], dtype)
        found = read_header(with_key("k", raw.ARRAY, array(kind, 3, numbers.tobytes())), PATH).metadata["k"]
        assert found.dtype == dtype
        assert found.tolist() == [1, 2, 3]
        assert not found.flags.writeable

    def test_arrays_of_booleans(self) -> None:
        found = read_header(with_key("k", raw.ARRAY, array(raw.BOOL, 3, b"\x00\x01\x02")), PATH).metadata["k"]
        assert found.dtype == np.bool_
        assert found.tolist() == [False, True, True]

    def test_arrays_of_strings_keep_bytes_that_are_no_utf8(self) -> None:
        words = [b"", "Ġthe".encode(), b"\xff\xfe", b"\xe2\x82"]
        found = read_header(with_key("k", raw.ARRAY, array(raw.STRING, 4, b"".join(map(string, words)))), PATH)
        assert [word.encode("utf-8", "surrogateescape") for word in found.metadata["k"]] == words
        assert found.metadata["k"][1] == "Ġthe"

    def test_empty_arrays(self) -> None:
        assert read_header(with_key("k", raw.ARRAY, array(raw.STRING, 0, b"")), PATH).metadata["k"] == []
        assert len(read_header(with_key("k", raw.ARRAY, array(raw.INT32, 0, b"")), PATH).metadata["k"]) == 0


class TestDamagedContainer:
    @pytest.mark.parametrize("data", [b"", b"GG", b"PK\x03\x04 a zip file", b"FUGG" + bytes(40)])
    def test_another_kind_of_file(self, data: bytes) -> None:
        assert "a GGUF file begins with b'GGUF'" in refusal(data)

    @pytest.mark.parametrize("version", [0, 1, 4, 0x0500])
    def test_unknown_version(self, version: int) -> None:
        assert f"must be 2 or 3, found {version}" in refusal(gguf_bytes(version=version), UnsupportedModelError)

    def test_big_endian(self) -> None:
        assert "big-endian" in refusal(b"GGUF" + pack(">IQQ", 3, 0, 0), UnsupportedModelError)

    def test_every_truncation_is_noticed(self) -> None:
        keys = [
            ARCHITECTURE,
            key("a", raw.ARRAY, array(raw.STRING, 2, string("x") + string("yz"))),
            key("b", raw.ARRAY, array(raw.INT16, 3, bytes(6))),
            key("c", raw.FLOAT64, bytes(8)),
        ]
        data = gguf_bytes(keys, [tensor("t", (2, 3)), tensor("u", (4,), offset=32)], bytes(48))
        read_header(data, PATH)
        for length in range(len(data)):
            refusal(data[:length])

    @pytest.mark.parametrize("kind", [raw.STRING, raw.UINT8])
    def test_every_truncation_of_an_array_at_the_very_end(self, kind: int) -> None:
        payload = array(raw.STRING, 2, string("x") + string("yz")) if kind == raw.STRING else array(kind, 3, b"xyz")
        whole = gguf_bytes([ARCHITECTURE, key("a", raw.ARRAY, payload)], alignment=1)
        read_header(whole, PATH)
        for length in range(len(whole)):
            refusal(whole[:length])

    def test_truncation_names_the_key(self) -> None:
        whole = gguf_bytes([ARCHITECTURE, key("llama.block_count", raw.UINT32, pack("<I", 2))], alignment=1)
        message = refusal(whole[:-1])
        assert "the value of key 'llama.block_count' takes 4 bytes from byte" in message
        assert f"past the end of the file ({len(whole) - 1} bytes)" in message

    @pytest.mark.parametrize("count", [10, 1 << 20, 1 << 40, 1 << 63, HUGE])
    def test_more_keys_than_there_is_room_for(self, count: int) -> None:
        assert f"claims {count} metadata keys" in refusal(gguf_bytes(num_keys=count))

    @pytest.mark.parametrize("count", [10, 1 << 20, 1 << 40, 1 << 63, HUGE])
    def test_more_tensors_than_there_is_room_for(self, count: int) -> None:
        assert f"claims {count} tensors" in refusal(gguf_bytes(num_tensors=count))

    def test_more_keys_and_tensors_than_anybody_needs(self) -> None:
        room = bytes(3 << 20)
        assert "reads at most 65536" in refusal(gguf_bytes(num_keys=1 << 17, data=room))
        assert "reads at most 65536" in refusal(gguf_bytes(num_tensors=(1 << 16) + 1, data=room))

    @pytest.mark.parametrize("length", [100, 1 << 31, 1 << 62, HUGE])
    def test_absurd_string_lengths(self, length: int) -> None:
        assert f"takes {length} bytes" in refusal(with_key("k", raw.STRING, pack("<Q", length) + b"abc"))
        in_array = with_key("k", raw.ARRAY, array(raw.STRING, 2, string("x") + pack("<Q", length)))
        assert f"the value of key 'k' takes {length} bytes" in refusal(in_array)
        assert f"metadata key 0 takes {length} bytes" in refusal(gguf_bytes([pack("<Q", length) + bytes(20)]))

    @pytest.mark.parametrize("kind", [raw.UINT8, raw.FLOAT64, raw.STRING, raw.BOOL])
    @pytest.mark.parametrize("count", [100, 1 << 31, 1 << 62, HUGE])
    def test_absurd_array_counts(self, kind: int, count: int) -> None:
        assert f"it claims {count} " in refusal(with_key("k", raw.ARRAY, array(kind, count, bytes(16))))

    def test_unknown_value_types(self) -> None:
        assert "key 'k' must be of a type from 0 to 12, found type 13" in refusal(with_key("k", 13, bytes(8)))
        assert "found type 99" in refusal(with_key("k", raw.ARRAY, array(99, 1, bytes(8))))

    def test_arrays_of_arrays(self) -> None:
        nested = with_key("k", raw.ARRAY, array(raw.ARRAY, 1, array(raw.UINT8, 1, b"x")))
        assert "'k' is an array of arrays" in refusal(nested, UnsupportedModelError)

    def test_nesting_without_end_is_no_recursion(self) -> None:
        refusal(with_key("k", raw.ARRAY, array(raw.ARRAY, 1, b"") * 100_000), UnsupportedModelError)

    def test_duplicate_key(self) -> None:
        assert "the key 'general.architecture' must be there once" in refusal(gguf_bytes([ARCHITECTURE, ARCHITECTURE]))

    def test_names_must_be_utf8_and_not_endless(self) -> None:
        assert "must be UTF-8, found b'\\xff'" in refusal(gguf_bytes([key(b"\xff", raw.UINT8, b"x")]))
        assert "at most 65535 bytes, found 65536" in refusal(gguf_bytes([key("k" * 65_536, raw.UINT8, b"x")]))
        assert len(refusal(gguf_bytes([key("k" * 65_000, 77, b"x")]))) < 300

    @pytest.mark.parametrize(
        ("kind", "payload", "found"),
        [
            (raw.UINT32, pack("<I", 0), "0"),
            (raw.UINT32, pack("<I", 4), "4"),
            (raw.UINT32, pack("<I", 33), "33"),
            (raw.INT32, pack("<i", -32), "-32"),
            (raw.STRING, string("x"), "'x'"),
            (raw.BOOL, b"\x01", "True"),
            (raw.FLOAT32, pack("<f", 32.0), "32.0"),
        ],
    )
    def test_bad_alignment(self, kind: int, payload: bytes, found: str) -> None:
        message = refusal(with_key("general.alignment", kind, payload))
        assert f"'general.alignment' must be a power of two of at least 8, found {found}" in message


class TestTensors:
    def test_shape_is_in_numpy_order_and_offset_absolute(self) -> None:
        data = gguf_bytes(tensors=[tensor("t", (32, 3), raw.Q4_0)], data=bytes(54))
        info = read_header(data, PATH).tensors["t"]
        assert info.shape == (3, 32)
        assert info.type is gguf.GGMLQuantizationType.Q4_0
        assert info.num_bytes == 3 * 18
        assert info.offset == len(data) - 54

    def test_own_alignment(self) -> None:
        keys = [ARCHITECTURE, key("general.alignment", raw.UINT32, pack("<I", 256))]
        data = gguf_bytes(keys, [tensor("t", (1,)), tensor("u", (1,), offset=256)], bytes(260), alignment=256)
        tensors = read_header(data, PATH).tensors
        assert (tensors["t"].offset, tensors["u"].offset) == (256, 512)

    def test_the_table_need_not_be_in_the_order_of_the_data(self) -> None:
        data = gguf_bytes(tensors=[tensor("t", (1,), offset=32), tensor("u", (1,))], data=bytes(36))
        assert list(read_header(data, PATH).tensors) == ["t", "u"]

    @pytest.mark.parametrize("num_dimensions", [0, 5, 1 << 31])
    def test_number_of_dimensions(self, num_dimensions: int) -> None:
        line = string("t") + pack("<I", num_dimensions) + bytes(100)
        message = refusal(gguf_bytes(tensors=[line]))
        assert f"the tensor 't' must have 1 to 4 dimensions, found {num_dimensions}" in message

    @pytest.mark.parametrize("shape", [(0,), (32, 0), (0, 0)])
    def test_empty_dimension(self, shape: tuple[int, ...]) -> None:
        assert "the tensor 't' must have no empty dimension" in refusal(gguf_bytes(tensors=[tensor("t", shape)]))

    @pytest.mark.parametrize("shape", [(HUGE,), (1 << 32, 1 << 32), (1 << 63, 2, 2, 2), (32, HUGE, HUGE, HUGE)])
    def test_sizes_that_overflow_64_bits(self, shape: tuple[int, ...]) -> None:
        end = math.prod(shape) * 4
        message = refusal(gguf_bytes(tensors=[tensor("t", shape)], data=bytes(64)))
        assert "the tensor 't' of shape" in message
        assert "but the file ends at byte" in message
        assert end > 1 << 63

    @pytest.mark.parametrize("kind", [4, 31, 99, 1 << 31])
    def test_unknown_type(self, kind: int) -> None:
        message = refusal(gguf_bytes(tensors=[tensor("t", (32,), kind)], data=bytes(128)), UnsupportedModelError)
        assert f"the tensor 't' is of the unknown type number {kind}" in message

    @pytest.mark.parametrize(("kind", "length", "block"), [(raw.Q4_0, 33, 32), (raw.Q4_K, 128, 256)])
    def test_row_that_is_no_multiple_of_the_block(self, kind: int, length: int, block: int) -> None:
        message = refusal(gguf_bytes(tensors=[tensor("t", (length, 256), kind)], data=bytes(1 << 16)))
        assert f"must have rows of a multiple of {block} weights, found {length}" in message

    def test_duplicate_tensor(self) -> None:
        lines = [tensor("t", (1,)), tensor("t", (1,), offset=32)]
        assert "the tensor 't' must be there once" in refusal(gguf_bytes(tensors=lines, data=bytes(36)))

    def test_unaligned_tensor(self) -> None:
        message = refusal(gguf_bytes(tensors=[tensor("t", (1,), offset=4)], data=bytes(64)))
        assert "the tensor 't' must begin at a multiple of 32 bytes, found the offset 4" in message

    def test_overlapping_tensors(self) -> None:
        lines = [tensor("t", (9,)), tensor("u", (1,), offset=32)]
        assert "the tensor 'u' begins at byte" in (message := refusal(gguf_bytes(tensors=lines, data=bytes(64))))
        assert "inside the tensor 't'" in message

    @pytest.mark.parametrize("offset", [64, 1 << 40, (1 << 64) - 32])
    def test_tensor_past_the_end(self, offset: int) -> None:
        message = refusal(gguf_bytes(tensors=[tensor("t", (16,), offset=offset)], data=bytes(64)))
        assert "the tensor 't' of shape (16,) takes bytes" in message
        assert "but the file ends at byte" in message

    def test_one_byte_short(self) -> None:
        data = gguf_bytes(tensors=[tensor("t", (16,))], data=bytes(64))
        read_header(data, PATH)
        refusal(data[:-1])


class TestCost:
    def test_header_beyond_the_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gguf_cursor, "MAX_HEADER_BYTES", 200)
        assert "past the longest header cera reads" in refusal(with_key("k", raw.STRING, string("x" * 300)))

    def test_nothing_is_allocated_on_the_word_of_the_file(self) -> None:
        keys = [ARCHITECTURE, key("a", raw.ARRAY, array(raw.STRING, 2, string("x") * 2))]
        data = gguf_bytes(keys, [tensor("t", (2, 3))], bytes(24))
        header_end = len(data) - 24
        read_header(data, PATH)
        tracemalloc.start()
        try:
            for value in (pack("<Q", HUGE), pack("<Q", 1 << 31), pack("<I", 1 << 28)):
                for position in range(4, header_end - len(value)):
                    changed = data[:position] + value + data[position + len(value) :]
                    with contextlib.suppress(ModelFileError):
                        read_header(changed, PATH)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
