"""The chat template of a model file: turns messages into the one text the model was trained to continue.

Templates are code from a stranger, so they run in Jinja's immutable sandbox: no imports, no files, no attributes that
lead out of it. The output is bounded, and so is one `range`; time is not (nested ranges can take for ever), nor is a
string that is built and not written (`'a' * 10**9`).

What templates may use is what Hugging Face's `apply_chat_template` gives them:
https://huggingface.co/docs/transformers/chat_templating_writing. This module knows nothing of token ids.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from cera_core.errors import CeraError, InvalidInputError, ModelFileError
from cera_core.foreign_errors import error_line
from cera_core.modelfile.unicode_text import require_unicode
from cera_core.modelfile.vocabulary import SHIELD, TokenType, any_of, read_special_token, read_tokens_of_type

if TYPE_CHECKING:
    from jinja2.parser import Parser

    from cera_core.modelfile.gguf import ModelFile

MAX_RENDERED_LENGTH = 1 << 26
"""The most characters a template may write."""

_KEY = "tokenizer.chat_template"


class ChatTemplate:
    """A chat template, ready to be used; made by `load_chat_template`."""

    def __init__(
        self,
        source: str,
        *,
        origin: str,
        bos_token: str = "",
        eos_token: str = "",
        control_tokens: Collection[str] = (),
    ) -> None:
        """Compiles a template.

        Args:
            source: The text of the template.
            origin: Where it comes from, for messages.
            bos_token: The name of the token that begins a text.
            eos_token: The name of the token that ends a text.
            control_tokens: The names that must not be read as tokens where they stand in a message.

        Raises:
            ModelFileError: The source is no Jinja template.
        """
        self._origin = origin
        self._special_tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._control_tokens = any_of(control_tokens)
        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise ModelFileError(f"{origin} is no Jinja template: {error.message} (line {error.lineno}).") from error

    def render(self, messages: Sequence[Mapping[str, str]], add_generation_prompt: bool = True) -> str:
        """Returns the text for a conversation.

        Where a message has the name of a control token in it, U+FDD0 is put between its letters;
        `ModelTokenizer.encode` with `parse_special` takes it out again, but does not read the name as a token.

        Args:
            messages: In order, each with `role` and `content`.
            add_generation_prompt: End where the answer of the model begins.

        Raises:
            InvalidInputError: There are no messages, one is not usable, or the template refuses them.
            ModelFileError: The template fails, or writes more than `MAX_RENDERED_LENGTH` characters.
        """
        _check(messages)
        context = {
            "messages": [{key: self._shielded(text) for key, text in message.items()} for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
            **self._special_tokens,
        }
        try:
            return self._bounded(self._template.generate(context))
        except CeraError:
            raise
        except Exception as error:  # the template is foreign code and may fail in any way
            raise ModelFileError(f"{self._origin} failed on these messages: {error_line(error)}") from error

    def _bounded(self, parts: Any) -> str:
        rendered, length = [], 0
        for part in parts:
            rendered.append(part)
            length += len(part)
            if length > MAX_RENDERED_LENGTH:
                raise ModelFileError(f"{self._origin} must write at most {MAX_RENDERED_LENGTH} characters.")
        return "".join(rendered)

    def _shielded(self, text: str) -> str:
        return self._control_tokens.sub(lambda name: SHIELD.join((*name[0], "")), text)


def load_chat_template(model_file: ModelFile) -> ChatTemplate | None:
    """Makes the chat template of a model file; None if it has none.

    Raises:
        ModelFileError: The template does not parse, or the vocabulary is damaged.
    """
    source = model_file.get(_KEY, str, "")
    if not source:
        return None
    return ChatTemplate(
        source,
        origin=f"Model file {str(model_file.path)!r}: the template {_KEY!r}",
        bos_token=read_special_token(model_file, "bos"),
        eos_token=read_special_token(model_file, "eos"),
        control_tokens=read_tokens_of_type(model_file, TokenType.CONTROL),
    )


class _Generation(Extension):
    """Lets `{% generation %}` through, which marks the model's own words for training and writes nothing."""

    tags = {"generation"}  # noqa: RUF012 - declared so by Jinja

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)  # Jinja's own escapes for HTML


def _raise_exception(message: str) -> NoReturn:
    raise InvalidInputError(f"The chat template refuses these messages: {message}")


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _check(messages: Sequence[Mapping[str, str]]) -> None:
    if not messages:
        raise InvalidInputError("A chat must have at least one message, found none.")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not {"role", "content"} <= message.keys():
            raise InvalidInputError(f"A message must have 'role' and 'content', found {message!r} as message {index}.")
        for key, value in message.items():
            if not isinstance(value, str):
                raise InvalidInputError(f"In a message {key!r} must be a string, found {value!r} in message {index}.")
            require_unicode(value, f"In a message {key!r}", f" in message {index}")
