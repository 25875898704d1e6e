"""Makes `run.svg`, the picture of the README, from a real run of `cera run --show-drafts` in a terminal.

    python docs/images/picture.py

It needs the default model, and a system with pseudo-terminals.
"""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.text import Text

PROMPT = "Write the days of the week, each with the sentence 'is a good day to learn something new.'"
ARGUMENTS = ["run", "--show-drafts", PROMPT]
NUM_COLUMNS = 104
FILE = Path(__file__).parent / "run.svg"


def terminal_output(arguments: list[str]) -> str:
    """Runs `cera` in a pseudo-terminal; returns what it wrote there, colours included."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, NUM_COLUMNS, 0, 0))
    settings = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "cera_core.cli.main", *arguments]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=os.environ | settings) as process:
        os.close(theirs)
        output = b""
        while chunk := _read(ours):
            output += chunk
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {output.decode()}")
    return output.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end was closed
        return b""


def picture(output: str) -> str:
    """Draws what a terminal shows; no font is fetched from anywhere."""
    console = Console(record=True, width=NUM_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(f'$ cera run --show-drafts "{PROMPT}"\n', style="bold", markup=False, highlight=False)
    console.print(Text.from_ansi(output))
    svg = console.export_svg(title="cera", unique_id="run")
    return re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.DOTALL)


if __name__ == "__main__":
    FILE.write_text(picture(terminal_output(ARGUMENTS)), encoding="utf-8")
