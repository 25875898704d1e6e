"""The console script: help, plugin commands, and how every ending is told."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from cera_core.cli import command_group
from cera_core.cli.command_group import BUILT_IN
from cera_core.discovery import discover
from cera_core.errors import ConfigError, MissingModelError
from support.plugin_package import install_plugin
from support.tiny_gguf import write_tiny_gguf

HELLO = """
from cera_core.hookspecs import hookimpl

@hookimpl
def cera_register_commands(app):
    @app.command()
    def hello(name: str = "world"):
        "Says hello."
        print(f"hello {name}")
"""


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_every_command_with_its_summary(cera: Callable[..., Any], arguments: list[str]) -> None:
    outcome = cera(*arguments)
    assert outcome.status == 0
    for name, summary in BUILT_IN.items():
        assert f"  {name} " in outcome.out
        assert summary in outcome.out


def test_version(cera: Callable[..., Any]) -> None:
    assert cera("--version").out == "cera 0.1.0\n"


def test_help_imports_no_plugin_and_nothing_heavy(tmp_path: Path) -> None:
    heavy = ["pydantic", "numpy", "tokenizers", "rich", "jinja2", "pluggy", "cera_numpy", "cera_prompt_lookup"]
    code = (
        "import sys; from cera_core.cli.main import main; main(['--help']);"
        f"sys.exit(', '.join(name for name in {heavy} if name in sys.modules) or 0)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=_environment(tmp_path)
    )
    assert process.returncode == 0, process.stderr
    assert process.stderr.strip() == ""


@pytest.mark.alone
def test_help_is_there_before_one_notices(cera_process: Callable[..., Any]) -> None:
    def seconds() -> float:
        start = time.perf_counter()
        assert cera_process("--help").status == 0
        return time.perf_counter() - start

    assert min(seconds() for _ in range(3)) < 1.2  # 0.15 s on an idle machine, 0.4 s is wanted; others may be busy


def test_help_in_a_pipe_is_plain_even_where_colour_is_forced(cera_process: Callable[..., Any]) -> None:
    outcome = cera_process("--help", FORCE_COLOR="1")
    assert "\N{ESCAPE}" not in outcome.out
    assert "─" not in outcome.out


def test_unknown_command_is_one_paragraph_with_a_suggestion(cera: Callable[..., Any]) -> None:
    outcome = cera("confgi")
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == "Error: No such command 'confgi'. Did you mean 'config'? See 'cera --help'.\n"


def test_unknown_flag_is_one_paragraph_with_a_suggestion(cera: Callable[..., Any]) -> None:
    outcome = cera("config", "--max-tokns", "3")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--max-tokens" in outcome.err
    assert outcome.err.endswith("See 'cera config --help'.\n")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ConfigError("The value\nis wrong."), 2, "Error: The value is wrong.\n"),
        (MissingModelError("No model."), 2, "Error: No model.\n"),
        (
            KeyError("x"),
            1,
            "Error: Unexpected KeyError: 'x'. CERA_TRACEBACK=1 shows where it came from.\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_exception_is_told_in_one_paragraph(
    cera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, text: str
) -> None:
    def raise_error(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(import_module("cera_core.cli.config"), "effective_settings", raise_error)
    outcome = cera("config")
    assert (outcome.status, outcome.out, outcome.err.lstrip("\n")) == (status, "", text)


def test_traceback_is_shown_on_request(cera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CERA_TRACEBACK", "1")
    outcome = cera("config", "--config", "missing.toml")
    assert "Traceback" in outcome.err
    assert outcome.status == 2


def test_broken_settings_are_an_error(cera: Callable[..., Any]) -> None:
    Path("cera.toml").write_text("model = ")
    outcome = cera("config")
    assert (outcome.status, outcome.out) == (2, "")
    assert "is not valid TOML" in outcome.err


def test_pipe_that_closes_early_is_no_error(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "cera_core.cli.main", "config", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(tmp_path),
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""


def test_warning_is_one_line_on_standard_error(cera_process: Callable[..., Any], tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "odd.gguf", pre_tokeniser="never-heard-of")
    outcome = cera_process("tokenize", "text", "-m", str(model))
    assert outcome.status == 0
    warning, count = outcome.err.splitlines()
    assert warning.startswith("Warning: ")
    assert "'never-heard-of'" in warning
    assert count.startswith("tokens: ")


def test_what_cera_logs_is_one_line_on_standard_error(
    cera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("cera_core.cli.config"), "effective_settings", lambda _: [])
    monkeypatch.setattr(
        import_module("cera_core.cli.config"),
        "write_table",
        lambda *_: logging.getLogger("cera").warning("Mind the %s.", "gap"),
    )
    assert cera("config").err == cera("config").err == "Warning: Mind the gap.\n"


def test_terminal_that_cannot_show_a_character_gets_a_question_mark(
    cera_process: Callable[..., Any], tiny_model: Path
) -> None:
    outcome = cera_process("tokenize", "\N{SNOWMAN}", "-m", str(tiny_model), "--json", PYTHONIOENCODING="ascii")
    assert (outcome.status, outcome.err) == (0, "")


def test_shell_completes_names_of_plugins(cera_process: Callable[..., Any]) -> None:
    words = {"COMP_WORDS": "cera run --drafter ", "COMP_CWORD": "3"}
    completed = cera_process(_CERA_COMPLETE="complete_bash", **words).out.split()
    assert {"auto", "none", "prompt-lookup"} <= set(completed)


CLOSED = "Error: Standard output must be open, and is closed. Send it to a file, a pipe or a terminal.\n"
FULL = "Error: The output cannot be written: No space left on device. Make room, or write it elsewhere.\n"


RUN = "run -m {model} --max-tokens 3 hello"


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (f"{RUN} <&-", 0, ""),
        (f"{RUN} >&-", 1, CLOSED),
        (f"{RUN} <&- >&- 2>&-", 1, ""),
        (f"{RUN} >/dev/full", 1, FULL),
        (f"{RUN} 2>/dev/full", 0, ""),
        ("inspect {model} <&-", 0, ""),
        ("inspect {model} >&-", 1, CLOSED),
        ("inspect {model} <&- >&- 2>&-", 1, ""),
        ("chat -m {model} <&-", 0, ""),  # nothing is asked, and so nothing answered
        ("chat -m {model} >&-", 0, ""),
        ("chat -m {model} <&- >&- 2>&-", 0, ""),
    ],
)
def test_output_that_cannot_be_written_is_an_error_and_no_other_stream_that_is_closed_or_full(
    tmp_path: Path, tiny_model: Path, command: str, status: int, message: str
) -> None:
    process = subprocess.run(
        f"'{sys.executable}' -m cera_core.cli.main {command.format(model=tiny_model)}",
        shell=True, input="", capture_output=True, text=True, check=False, env=_environment(tmp_path),
    )  # fmt: skip
    assert (process.returncode, process.stderr) == (status, message)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_nothing_is_kept_back_for_a_disk_that_is_full(tmp_path: Path, unbuffered: str) -> None:
    line = f"'{sys.executable}' -m cera_core.cli.main --version >/dev/full"
    environment = _environment(tmp_path) | {"PYTHONUNBUFFERED": unbuffered}
    process = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, env=environment)
    assert (process.returncode, process.stderr) == (1, FULL)


def test_error_that_cannot_be_written_has_its_exit_code(tmp_path: Path) -> None:
    line = f"'{sys.executable}' -m cera_core.cli.main nope 2>/dev/full"
    process = subprocess.run(line, shell=True, capture_output=True, text=True, check=False, env=_environment(tmp_path))
    assert (process.returncode, process.stdout) == (1, "")


class TestInterruption:
    """Ctrl-C ends every command with 130 and without a traceback, from the first import on."""

    def test_while_the_application_is_imported(self, cera_process: Callable[..., Any], tmp_path: Path) -> None:
        (tmp_path / "typer.py").write_text("raise KeyboardInterrupt")
        outcome = cera_process("--help")
        assert (outcome.status, outcome.out, outcome.err) == (130, "", "")

    @pytest.mark.parametrize(
        "command",
        [
            "run hello -m {model}",
            "explain hello -m {model}",
            "chat -m {model}",
            "bench -m {model} --limit 1",
            "verify -m {model}",
            "replay text.txt -m {model}",
            "tokenize hello -m {model}",
            "corpus build text.txt -o text.corpus -m {model}",
        ],
    )
    def test_while_text_is_read(
        self, cera: Callable[..., Any], tiny_model: Path, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("cera_core.modelfile.tokenizer.ModelTokenizer.encode", interrupted)
        Path("text.txt").write_text("hello there")
        outcome = cera(*command.format(model=tiny_model).split(), stdin="hello\n")
        assert (outcome.status, outcome.out.strip(), outcome.err.strip()) == (130, "", "")
        assert [file.name for file in Path.cwd().iterdir()] == ["text.txt"]

    def test_while_a_model_is_fetched(
        self, cera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setattr("cera_core.cli.fetching.pull", interrupted)
        outcome = cera("pull", "smollm2-135m")
        assert (outcome.status, outcome.out) == (130, "")
        assert "Traceback" not in outcome.err


class TestPluginCommands:
    """Commands of plugins appear and run; a plugin that fails costs a warning."""

    def test_command_is_listed_and_runs(self, cera: Callable[..., Any], plugin_folder: Path) -> None:
        install_plugin(plugin_folder, "hello", HELLO)
        assert "hello Says hello." in " ".join(cera("--help").out.split())
        outcome = cera("hello", "--name", "you")
        assert (outcome.status, outcome.out) == (0, "hello you\n")

    def test_listing_it_imports_no_first_party_plugin(self, tmp_path: Path) -> None:
        install_plugin(tmp_path, "hello", HELLO)
        code = (
            "import sys; from cera_core.cli.main import main; main(['--help']);"
            "sys.exit(', '.join(name for name in sys.modules if name.startswith('cera_') and '_core' not in name) or 0)"
        )
        process = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=_environment(tmp_path)
        )
        assert "Says hello." in process.stdout
        assert process.returncode == 0, process.stderr

    def test_disabled_plugin_adds_none(
        self, cera: Callable[..., Any], plugin_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        install_plugin(plugin_folder, "hello", HELLO)
        monkeypatch.setenv("CERA_DISABLED_PLUGINS", "hello")
        assert "hello" not in cera("--help").out
        assert cera("hello").status == 2

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            ("    @app", "    raise OSError('no')\n    @app", "OSError: no"),
            ("    @app", "    raise SystemExit(5)\n    @app", "SystemExit: 5"),
            (
                '"Says hello."',
                "pass\n    app.registered_commands = 3\n    def rest(name):",
                "TypeError: 'int' object is not",
            ),
            ("name: str", "name: int | str", "AssertionError: Typer "),
        ],
    )
    def test_plugin_that_fails_harms_nobody(
        self, cera: Callable[..., Any], plugin_folder: Path, old: str, new: str, reason: str
    ) -> None:
        install_plugin(plugin_folder, "failing", HELLO.replace(old, new))
        install_plugin(plugin_folder, "hello", HELLO)
        outcome = cera("--help")
        assert "Says hello." in outcome.out
        assert outcome.err.startswith(f"Warning: The plugin 'failing' cannot add its commands: {reason}")
        assert outcome.err.count("\n") == 1

    def test_built_in_command_is_not_displaced(self, cera: Callable[..., Any], plugin_folder: Path) -> None:
        install_plugin(plugin_folder, "hello", HELLO.replace("def hello", "def config"))
        outcome = cera("--help")
        assert BUILT_IN["config"] in outcome.out
        assert "adds a command 'config', which cera has itself" in outcome.err

    def test_broken_settings_leave_the_help_readable(self, cera: Callable[..., Any], plugin_folder: Path) -> None:
        install_plugin(plugin_folder, "hello", HELLO)
        Path("cera.toml").write_text("model = ")
        helped = cera("--help")
        assert helped.status == 0
        assert BUILT_IN["config"] in helped.out
        assert "The commands of plugins are left out." in helped.err

    def test_first_party_plugins_add_no_commands(self) -> None:
        found = discover()
        own = {record.name for record in found.records if record.distribution == "cera"}
        adding = {impl.plugin_name for impl in found.manager.hook.cera_register_commands.get_hookimpls()}
        assert own
        assert not adding & own


def test_every_command_says_what_the_listing_says_of_it() -> None:
    for name, summary in BUILT_IN.items():
        command = command_group.get_command(import_module(f"cera_core.cli.{name}").app)
        assert (command.help or "").splitlines()[0] == summary, name


def _environment(search_path: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(search_path)}
