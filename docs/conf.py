"""Builds these pages as a site: sphinx-build -W -b html docs FOLDER (the extra `docs` has what it needs)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import cera_core

project = "cera"
author = "the authors of cera"
release = cera_core.__version__

extensions = ["myst_parser"]
exclude_patterns = ["images/*.py", "reference/*.py"]
html_theme = "furo"
html_title = f"cera {release}"
myst_heading_anchors = 4
nitpicky = True

_DOCS = Path(__file__).parent
_LINK = re.compile(r"\]\(([\w./-]+\.md)\)")


def add_contents(app: Any, page: str, source: list[str]) -> None:
    """Makes the lists of the first page the site's contents, so that both have the same pages in the same order."""
    if page == "index":
        for title, links in re.findall(r"^([\w ]+):\n\n((?:- .*\n)+)", source[0], re.MULTILINE):
            pages = "\n".join(_LINK.findall(links))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def setup(app: Any) -> None:
    """Registers what this file adds to Sphinx."""
    app.connect("source-read", add_contents)
