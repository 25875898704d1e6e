"""The pages that commands write are opened in a real browser, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.tiny_gguf import write_tiny_gguf

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.install,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


@pytest.fixture
def opened(tmp_path: Path) -> Callable[[Path], str]:
    """Opens a page and returns what the browser made of it; whatever it complains of is an error."""

    def open_page(page: Path) -> str:
        outcome = subprocess.run(
            [
                str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                "--disable-background-networking", "--disable-component-update", "--disable-sync",
                f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--dump-dom", page.as_uri(),
            ],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert "CONSOLE" not in outcome.stderr, outcome.stderr
        return outcome.stdout

    return open_page


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


def written_by(command: str, model: Path, page: Path, *arguments: str) -> Path:
    """Has a command write its page."""
    flags = ("-m", str(model), "--max-tokens", "24", "--ignore-eos", "--no-adaptive", "--html", str(page))
    subprocess.run(
        [sys.executable, "-m", "cera_core.cli.main", command, *flags, *arguments], check=True, capture_output=True
    )
    return page


def test_the_page_of_a_measurement(model: Path, tmp_path: Path, opened: Callable[[Path], str]) -> None:
    page = written_by("bench", model, tmp_path / "page.html", "--limit", "1", "--category", "copy", "--repeats", "1")
    dom = opened(page)
    assert len(re.findall("<svg", dom)) == 4
    assert "rows of a forward" in dom


def test_the_page_of_an_answer(model: Path, tmp_path: Path, opened: Callable[[Path], str]) -> None:
    dom = opened(written_by("explain", model, tmp_path / "page.html", "the text of the model and the text"))
    places = re.findall(r'href="#(r\d+)"', dom)
    assert places
    assert all(f'id="{place}"' in dom for place in places), "each piece of the text leads to its round"
