"""Runs `cera` in this process and in one of its own, away from the settings of whoever runs the tests."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from cera_core.cli.main import main
from support.plugin_package import install_plugin
from support.tiny_gguf import write_tiny_gguf

TABLE_BACKEND = """
import time
from cera_core.hookspecs import hookimpl
from cera_core.specs import ModelSpec, PluginOptions
from cera_core.testing.fakes import TableModel

class Options(PluginOptions):
    seconds: float = 0.0  # a forward takes this long
    order: int = 500  # tokens that count; with 1 the text soon repeats itself

class SlowTableModel(TableModel):
    seconds = 0.0

    def forward(self, token_ids, state):
        time.sleep(self.seconds)
        return super().forward(token_ids, state)

def load(model_file, options):
    model = SlowTableModel(vocab_size=320, order=options.order, max_seq_len=512)
    model.seconds = options.seconds
    return model

@hookimpl
def cera_register_models(register):
    register(ModelSpec(name="table", summary="A table.", load=load, options=Options, priority=1000))
"""


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
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where plugins can be installed, for this process and those that `cera_process` starts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("plugin_")]:
        del sys.modules[name]


@pytest.fixture
def table_backend(plugin_folder: Path) -> None:
    """Makes `auto` a backend that is fast, and whose text depends on every token before it."""
    install_plugin(plugin_folder, "table", TABLE_BACKEND)


@pytest.fixture
def cera(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cera:
    """Runs a command in this process."""

    def run(*arguments: object, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin.encode())))
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
