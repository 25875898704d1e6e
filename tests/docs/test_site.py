"""The site has every page in its contents, and the picture of the README is one of a run."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from xml.etree import ElementTree

import pytest

from support.pages import PAGES, ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    """The settings of the site, which need no Sphinx to be read."""
    spec = spec_from_file_location("conf", DOCS / "conf.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_contents_once(conf: ModuleType) -> None:
    source = [(DOCS / "index.md").read_text(encoding="utf-8")]
    conf.add_contents(None, "index", source)
    blocks = re.findall(r"^```\{toctree\}\n:hidden:\n:caption: ([\w ]+)\n\n(.*?)```", source[0], re.M | re.S)
    assert [title for title, _ in blocks] == ["Learn", "Do", "Look up", "Understand"]
    listed = [DOCS / page for _, pages in blocks for page in pages.split()]
    assert sorted(listed) == sorted(set(PAGES) - {ROOT / "README.md", DOCS / "index.md"})


def test_other_pages_stay_as_they_are(conf: ModuleType) -> None:
    source = ["Learn:\n\n- [x](y.md)\n"]
    conf.add_contents(None, "how-to/ship-a-plugin", source)
    assert source == ["Learn:\n\n- [x](y.md)\n"]


def test_picture_shows_guesses_and_fetches_nothing() -> None:
    text = (DOCS / "images" / "run.svg").read_text(encoding="utf-8")
    words = "".join(ElementTree.fromstring(text).itertext()).replace("\N{NO-BREAK SPACE}", " ")
    assert "cera run --show-drafts" in words
    assert re.search(r"accepted [1-9]\d* of \d+ tokens", words)
    assert "url(http" not in text
    assert "@font-face" not in text
