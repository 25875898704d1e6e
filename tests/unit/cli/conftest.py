"""Runs `cera` in this process and in one of its own, away from the settings of whoever runs the tests."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cera_core.cli.main import main
from support.tiny_gguf import write_tiny_gguf


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


Cera = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every test in an empty folder; the user's own settings are hidden from all tests."""
    working_directory = tmp_path / "work"
    working_directory.mkdir()
    monkeypatch.chdir(working_directory)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture
def cera(capsys: pytest.CaptureFixture[str]) -> Cera:
    """Runs a command in this process."""

    def run(*arguments: str) -> Outcome:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return run


@pytest.fixture
def cera_process(tmp_path: Path) -> Cera:
    """Runs a command in a process of its own, whose module search path begins with the test's folder."""

    def run(*arguments: str, stdin: str = "", **environment: str) -> Outcome:
        process = subprocess.run(
            [sys.executable, "-m", "cera_core.cli.main", *arguments],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": str(tmp_path)} | environment,
            check=False,
            timeout=60,
        )
        return Outcome(process.returncode, process.stdout, process.stderr)

    return run
