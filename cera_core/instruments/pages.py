"""Writes a page of HTML from a template of this package. What is put into it is escaped, drawings excepted."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from cera_core.errors import InvalidInputError

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""Those of Okabe and Ito, which people with any kind of colour vision can tell apart.

https://jfly.uni-koeln.de/color/
"""


def check_page_can_be_written(path: Path) -> None:
    """Tries the place of a page before there is something to put on it; leaves everything as it is.

    Raises:
        InvalidInputError: It cannot be written.
    """
    was_there = path.exists()
    try:
        path.open("a", encoding="utf-8").close()
        if not was_there:
            path.unlink()
    except OSError as error:
        raise _not_written(path, error) from error


def write_page(path: Path, template: str, **values: Any) -> None:
    """Fills a template and writes the file.

    Raises:
        InvalidInputError: The file cannot be written.
    """
    text = _template(template).render(values)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"'{path}' cannot be written: {error.strerror}. Check the path.")


def _template(name: str) -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string((files(__package__) / name).read_text(encoding="utf-8"))
