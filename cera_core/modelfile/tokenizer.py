"""Text to token ids and back, as the vocabulary of a model file asks for.

What the encoder of the `tokenizers` package does not know is added here: control tokens are recognised only on
request, user-defined tokens always (they are ordinary text with an id of its own, as in llama.cpp), the longest first;
a beginning-of-sequence token is put in front where the file asks for one, and never doubled.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cera_core.errors import CeraWarning, InvalidInputError
from cera_core.modelfile.byte_pairs import byte_level_encoder, sentencepiece_encoder
from cera_core.modelfile.detokenize import Detokenizer, StreamDecoder
from cera_core.modelfile.pretokenizers import DEFAULT, PRETOKENIZERS
from cera_core.modelfile.unicode_text import require_short_space, require_unicode
from cera_core.modelfile.vocabulary import (
    BYTE_LEVEL,
    SENTENCEPIECE,
    SHIELD,
    WORD_START,
    TokenType,
    Vocabulary,
    any_of,
    read_vocabulary,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Encoder

    from cera_core.modelfile.gguf import ModelFile

__all__ = ["ModelTokenizer", "StreamDecoder", "load_tokenizer"]

_PRE = "tokenizer.ggml.pre"


class ModelTokenizer:
    """The tokenizer of a model file; made by `load_tokenizer`. Threads may share it.

    For any text, `decode(encode(text))` is `text` again, with two exceptions: where the vocabulary lacks a byte (see
    `byte_level_encoder`), and where a sentencepiece vocabulary has "▁" for a space. Such a vocabulary may also ask for
    a space before the text; `decode` takes it away after a beginning-of-sequence token, where it knows that the text
    begins, and keeps it elsewhere, where it may be what parts two words.

    Attributes:
        vocab_size: Number of token ids.
        fingerprint: Names the vocabulary: two tokenizers of one fingerprint give the same ids for the same text.
        bos_id: The token a text begins with, if there is one.
        end_ids: The tokens that end an answer.
    """

    def __init__(self, vocabulary: Vocabulary, encoder: Encoder, fingerprint: str) -> None:
        self.vocab_size = len(vocabulary.tokens)
        self.fingerprint = fingerprint
        self.bos_id = vocabulary.bos_id
        self.end_ids = vocabulary.end_ids
        self._vocabulary = vocabulary
        self._encoder = encoder
        self._detokenizer = Detokenizer(vocabulary)
        user_defined = vocabulary.ids_of_types(TokenType.USER_DEFINED)
        control = vocabulary.ids_of_types(TokenType.CONTROL, TokenType.UNKNOWN)
        self._id_of_name = {vocabulary.tokens[token_id]: token_id for token_id in (*user_defined, *control)}
        self._user_defined = any_of(vocabulary.tokens[token_id] for token_id in user_defined)
        self._user_defined_or_control = any_of(self._id_of_name)

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Turns text into ids.

        Args:
            text: Any Unicode text.
            add_special: Put the beginning-of-sequence token first, and the end-of-sequence token last, if the file
                asks for it and they are not there already.
            parse_special: Read the names of control tokens in `text` as those tokens. For text from a chat template:
                U+FDD0, which keeps such a name in a message from being read, is taken out.

        Raises:
            InvalidInputError: There is half a surrogate pair in the text, or more white space in a row than the
                regexes of a vocabulary can take (about ten million characters).
        """
        require_unicode(text)
        require_short_space(text)
        names = self._user_defined_or_control if parse_special else self._user_defined
        ids: list[int] = []
        for index, piece in enumerate(names.split(text)):
            if index % 2:  # `split` returns text and names in turn
                ids.append(self._id_of_name[piece])
            elif plain := piece.replace(SHIELD, "") if parse_special else piece:
                ids += self._encode_plain(plain)
        return self._with_special(ids) if add_special else ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Turns ids into text; bytes that are no UTF-8 become U+FFFD, control tokens nothing.

        Raises:
            InvalidInputError: An id is no integer or outside the vocabulary.
        """
        decoder = self.stream_decoder()
        try:
            return "".join([*map(decoder.push, token_ids), decoder.flush()])
        except TypeError as error:
            raise InvalidInputError(f"A sequence of token ids is required, found {token_ids!r:.80}.") from error

    def token_bytes(self, token_id: int) -> bytes:
        """Returns what a token adds to the text: nothing for a control token.

        Raises:
            InvalidInputError: The id is outside the vocabulary.
        """
        return self._detokenizer.token_bytes(token_id)

    def stream_decoder(self) -> StreamDecoder:
        """Makes a decoder for ids that come one by one."""
        return StreamDecoder(self._detokenizer)

    def _encode_plain(self, text: str) -> list[int]:
        if self._vocabulary.kind == SENTENCEPIECE:
            prefix = WORD_START if self._vocabulary.adds_space_prefix else ""
            text = prefix + text.replace(" ", WORD_START)
        try:
            return self._encoder.encode(text, add_special_tokens=False).ids
        except BaseException as error:  # a Rust panic is no `Exception`, and its class is not exported
            if type(error).__name__ != "PanicException":
                raise
            raise InvalidInputError(
                f"Text of {len(text)} characters could not be cut into words ({error}). Shorten it."
            ) from error

    def _with_special(self, ids: list[int]) -> list[int]:
        bos_id, eos_id = self._vocabulary.bos_id, self._vocabulary.eos_id
        if self._vocabulary.adds_bos and bos_id is not None and ids[:1] != [bos_id]:
            ids = [bos_id, *ids]
        if self._vocabulary.adds_eos and eos_id is not None and ids[-1:] != [eos_id]:
            ids = [*ids, eos_id]
        return ids


def load_tokenizer(model_file: ModelFile) -> ModelTokenizer:
    """Makes the tokenizer of a model file.

    A name in `tokenizer.ggml.pre` that is not known, or none at all, is a `CeraWarning`; then text is cut the way
    llama.cpp does it where there is no name.

    Raises:
        UnsupportedModelError: The vocabulary is of a kind cera does not know.
        ModelFileError: A key is missing, or keys do not fit together.
    """
    if model_file.get("tokenizer.ggml.model", str, "") != BYTE_LEVEL:
        vocabulary = read_vocabulary(model_file, adds_bos=True)
        encoder = sentencepiece_encoder(model_file, vocabulary)
    else:
        pretokenizer = PRETOKENIZERS[_pretokenizer_name(model_file)]
        vocabulary = read_vocabulary(model_file, adds_bos=pretokenizer.adds_bos)
        encoder = byte_level_encoder(model_file, vocabulary, pretokenizer)
    return ModelTokenizer(vocabulary, encoder, _fingerprint(model_file, vocabulary))


def _pretokenizer_name(model_file: ModelFile) -> str:
    name = model_file.get(_PRE, str, "")
    if name in PRETOKENIZERS:
        return name
    warnings.warn(
        f"Model file {str(model_file.path)!r}: the key {_PRE!r} names the pre-tokenizer {name!r}, which cera does not "
        f"know, so {DEFAULT!r} is used. Text may be cut into other tokens than the model was trained on."
        if name
        else f"Model file {str(model_file.path)!r}: the key {_PRE!r} is missing, so {DEFAULT!r} is used. "
        "Text may be cut into other tokens than the model was trained on.",
        CeraWarning,
        stacklevel=3,
    )
    return DEFAULT


def _fingerprint(model_file: ModelFile, vocabulary: Vocabulary) -> str:
    """Returns a hash of everything that `encode` and `decode` depend on."""
    scores = model_file.metadata.get("tokenizer.ggml.scores")
    content = {
        "kind": vocabulary.kind,
        "pre": model_file.metadata.get(_PRE),
        "special": [vocabulary.bos_id, vocabulary.eos_id, vocabulary.adds_bos, vocabulary.adds_eos],
        "space": vocabulary.adds_space_prefix,
        "tokens": list(vocabulary.tokens),
        "types": list(vocabulary.types),
        "merges": model_file.metadata.get("tokenizer.ggml.merges"),
        "scores": scores.tolist() if vocabulary.kind == SENTENCEPIECE and scores is not None else None,
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
