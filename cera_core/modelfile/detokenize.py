"""Turns tokens back into bytes, and bytes into text that can be shown while it grows.

Text is what the bytes of all tokens spell together: a character may be spread over several tokens, so what is not yet
complete is held back, and what was given stays. Control tokens have no bytes. This module does not know how text
becomes tokens.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from cera_core.errors import InvalidInputError
from cera_core.modelfile.vocabulary import BYTE_LEVEL, WORD_START, TokenType

if TYPE_CHECKING:
    from cera_core.modelfile.vocabulary import Vocabulary

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def _byte_of_character() -> Mapping[str, int]:
    """Returns the byte each character of a byte-level token stands for.

    Printable bytes stand for themselves, the others are numbered from U+0100 on:
    https://github.com/openai/gpt-2/blob/master/src/encoder.py
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    numbered = [byte for byte in range(256) if byte not in printable]
    return MappingProxyType(
        {chr(byte): byte for byte in printable} | {chr(0x100 + rank): byte for rank, byte in enumerate(numbered)}
    )


BYTE_OF_CHARACTER = _byte_of_character()
"""The byte each character of a byte-level token stands for."""


class StreamDecoder:
    """Turns the tokens of one text into characters as they come.

    What `push` and `flush` return, joined, is what `Detokenizer.decode` returns for the same ids.
    """

    def __init__(self, detokenizer: Detokenizer) -> None:
        self._detokenizer = detokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = True
        self._drops_space = False

    @property
    def is_pending(self) -> bool:
        """Whether the beginning of a character is held back."""
        return bool(self._utf8.getstate()[0])

    def push(self, token_id: int) -> str:
        """Returns the characters that are complete with this token; may be empty.

        Raises:
            InvalidInputError: The id is outside the vocabulary.
        """
        token_bytes = self._detokenizer.token_bytes(token_id)
        if self._at_start:
            self._at_start = False
            self._drops_space = self._detokenizer.text_has_space_prefix_after(token_id)
        if self._drops_space and token_bytes:
            self._drops_space = False
            token_bytes = token_bytes.removeprefix(b" ")
        return self._utf8.decode(token_bytes)

    def flush(self) -> str:
        """Ends the text: returns U+FFFD for a character that was never completed, else nothing."""
        return self._utf8.decode(b"", final=True)


class Detokenizer:
    """What each token of a vocabulary spells."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def token_bytes(self, token_id: int) -> bytes:
        """Returns what a token adds to the text: nothing for control tokens and the unknown token.

        Raises:
            InvalidInputError: The id is outside the vocabulary.
        """
        num_tokens = len(self._vocabulary.tokens)
        if not 0 <= token_id < num_tokens:
            raise InvalidInputError(f"A token id must be from 0 to {num_tokens - 1}, found {token_id}.")
        token = self._vocabulary.tokens[token_id]
        kind = self._vocabulary.types[token_id]
        if kind in (TokenType.CONTROL, TokenType.UNKNOWN):
            return b""
        if kind == TokenType.BYTE and (match := _BYTE_TOKEN.fullmatch(token)):
            return bytes.fromhex(match[1])
        if kind == TokenType.USER_DEFINED:
            return _utf8(token)
        if self._vocabulary.kind == BYTE_LEVEL:
            return _byte_level_bytes(token)
        return _utf8(token.replace(WORD_START, " "))

    def text_has_space_prefix_after(self, first_id: int) -> bool:
        """Returns whether ids that begin so are a whole text whose first space was put there by encoding it."""
        return self._vocabulary.adds_space_prefix and first_id == self._vocabulary.bos_id


def _byte_level_bytes(token: str) -> bytes:
    try:
        return bytes(map(BYTE_OF_CHARACTER.__getitem__, token))
    except KeyError:  # added by hand, not in the alphabet: it spells itself
        return _utf8(token)


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "surrogateescape")
