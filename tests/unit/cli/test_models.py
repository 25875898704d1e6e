"""`cera models` and `cera pull`: what can be fetched, fetching it, and how far that is."""

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest

from cera_core.cli import fetching, models
from cera_core.errors import DownloadError
from cera_core.modelfile import catalogue
from cera_core.modelfile.catalogue import CatalogueEntry
from cera_core.modelfile.download import Assembly

WEIGHTS = b"weights" * 1000


@dataclass(frozen=True)
class Shelf:
    """A source that needs no network."""

    content: bytes | None = WEIGHTS
    description: str = "the shelf"

    def fetch(self, assembly: Assembly, workspace: Path) -> None:
        assembly.begin("from the shelf")
        if self.content is None:
            raise DownloadError("it is empty")
        assembly.append(BytesIO(self.content))


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def entry(name: str, shelf: Shelf, terms: str | None = None) -> CatalogueEntry:
        return CatalogueEntry(
            name=name,
            description="A model on a shelf",
            license="Apache-2.0",
            file_name=f"{name}.gguf",
            size=len(WEIGHTS),
            sha256=hashlib.sha256(WEIGHTS).hexdigest(),
            sources=(shelf,),
            terms=terms,
        )

    entries = [entry("small", Shelf()), entry("gone", Shelf(None)), entry("bound", Shelf(), "https://example.org/t")]
    for module in (catalogue, models):
        monkeypatch.setattr(module, "CATALOGUE", {entry.name: entry for entry in entries})
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))


def test_pull_fetches_and_prints_the_path(cera: Callable[..., Any], tmp_path: Path) -> None:
    outcome = cera("pull", "small")
    path = tmp_path / "cache" / "models" / "small.gguf"
    assert (outcome.status, outcome.out) == (0, f"{path}\n")
    assert outcome.err == "Fetching small (0 MB, Apache-2.0).\n"
    assert path.read_bytes() == WEIGHTS


def test_pull_of_a_model_that_is_here_says_nothing_but_the_path(cera: Callable[..., Any]) -> None:
    first = cera("pull", "small")
    assert cera("pull", "small").__dict__ == {"status": 0, "out": first.out, "err": ""}


def test_pull_shows_a_bar_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    fetching.fetch("small")
    assert "from the shelf" in terminal.getvalue()
    assert "7.0/7.0 kB" in terminal.getvalue()


def test_pull_that_no_source_serves_is_one_paragraph(cera: Callable[..., Any]) -> None:
    outcome = cera("pull", "gone")
    assert (outcome.status, outcome.out) == (2, "")
    assert "The model 'gone' could not be fetched." in outcome.err
    assert "the shelf: it is empty" in outcome.err


def test_pull_of_a_model_with_terms_asks_for_them(cera: Callable[..., Any]) -> None:
    refused = cera("pull", "bound")
    assert refused.status == 2
    assert "`cera pull bound --accept-terms`" in refused.err
    assert cera("pull", "bound", "--accept-terms").status == 0


def test_pull_of_an_unknown_name_is_answered_with_a_near_one(cera: Callable[..., Any]) -> None:
    assert "Did you mean 'small'?" in cera("pull", "smal").err


def test_models_shows_what_is_here(cera: Callable[..., Any]) -> None:
    cera("pull", "small")
    header, *lines = cera("models").out.splitlines()
    assert header.split() == ["name", "size", "here", "license", "description"]
    assert {line.split()[0]: line.split()[3] for line in lines} == {"small": "yes", "gone": "no", "bound": "no"}


def test_models_as_json(cera: Callable[..., Any], tmp_path: Path) -> None:
    cera("pull", "small")
    small, gone, _ = json.loads(cera("models", "--json").out)
    assert small["path"] == str(tmp_path / "cache" / "models" / "small.gguf")
    assert gone["path"] is None
    assert small["size"] == len(WEIGHTS)
