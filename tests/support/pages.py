"""Runs what a page of the documentation shows, block by block.

A block of `python` is run, one of `console` is a sequence of commands after `$`, each with what it must print below it.
A comment before a block says more:

* `<!-- file: NAME -->`: the block is the content of a file, and is written;
* `<!-- prints -->`: the block is what the `python` block before it must print.

In what is printed, `...` stands for anything, on a line of its own for any lines.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.environments import Environment

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"(?:^<!-- *(?P<note>[^>]*?) *-->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int
    file: str | None
    is_output: bool


def blocks_of(page: Path) -> Iterator[Block]:
    """Yields the blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        note = match["note"] or ""
        yield Block(
            language=match["language"],
            text=match["text"],
            line=text.count("\n", 0, match.start("text")),
            file=note.removeprefix("file:").strip() if note.startswith("file:") else None,
            is_output=note == "prints",
        )


@dataclass
class PageRunner:
    """Runs the blocks of one page in a folder.

    Attributes:
        folder: The working directory, already the process's own.
        environment: Where commands and Python run; None is this process, with commands of `cera` only.
    """

    folder: Path
    environment: Environment | None = None
    _namespace: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    _printed: str = ""

    def run(self, block: Block) -> None:
        """Runs one block.

        Raises:
            AssertionError: It did not print what the page says, or a command failed.
        """
        if block.file is not None:
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.is_output:
            assert_printed(self._printed, block.text)
        elif block.language == "python":
            self._printed = self._run_python(block)
        elif block.language == "console":
            for command, expected in commands_of(block.text):
                assert_printed(self._run_command(command), expected)

    def _run_python(self, block: Block) -> str:
        if self.environment is not None:
            return self.environment.run("python", "-c", block.text, cwd=self.folder).stdout
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, f"block at line {block.line}", "exec"), self._namespace)
        return printed.getvalue()

    def _run_command(self, command: str) -> str:
        program, *arguments = shlex.split(command)
        if self.environment is not None:
            return self.environment.run(program, *arguments, cwd=self.folder).stdout
        assert program == "cera", f"only 'cera' is run here, not {command!r}"
        process = subprocess.run(
            [sys.executable, "-m", "cera_core.cli.main", *arguments],
            cwd=self.folder,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert process.returncode == 0, f"{command!r} ended with {process.returncode}: {process.stderr}"
        return process.stdout


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Yields each command of a `console` block with what it prints."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, expected = part.replace("\\\n", "").partition("\n")
        yield command, expected


def assert_printed(printed: str, expected: str) -> None:
    """Raises `AssertionError` unless `printed` is `expected`, where anything may stand for `...`.

    Spaces at the ends of lines and how many there are in a row do not count. Nothing expected allows anything.
    """
    lines = [" ".join(line.split()) for line in expected.strip().splitlines()]
    if not lines:
        return
    parts = [".*" if line == "..." else re.escape(line).replace(r"\.\.\.", "[^\n]*") for line in lines]
    found = "\n".join(" ".join(line.split()) for line in printed.strip().splitlines())
    assert re.fullmatch("\n?".join(parts), found, re.S), f"expected:\n{expected}\nfound:\n{printed}"
