"""Memory of earlier answers: what was said once is drafted again, in any session and, if saved, any process.

A memory holds the token ids of answers, each with the `NGRAM` tokens before it, by which its beginning is found. It is
off unless a namespace is given, bounded in bytes, and forgets the oldest answers first. Of two processes that save the
same namespace the last one wins.
It knows nothing of engines or settings.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from cera_core.drafter import NO_DRAFT, Draft, IncrementalDrafter
from cera_core.drafting.confidence import copy_confidence
from cera_core.errors import InvalidInputError
from cera_core.files import cache_folder, check_can_be_replaced, replacing

FORMAT = 1
NGRAM = 3
"""Tokens that must match: fewer are alike in any two texts."""
MAX_MATCH = 32
"""Matching tokens that are counted: more would not make the draft any surer."""
BYTES_PER_TOKEN = 256
"""What a token takes with its entry in the index, measured as an upper bound on 64-bit CPython."""
_MAX_HEADER = 1000


class Memory:
    """Earlier answers of models with one vocabulary; may be used by several threads.

    Args:
        tokenizer_fingerprint: Names the vocabulary.
        max_bytes: The most it holds, the index included.
    """

    def __init__(self, tokenizer_fingerprint: str, max_bytes: int) -> None:
        self._fingerprint = tokenizer_fingerprint
        self._max_tokens = max_bytes // BYTES_PER_TOKEN
        self._answers: deque[array[int]] = deque()
        self._last_places: dict[bytes, tuple[array[int], int]] = {}
        self._num_tokens = 0
        self._lock = threading.Lock()

    @property
    def num_answers(self) -> int:
        """How many answers are remembered."""
        return len(self._answers)

    def memory_bytes(self) -> int:
        """Returns about the size in bytes, never above `max_bytes`."""
        return self._num_tokens * BYTES_PER_TOKEN

    def add(self, token_ids: Sequence[int]) -> None:
        """Remembers an answer; the oldest go where there is no room. Of one too long by itself the end is kept."""
        answer = array("i", token_ids[max(len(token_ids) - self._max_tokens, 0) :])
        if len(answer) <= NGRAM:
            return
        with self._lock:
            self._answers.append(answer)
            self._num_tokens += len(answer)
            for end in range(NGRAM, len(answer)):
                self._last_places[_key(answer, end)] = answer, end
            while self._num_tokens > self._max_tokens:
                self._forget(self._answers.popleft())

    def _forget(self, answer: array[int]) -> None:
        self._num_tokens -= len(answer)
        for end in range(NGRAM, len(answer)):
            key = _key(answer, end)
            if (place := self._last_places.get(key)) and place[0] is answer:
                del self._last_places[key]

    def find(self, last_tokens: array[int]) -> tuple[array[int], int] | None:
        """Returns the answer that held the last `NGRAM` of some tokens most recently, and where it went on."""
        if len(last_tokens) < NGRAM:
            return None
        return self._last_places.get(_key(last_tokens, len(last_tokens)))

    def save(self, path: Path) -> None:
        """Writes the answers to a file, which is replaced at once.

        Raises:
            InvalidInputError: It cannot be written.
        """
        with self._lock:
            answers = list(self._answers)
        header = {"format": FORMAT, "tokenizer": self._fingerprint, "num_answers": len(answers)}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(json.dumps(header).encode() + b"\n")
                for answer in answers:
                    file.write(json.dumps(answer.tolist(), separators=(",", ":")).encode() + b"\n")
        except OSError as error:
            raise _not_written(path, error) from error

    def load(self, path: Path) -> None:
        """Adds the answers of a file; nothing if there is none.

        Raises:
            InvalidInputError: It is of another format or tokenizer, or damaged.
        """
        try:
            with path.open("rb") as file:
                self._check_header(file.readline(_MAX_HEADER), path)
                answers = [_answer(line) for line in file]
        except FileNotFoundError:
            return
        except InvalidInputError:
            raise
        except OSError as error:
            raise InvalidInputError(f"The memory '{path}' cannot be read: {error.strerror}.") from error
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise InvalidInputError(f"The memory '{path}' is damaged. Delete the file.") from error
        for answer in answers:
            self.add(answer)

    def _check_header(self, line: bytes, path: Path) -> None:
        header = json.loads(line)
        for key, subject, wanted in (("format", "format", FORMAT), ("tokenizer", "tokenizer", self._fingerprint)):
            if header.get(key) != wanted:
                raise InvalidInputError(
                    f"The memory '{path}' must be of the {subject} {wanted!r}, found {header.get(key)!r}. Choose "
                    "another namespace, or delete the file."
                )


class MemoryDrafter(IncrementalDrafter):
    """Drafts what followed the last few tokens in the most recent answer that held them.

    Args:
        memory: Shared by all sessions.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def clone(self) -> MemoryDrafter:
        """Makes a drafter that shares the memory."""
        return MemoryDrafter(self._memory)

    def extend(self, new_tokens: Sequence[int]) -> None:
        """Has nothing to do: the index is the memory's."""

    def truncate(self, length: int) -> bool:
        """Has nothing to do."""
        del length
        return True

    def propose(self, max_k: int) -> Draft:
        """Drafts what stands after the place found; nothing where there is none."""
        place = self._memory.find(self.history)
        if place is None:
            return NO_DRAFT
        answer, start = place
        token_ids = answer[start : start + max_k].tolist()
        match_length = self._match_length(answer, start)
        return Draft(
            token_ids,
            confidences=[copy_confidence(match_length + ahead, 1.0, 1) for ahead in range(len(token_ids))],
            match_length=match_length,
            source=f"memory[{start}:{start + len(token_ids)}]",
        )

    def _match_length(self, answer: array[int], start: int) -> int:
        """Counts the tokens that are the same before the place and at the end of the history, up to `MAX_MATCH`."""
        history, end = self.history, len(self.history)
        most = min(start, end, MAX_MATCH)
        differing = (length for length in range(most) if answer[start - 1 - length] != history[end - 1 - length])
        return next(differing, most)


def memory_path(namespace: str) -> Path:
    """Returns the file of a namespace, in the cache folder."""
    return cache_folder() / "memories" / f"{namespace}.jsonl"


def check_memory_can_be_saved(namespace: str) -> None:
    """Tries the place of a memory before there is an answer to lose.

    Raises:
        InvalidInputError: It cannot be written.
    """
    path = memory_path(namespace)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        check_can_be_replaced(path)
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(
        f"The memory '{path}' cannot be written: {error.strerror}. Check the folder, or set CERA_CACHE_DIR to another."
    )


def _key(tokens: array[int], end: int) -> bytes:
    return tokens[end - NGRAM : end].tobytes()


def _answer(line: bytes) -> array[int]:
    answer = array("i", json.loads(line))
    if min(answer, default=0) < 0:
        raise ValueError("a negative id")
    return answer
