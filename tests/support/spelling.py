"""A tokenizer whose every token spells what the test says."""

from __future__ import annotations

import codecs
from collections.abc import Collection, Sequence


class SpellingDecoder:
    """Turns the bytes of tokens into characters as they become complete."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def is_pending(self) -> bool:
        return bool(self._utf8.getstate()[0])

    def push(self, token_id: int) -> str:
        return self._utf8.decode(self._pieces[token_id])

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


class SpellingTokenizer:
    """Spells token i as `pieces[i]`.

    Args:
        pieces: Text or, for parts of characters, bytes.
        end_ids: The tokens that end an answer.
        bos_id: Is put before text that begins a history.
    """

    def __init__(self, pieces: Sequence[str | bytes], end_ids: Collection[int] = (), bos_id: int | None = None) -> None:
        self.pieces = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        self.end_ids = frozenset(end_ids)
        self.bos_id = bos_id
        self.vocab_size = len(pieces)
        self.fingerprint = "spelling"

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Takes the longest piece that fits, from left to right."""
        del parse_special
        rest = text.encode()
        ids = [self.bos_id] if add_special and self.bos_id is not None else []
        while rest:
            fitting = [token_id for token_id, piece in enumerate(self.pieces) if piece and rest.startswith(piece)]
            ids.append(max(fitting, key=lambda token_id: len(self.pieces[token_id])))
            rest = rest[len(self.pieces[ids[-1]]) :]
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        return b"".join(self.pieces[token_id] for token_id in token_ids).decode("utf-8", "replace")

    def stream_decoder(self) -> SpellingDecoder:
        return SpellingDecoder(self.pieces)
