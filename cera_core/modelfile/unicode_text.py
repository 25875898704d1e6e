"""What a text must be before it is turned into tokens; knows nothing of vocabularies."""

from __future__ import annotations

import re

from cera_core.errors import InvalidInputError

LONGEST_SPACE = 9_900_000
"""Characters of white space in a row: the regexes of most vocabularies give up at ten million."""

_SPACE = re.compile(r"\s+")


def require_unicode(text: str, subject: str = "Text", where: str = "") -> None:
    """Raises for what no encoding can write.

    Args:
        text: The text.
        subject: What it is, for messages.
        where: Is said after the position.

    Raises:
        InvalidInputError: It is no text, or there is half a surrogate pair in it.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"{subject} must be a str, found {type(text).__name__}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{subject} must be Unicode without lone surrogates, found {text[error.start]!r} at position "
            f"{error.start}{where}. Decode the text with errors='replace' where it is read."
        ) from error


def require_short_space(text: str) -> None:
    """Raises for more white space in a row than a regex can take; costs nothing for a text of usual length.

    Raises:
        InvalidInputError: There is more than `LONGEST_SPACE` of it.
    """
    if len(text) <= LONGEST_SPACE:
        return
    for space in _SPACE.finditer(text):
        if space.end() - space.start() > LONGEST_SPACE:
            raise InvalidInputError(
                f"Text must have at most {LONGEST_SPACE:,} characters of white space in a row, found more from "
                f"position {space.start()} on. Shorten them."
            )
