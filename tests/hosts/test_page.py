"""What the page about other engines shows runs, as far as the engines are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from support.pages import ROOT, Block, PageRunner, blocks_of
from support.tiny_gguf import write_tiny_gguf

PAGE = ROOT / "docs" / "how-to" / "use-in-another-engine.md"
SHOWN = [block for block in blocks_of(PAGE) if block.language == "python" and "HostedDrafter" not in block.text]
pytestmark = [pytest.mark.hosts, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize("block", SHOWN, ids=lambda block: f"line {block.line}")
def test_what_the_page_shows_runs(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = "llama_cpp" if "llama_cpp" in block.text else "transformers"
    if importlib.util.find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    write_tiny_gguf(tmp_path / "model.gguf", seed=2)
    monkeypatch.chdir(tmp_path)
    PageRunner(tmp_path).run(block)
