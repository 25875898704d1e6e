"""`cera run` gives the library's answer, wherever the prompt comes from and whatever ends it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core.cli import loading
from support.tiny_gguf import write_tiny_gguf

PROMPT = "the name of the line"
REPETITIVE = ("--backend-option", "order=1", "--drafter", "prompt-lookup", "--ignore-eos")

pytestmark = pytest.mark.usefixtures("table_backend")


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., subprocess.Popen[bytes]]:
    """Starts `cera` with its output in pipes."""

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "cera_core.cli.main", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )

    return begin


def line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def test_answer_is_that_of_the_library(cera: Callable[..., Any], tiny_model: Path) -> None:
    expected = cera_core.load(tiny_model).chat([{"role": "user", "content": PROMPT}], max_tokens=20)
    outcome = cera("run", PROMPT, "-m", tiny_model, "--max-tokens", "20")
    assert expected.text
    assert (outcome.status, outcome.out, outcome.err) == (0, line(expected.text), "")


def test_prompt_comes_from_argument_file_or_standard_input(cera: Callable[..., Any], tiny_model: Path) -> None:
    Path("prompt.txt").write_text(PROMPT + "\n")
    model = ("-m", tiny_model, "--max-tokens", "20")
    answer = cera("run", PROMPT, *model).out
    assert cera("run", "-f", "prompt.txt", *model).out == answer
    assert cera("run", *model, stdin=PROMPT + "\n").out == answer


def test_raw_continues_the_prompt_to_its_last_line_end(cera: Callable[..., Any], tiny_model: Path) -> None:
    Path("prompt.txt").write_text(PROMPT + "\n")
    engine = cera_core.load(tiny_model)
    for prompt, arguments in ((PROMPT, [PROMPT]), (PROMPT + "\n", ["-f", "prompt.txt"])):
        outcome = cera("run", *arguments, "--raw", "-m", tiny_model, "--max-tokens", "20")
        assert outcome.out == line(engine.generate(prompt, max_tokens=20).text)


def test_model_without_a_template_continues_the_prompt(cera: Callable[..., Any], tmp_path: Path) -> None:
    model = write_tiny_gguf(tmp_path / "base.gguf", chat_template=None)
    answer = cera("run", PROMPT, "-m", model, "--max-tokens", "20").out
    assert answer == line(cera_core.load(model).generate(PROMPT, max_tokens=20).text)


def test_system_goes_before_the_prompt(cera: Callable[..., Any], tiny_model: Path) -> None:
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": PROMPT}]
    answer = cera("run", PROMPT, "--system", "Be short.", "-m", tiny_model, "--max-tokens", "20").out
    assert answer == line(cera_core.load(tiny_model).chat(messages, max_tokens=20).text)


def test_system_without_a_template_is_refused(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("run", PROMPT, "--system", "Be short.", "--raw", "-m", tiny_model)
    assert (outcome.status, outcome.out) == (2, "")
    assert "'--system' needs a chat template" in outcome.err


@pytest.mark.parametrize("sampling", [[], ["--temperature", "0.1", "--seed", "5"]], ids=["greedy", "sampled"])
def test_drafts_do_not_change_the_text(cera: Callable[..., Any], tiny_model: Path, sampling: list[str]) -> None:
    def answer(*flags: str) -> Any:
        arguments = ("-m", tiny_model, "--json", "--max-tokens", "200", *REPETITIVE, *sampling, *flags)
        return json.loads(cera("run", PROMPT, *arguments).out)

    plain = answer("--drafter", "none")
    drafted = answer("--no-adaptive", "--max-draft-tokens", "8")
    assert drafted["token_ids"] == plain["token_ids"]
    assert drafted["text"] == plain["text"]
    assert plain["stats"]["num_drafted"] == 0
    num_rejected = drafted["stats"]["num_drafted"] - drafted["stats"]["num_accepted"]
    assert drafted["stats"]["num_accepted"] > 0
    assert num_rejected > 0 or not sampling


def test_json_is_one_object_with_all_that_was_counted(cera: Callable[..., Any], tiny_model: Path) -> None:
    arguments = ("run", PROMPT, "-m", tiny_model, "--json", "--max-tokens", "5", "--logprobs", "2", "--ignore-eos")
    found = json.loads(cera(*arguments, "--temperature", "1", "--seed", "7").out)
    assert (len(found["token_ids"]), found["finish_reason"], found["seed"]) == (5, "max_tokens", 7)
    assert found["batch_invariant"] is True
    assert [len(entry["top"]) for entry in found["logprobs"]] == [2] * 5
    assert found["stats"]["num_emitted"] == 5
    assert sum(found["stats"]["skip_reasons"].values()) == found["stats"]["num_plain_steps"]
    page = (Path(__file__).parents[3] / "docs/reference/command-line.md").read_text(encoding="utf-8")
    assert [key for key in found if f"| `{key}` |" not in page] == []


def test_same_seed_same_text(cera: Callable[..., Any], tiny_model: Path) -> None:
    arguments = ("run", PROMPT, "-m", tiny_model, "--temperature", "1", "--max-tokens", "20", "--seed")
    assert cera(*arguments, "3").out == cera(*arguments, "3").out
    assert cera(*arguments, "3").out != cera(*arguments, "4").out


def test_option_without_effect_is_said_out_loud(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("run", PROMPT, "-m", tiny_model, "--max-tokens", "1", "--top-k", "5")
    assert outcome.err == "Note: 'top_k' has no effect at temperature 0, which is greedy (--top-k).\n"


def test_summary_is_plain_text_on_standard_error(
    cera: Callable[..., Any], tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    arguments = ("run", PROMPT, "-m", tiny_model, "--max-tokens", "100", *REPETITIVE)
    plain = cera(*arguments)
    outcome = cera(*arguments, "--show-drafts")
    assert outcome.out == plain.out
    assert plain.err == ""
    assert "\N{ESCAPE}" not in outcome.err
    for figure in ("tokens/s", "rounds: ", "drafted: ", "accepted: ", "mean acceptance length: ", "because: "):
        assert figure in outcome.err
    assert "  prompt-lookup: accepted " in outcome.err


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--backend", "tabel"], "There is no backend named 'tabel'. Did you mean 'table'?"),
        (["--drafter", "prompt-lokup"], "There is no drafter named 'prompt-lokup'. Did you mean 'prompt-lookup'?"),
        (["--backend-option", "secons=1"], "'secons' is not an option of backend 'table'. Did you mean 'seconds'?"),
        (["--backend-option", "seconds=long"], "'seconds' of backend 'table' must be a valid number, but is 'long'"),
        (["--top-p", "0"], "'generation.top_p' of the settings must be greater than 0, but is '0' (--top-p)."),
        (["--file", "x"], "The text must be given once"),
        (["--context-length", "99999999999"], "'context_length' must be at most 512, "),
        (["--context-length", "99999999999"], "but is 99999999999 (--context-length). Lower it"),
        (["--drafter", "corpus", "--drafter-option", "files=no"], "'no' cannot be read: No such file"),
        (["-m", "nowhere.gguf"], "'nowhere.gguf' cannot be read: No such file."),
    ],
)
def test_what_cannot_be_done_is_one_paragraph(
    cera: Callable[..., Any], tiny_model: Path, flags: list[str], complaint: str
) -> None:
    outcome = cera("run", PROMPT, "-m", tiny_model, *flags)
    assert (outcome.status, outcome.out) == (2, "")
    assert complaint in outcome.err
    assert outcome.err.count("\n") == 1


class TestMissingModel:
    """A model that is not here is fetched only where that is wanted."""

    @pytest.fixture(autouse=True)
    def _empty_cache(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))

    def test_names_the_command_that_fetches_it(self, cera: Callable[..., Any]) -> None:
        outcome = cera("run", PROMPT)
        assert (outcome.status, outcome.out) == (2, "")
        assert "`cera pull smollm2-135m`" in outcome.err

    def test_is_fetched_on_request(
        self, cera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tiny_model: Path
    ) -> None:
        fetched: list[str] = []
        monkeypatch.setattr(loading, "fetch", fetched.append)
        monkeypatch.setattr("cera_core.engine.resolve", lambda name: tiny_model)
        assert cera("run", PROMPT, "--pull", "--max-tokens", "5").status == 0
        assert fetched == ["smollm2-135m"]


class TestInterruption:
    """Ctrl-C and a closed pipe end a run quietly; what was written stays."""

    SLOW = ("--backend-option", "seconds=0.02", "--ignore-eos", "--max-tokens", "500", "--drafter", "none")

    def test_keeps_the_text_so_far(self, start: Callable[..., subprocess.Popen[bytes]], tiny_model: Path) -> None:
        process = start("run", PROMPT, "-m", str(tiny_model), *self.SLOW)
        assert process.stdout is not None
        first = process.stdout.read(5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert err == b""
        assert (first + out).endswith(b"\n")

    def test_json_is_written_all_the_same(
        self, start: Callable[..., subprocess.Popen[bytes]], tiny_model: Path, tmp_path: Path
    ) -> None:
        started = tmp_path / "started"
        watcher = f"import pathlib; pathlib.Path({str(started)!r}).touch(); "
        plugin = tmp_path / "plugin_table.py"
        plugin.write_text(plugin.read_text().replace("time.sleep(", f"{watcher}time.sleep("))
        process = start("run", PROMPT, "-m", str(tiny_model), *self.SLOW, "--json")
        while not started.exists():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, b"")
        assert json.loads(out)["finish_reason"] == "cancelled"

    def test_closed_pipe_is_quiet(self, start: Callable[..., subprocess.Popen[bytes]], tiny_model: Path) -> None:
        process = start("run", PROMPT, "-m", str(tiny_model), *self.SLOW)
        assert process.stdout is not None
        process.stdout.read(5)
        process.stdout.close()
        _, err = process.communicate(timeout=30)
        assert err == b""
        assert process.returncode == 1


def test_answers_kept_under_a_name_are_drafted_from(
    cera: Callable[..., Any], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))
    flags = ("-m", tiny_model, "--max-tokens", "24", "--ignore-eos", "--no-adaptive", "--json", "--memory", "notes")
    first, second = (json.loads(cera("run", PROMPT, *flags).out) for _ in range(2))
    assert first["token_ids"] == second["token_ids"]
    assert second["stats"]["drafters"]["memory"]["num_accepted"] > 0
    assert first["stats"]["drafters"].get("memory", {"num_accepted": 0})["num_accepted"] == 0


@pytest.mark.parametrize("command", ["run", "chat", "explain"])
def test_a_memory_that_cannot_be_kept_is_an_error_before_the_answer(
    cera: Callable[..., Any], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").write_text("no folder")
    prompt = () if command == "chat" else (PROMPT,)
    outcome = cera(command, *prompt, "-m", tiny_model, "--memory", "notes", stdin=f"{PROMPT}\n")
    assert (outcome.status, outcome.out) == (2, "")
    assert "notes.jsonl' cannot be written: Not a directory. Check the folder, or set CERA_CACHE_DIR" in outcome.err


@pytest.mark.parametrize("flags", [["caf\udce9"], ["--system", "caf\udce9", "hello"]])
def test_arguments_that_are_no_utf_8_are_told_their_byte(
    cera: Callable[..., Any], tiny_model: Path, flags: list[str]
) -> None:
    outcome = cera("run", "-m", tiny_model, *flags)
    assert (outcome.status, outcome.out) == (2, "")
    assert "must be UTF-8, but byte 3 is not. Convert it." in outcome.err


def test_an_empty_prompt_is_said_to_be_empty(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("run", "--raw", "", "-m", tiny_model)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err == (
        "Error: A prompt of at least one token is required, and there is none: nothing, or an empty text, was given.\n"
    )


@pytest.mark.parametrize("command", ["explain", "bench"])
def test_a_page_that_cannot_be_written_is_an_error_before_the_answer(
    cera: Callable[..., Any], tiny_model: Path, command: str
) -> None:
    prompt = () if command == "bench" else (PROMPT,)
    for page, reason in (("none/page.html", "No such file or directory"), (".", "Is a directory")):
        outcome = cera(command, *prompt, "-m", tiny_model, "--html", page)
        assert (outcome.status, outcome.out) == (2, "")
        assert outcome.err == f"Error: '{Path(page)}' cannot be written: {reason}. Check the path.\n"
    assert cera("explain", PROMPT, "-m", tiny_model, "--html", "page.html", "--top-p", "3").status == 2
    assert list(Path.cwd().iterdir()) == []


def test_arguments_are_utf_8_whatever_the_locale(cera_process: Callable[..., Any], tiny_model: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    outcome = cera_process("tokenize", "h\N{LATIN SMALL LETTER E WITH ACUTE}", "-m", str(tiny_model), "--json", **plain)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out == cera_process("tokenize", "h\u00e9", "-m", str(tiny_model), "--json").out
