"""Memory of earlier answers: what it finds, what it forgets, and its file."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cera_core.drafting.memory import BYTES_PER_TOKEN, NGRAM, Memory, MemoryDrafter
from cera_core.errors import InvalidInputError
from cera_core.testing import DrafterSuite
from cera_core.testing.drafter_checks import sample_histories

PLENTY = 2**20


def memory_of(*answers: list[int], max_bytes: int = PLENTY) -> Memory:
    memory = Memory("fingerprint", max_bytes)
    for answer in answers:
        memory.add(answer)
    return memory


def ids(memory: Memory, history: list[int], max_k: int = 8) -> list[int]:
    return list(MemoryDrafter(memory).draft(history, max_k).token_ids)


class TestContract(DrafterSuite):
    @pytest.fixture
    def make_drafter(self) -> Any:
        memory = memory_of(*sample_histories().values())
        return lambda: MemoryDrafter(memory)


def test_what_followed_in_an_earlier_answer_is_drafted() -> None:
    draft = MemoryDrafter(memory_of([9, 1, 2, 3, 4, 5])).draft([7, 1, 2, 3], 8)
    assert (list(draft.token_ids), draft.match_length, draft.source) == ([4, 5], 3, "memory[4:6]")
    assert draft.confidences is not None
    assert draft.confidences[0] < draft.confidences[1]


def test_most_recent_answer_wins() -> None:
    assert ids(memory_of([1, 2, 3, 4], [1, 2, 3, 5]), [1, 2, 3]) == [5]


def test_fewer_tokens_than_an_ngram_find_nothing() -> None:
    memory = memory_of([1, 2, 3, 4])
    assert ids(memory, [2, 3]) == ids(memory, []) == ids(memory, [8, 2, 3]) == []


def test_sessions_share_what_is_added_later() -> None:
    memory = memory_of()
    clone = MemoryDrafter(memory).clone()
    memory.add([1, 2, 3, 4])
    assert list(clone.draft([1, 2, 3], 8).token_ids) == [4]


def test_oldest_answers_go_first() -> None:
    answers = [[number] * 4 + [number + 1] for number in range(0, 90, 3)]
    memory = memory_of(*answers, max_bytes=10 * BYTES_PER_TOKEN)
    assert memory.num_answers == 2
    assert ids(memory, answers[-1][:4]) == answers[-1][4:]
    assert ids(memory, answers[0][:4]) == []


def test_end_of_an_answer_too_long_is_kept() -> None:
    memory = memory_of(list(range(100)), max_bytes=10 * BYTES_PER_TOKEN)
    assert ids(memory, [95, 96, 97]) == [98, 99]
    assert ids(memory, [85, 86, 87]) == []


@given(
    answers=st.lists(st.lists(st.integers(0, 2), max_size=12), max_size=12),
    max_tokens=st.integers(0, 30),
    history=st.lists(st.integers(0, 2), max_size=8),
)
def test_it_is_bounded_and_finds_what_plain_search_finds(
    answers: list[list[int]], max_tokens: int, history: list[int]
) -> None:
    memory = memory_of(*answers, max_bytes=max_tokens * BYTES_PER_TOKEN)
    assert memory.memory_bytes() <= max_tokens * BYTES_PER_TOKEN
    kept: list[list[int]] = []
    for answer in answers:
        end = answer[max(len(answer) - max_tokens, 0) :]
        kept += [end] if len(end) > NGRAM else []
        while sum(map(len, kept)) > max_tokens:
            kept.pop(0)
    found = [
        answer[end:]
        for answer in kept
        for end in range(NGRAM, len(answer))
        if len(history) >= NGRAM and answer[end - NGRAM : end] == history[-NGRAM:]
    ]
    assert memory.num_answers == len(kept)
    assert ids(memory, history, 20) == (found[-1] if found else [])


def test_size_is_below_what_it_reports() -> None:
    rng = Random(1)
    answers = [[rng.randrange(150_000) for _ in range(500)] for _ in range(40)]
    memory = memory_of(max_bytes=2**30)
    tracemalloc.start()
    try:
        for answer in answers:
            memory.add(answer)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < memory.memory_bytes() < 2 * held


class TestFile:
    def test_what_was_saved_is_loaded(self, tmp_path: Path) -> None:
        file = tmp_path / "folder" / "a.jsonl"
        memory_of([1, 2, 3, 4], [5, 6, 7, 8]).save(file)
        memory = memory_of()
        memory.load(file)
        assert memory.num_answers == 2
        assert ids(memory, [1, 2, 3]) == [4]
        assert [each.name for each in file.parent.iterdir()] == ["a.jsonl"]

    def test_missing_file_is_an_empty_memory(self, tmp_path: Path) -> None:
        memory = memory_of()
        memory.load(tmp_path / "none.jsonl")
        assert memory.num_answers == 0

    @pytest.mark.parametrize(("key", "subject"), [("format", "format"), ("tokenizer", "tokenizer")])
    def test_other_format_or_tokenizer_is_refused(self, tmp_path: Path, key: str, subject: str) -> None:
        file = tmp_path / "a.jsonl"
        memory_of([1, 2, 3, 4]).save(file)
        header, *lines = file.read_text().splitlines()
        file.write_text("\n".join([json.dumps(json.loads(header) | {key: "other"}), *lines]))
        with pytest.raises(InvalidInputError, match=rf"must be of the {subject} .* found 'other'.*delete the file"):
            memory_of().load(file)

    @pytest.mark.parametrize("damage", [b"", b"[1]\n", b"\xff", b'{"format": 1}', b'HEADER["a"]\n', b"HEADER[-1]\n"])
    def test_damaged_file_is_refused_and_nothing_is_taken_from_it(self, tmp_path: Path, damage: bytes) -> None:
        file = tmp_path / "a.jsonl"
        memory_of([1, 2, 3, 4]).save(file)
        file.write_bytes(damage.replace(b"HEADER", file.read_bytes()))
        memory = memory_of()
        with pytest.raises(InvalidInputError, match=r"a\.jsonl"):
            memory.load(file)
        assert memory.num_answers == 0

    def test_folder_that_cannot_be_written_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInputError, match="cannot be written"):
            memory_of([1, 2, 3, 4]).save(tmp_path / "file" / "a.jsonl")
