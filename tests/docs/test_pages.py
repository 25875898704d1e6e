"""What the pages show runs, what they link to is there, and every page can be found."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cera_core.cli.application import create_app
from cera_core.config import load_config
from cera_core.engine import load
from support.environments import make_environment
from support.pages import PAGES, ROOT, Block, PageRunner, assert_printed, blocks_of, commands_of
from support.tiny_gguf import write_tiny_gguf

MODELS = ("smollm2-135m", "qwen2.5-coder-1.5b", "model.gguf")
INSTALLING_PAGES = {
    ROOT / "docs" / f"{name}.md"
    for name in ("tutorial/first-drafter", "how-to/ship-a-plugin", "how-to/debug-a-plugin", "how-to/write-a-backend")
}
OTHER_ENGINES = ROOT / "docs" / "how-to" / "use-in-another-engine.md"
"""Runs as a whole where the engines are: see tests/hosts; here, what needs none of them."""
LANGUAGES = {"python", "toml", "console", "text", "sh"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: object) -> str:
    return str(page.relative_to(ROOT)) if isinstance(page, Path) else str(page)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("pages") / "tiny.gguf", seed=2)


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, but for small files in place of the models that the pages name: a file wins over a name."""
    folder = tmp_path / "page"
    folder.mkdir()
    for name in MODELS:
        (folder / name).symlink_to(tiny_model)
    monkeypatch.chdir(folder)
    return folder


def run_page(runner: PageRunner, page: Path) -> None:
    for block in blocks_of(page):
        if page == OTHER_ENGINES and "HostedDrafter" not in block.text and not block.is_output:
            continue
        try:
            runner.run(block)
        except Exception as error:
            raise AssertionError(f"{name_of(page)}, block at line {block.line}: {error!r}") from error


@pytest.mark.parametrize("page", [page for page in PAGES if page not in INSTALLING_PAGES], ids=name_of)
def test_what_a_page_shows_runs(page: Path, folder: Path) -> None:
    run_page(PageRunner(folder), page)


@pytest.mark.install
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", sorted(INSTALLING_PAGES), ids=name_of)
def test_what_a_page_installs_runs(page: Path, folder: Path) -> None:
    run_page(PageRunner(folder, make_environment(folder.parent / "environment", shares_cera=True)), page)


SETTINGS = [
    pytest.param(page, block, id=f"{name_of(page)}:{block.line}")
    for page in PAGES
    for block in blocks_of(page)
    if block.file and Path(block.file).name == "cera.toml"
]


@pytest.mark.parametrize(("page", "block"), SETTINGS)
def test_settings_that_a_page_shows_are_valid(page: Path, block: Block, folder: Path) -> None:
    runner = PageRunner(folder)
    for shown in blocks_of(page):
        makes_file = shown.file or "cera corpus build" in shown.text
        if makes_file and shown.line <= block.line:  # the files that the settings name, and then the settings
            runner.run(shown)
    file = folder / "cera.toml"
    load_config(file)
    if page not in INSTALLING_PAGES:  # there the plugins that are named come first, and the page runs as a whole
        load(config=file)


def shell_commands(page: Path) -> list[list[str]]:
    """Returns the commands of `cera` in blocks of shell, which install it first and so are not run here."""
    lines = [line for block in blocks_of(page) if block.language == "sh" for line in block.text.splitlines()]
    commands = [shlex.split(command) for line in lines for command in line.split(" && ")]
    return [arguments for program, *arguments in commands if Path(program).name == "cera"]


def test_shell_commands_are_ones_that_cera_has() -> None:
    found = [arguments for page in PAGES for arguments in shell_commands(page)]
    assert found
    group: Any = get_command(create_app())
    for name, *arguments in found:
        context = group.make_context("cera", [])
        group.get_command(context, name).make_context(name, arguments)  # raises for what is not known


def test_the_plugin_of_the_tutorial_is_short() -> None:
    modules = [block for block in blocks_of(ROOT / "docs" / "tutorial" / "first-drafter.md") if block.file]
    assert 0 < max(block.text.count("\n") for block in modules if block.file == "cera_echo.py") < 70


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{name_of(page)}, line {block.line}"
        assert block.language != "toml" or block.file, f"{name_of(page)}, line {block.line}: what file is it?"


def anchors_of(page: Path) -> set[str]:
    """Returns the anchors that the headings of a page get on GitHub."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = page if not path else (page.parent / path).resolve()
        if re.match(r"https?://", link):
            continue
        if not target.is_relative_to(ROOT) or not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_listed_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text("utf-8"))}
    assert set(PAGES) - {index, ROOT / "README.md"} <= listed


class TestRunner:
    """The runner fails where a page is wrong."""

    def block(self, language: str, text: str, *, file: str | None = None, is_output: bool = False) -> Block:
        return Block(language, text, 1, file, is_output)

    def test_blocks_are_found_with_what_is_said_of_them(self, tmp_path: Path) -> None:
        page = tmp_path / "page.md"
        page.write_text(
            "# Title\n\n```python\nx = 1\n```\n\n<!-- file: a/b.toml -->\n```toml\ny = 2\n```\n"
            "<!-- prints -->\n\n```text\n3\n```\n"
        )
        first, second, third = blocks_of(page)
        assert (first.language, first.text, first.line, first.file) == ("python", "x = 1\n", 3, None)
        assert (second.language, second.file, second.is_output) == ("toml", "a/b.toml", False)
        assert third.is_output

    def test_python_shares_its_names_and_what_it_prints_is_compared(self, folder: Path) -> None:
        runner = PageRunner(folder)
        runner.run(self.block("python", "x = 1"))
        runner.run(self.block("python", "print(x + 1)"))
        runner.run(self.block("text", "2\n", is_output=True))
        with pytest.raises(AssertionError, match="expected:\n3"):
            runner.run(self.block("text", "3\n", is_output=True))

    def test_a_command_that_fails_is_noticed(self, folder: Path) -> None:
        with pytest.raises(AssertionError, match="'cera nonsense' ended with 2"):
            PageRunner(folder).run(self.block("console", "$ cera nonsense\n"))

    def test_commands_and_what_they_print(self) -> None:
        text = "$ one --flag \\\n  value\nfirst\nsecond\n$ two\n"
        assert list(commands_of(text)) == [("one --flag   value", "first\nsecond\n"), ("two", "")]

    @pytest.mark.parametrize("expected", ["", "a  b\nc\n", "...\nc", "a b\n...", "...", "a b\n...\nc", "a...\nc"])
    def test_what_may_be_printed(self, expected: str) -> None:
        assert_printed("a b  \nc\n", expected)

    @pytest.mark.parametrize("expected", ["a b", "c", "a b\nd", "...\nb", "ab\nc", "a...c"])
    def test_what_may_not_be_printed(self, expected: str) -> None:
        with pytest.raises(AssertionError):
            assert_printed("a b  \nc\n", expected)
