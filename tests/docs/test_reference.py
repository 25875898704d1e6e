"""The reference pages say what the live settings, plugins and commands say."""

import sys
from itertools import pairwise
from pathlib import Path

import generate
import pytest

from cera_core.config import load_config, user_config_file
from cera_core.config_layers import RESERVED_VARIABLES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("page", generate.PAGES)
def test_tables_are_as_the_live_ones(page: str) -> None:
    written = (REFERENCE / page).read_text(encoding="utf-8")
    assert written == generate.rendered(page), "Run `python docs/reference/generate.py`."


@pytest.mark.parametrize("page", generate.PAGES)
def test_every_row_of_a_table_is_on_one_line(page: str) -> None:
    lines = (REFERENCE / page).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("|") != line.endswith("|")] == []


@pytest.mark.parametrize("page", generate.PAGES)
def test_every_table_has_a_row(page: str) -> None:
    lines = (REFERENCE / page).read_text(encoding="utf-8").splitlines()
    assert [line for line, following in pairwise(lines) if line.startswith("|---") and following[:1] != "|"] == []


def test_every_table_has_a_place() -> None:
    pages = "".join((REFERENCE / page).read_text(encoding="utf-8") for page in generate.PAGES)
    assert all(pages.count(f"<!-- begin {name} -->") == 1 for name in generate.SECTIONS)
    assert all(pages.count(f"<!-- end {name} -->") == 1 for name in generate.SECTIONS)


def test_every_variable_that_is_no_setting_is_named() -> None:
    page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    assert [name for name in sorted(RESERVED_VARIABLES) if f"| `{name}` |" not in page] == []


def test_the_example_is_a_usable_file(tmp_path: Path) -> None:
    page = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    file = tmp_path / "cera.toml"
    file.write_text(page.split("```toml\n")[1].split("```")[0], encoding="utf-8")
    config = load_config(file, environ={})
    assert config.generation.stop == ("\n\n",)
    assert config.drafters == {"prompt-lookup": {"ngram_max": 4}}


@pytest.mark.skipif(sys.platform != "linux", reason="the page names another folder for other systems")
def test_the_users_file_is_where_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    assert user_config_file() == Path.home() / ".config" / "cera" / "cera.toml"
