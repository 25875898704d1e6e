"""A small byte-level BPE vocabulary: every byte, pieces of common words, three control tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import gguf

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CONTROL_TOKENS = (END_OF_TEXT, IM_START, IM_END)

# ChatML: every message between <|im_start|>role and <|im_end|>.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' "
    "+ '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

_WORDS = (
    " the and of to in is that for it as with on be at by this have from or one had not but what all were when we "
    "there can an your which their if do will each about how up out them then she many some so these would other into "
    "return def self import class if else print range list name value text code line model token draft"
)


@dataclass
class Vocabulary:
    """What a GGUF file says of its tokens."""

    tokens: list[str] = field(default_factory=list)
    types: list[gguf.TokenType] = field(default_factory=list)
    merges: list[str] = field(default_factory=list)

    def add(self, token: str, kind: gguf.TokenType = gguf.TokenType.NORMAL) -> None:
        self.tokens.append(token)
        self.types.append(kind)

    def id_of(self, token: str) -> int:
        return self.tokens.index(token)


def byte_level_alphabet() -> list[str]:
    """Returns the character that stands for each byte in GPT-2's byte-level vocabularies.

    Printable bytes stand for themselves, the others are numbered from U+0100 on:
    https://github.com/openai/gpt-2/blob/master/src/encoder.py
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def tiny_vocabulary(size: int) -> Vocabulary:
    """Makes a vocabulary of exactly `size` tokens, at least 259; what the words do not fill stays unused."""
    if size < len(CONTROL_TOKENS) + 256:
        raise ValueError(f"A vocabulary must have at least {len(CONTROL_TOKENS) + 256} tokens, found {size}.")
    vocabulary = Vocabulary()
    for token in CONTROL_TOKENS:
        vocabulary.add(token, gguf.TokenType.CONTROL)
    alphabet = byte_level_alphabet()
    for character in alphabet:
        vocabulary.add(character)
    known = set(vocabulary.tokens)
    for word in _WORDS.split(" "):
        _add_word(vocabulary, known, alphabet[ord(" ")] + word, size)
    for index in range(len(vocabulary.tokens), size):
        vocabulary.add(f"[unused{index}]", gguf.TokenType.UNUSED)
    return vocabulary


def vocabulary_of_merges(merges: Sequence[str]) -> Vocabulary:
    """Makes the vocabulary that has what these merges make, besides every byte and the control tokens."""
    vocabulary = tiny_vocabulary(len(CONTROL_TOKENS) + 256)
    vocabulary.merges.extend(merges)
    for made in dict.fromkeys(merge.replace(" ", "") for merge in merges):
        vocabulary.add(made)
    return vocabulary


def _add_word(vocabulary: Vocabulary, known: set[str], word: str, size: int) -> None:
    """Adds the merges that build a word from left to right, as far as there is room."""
    for length in range(2, len(word) + 1):
        if word[:length] in known or len(vocabulary.tokens) == size:
            continue
        vocabulary.merges.append(f"{word[: length - 1]} {word[length - 1]}")
        vocabulary.add(word[:length])
        known.add(word[:length])
