"""Runs every check of this project, stage by stage, and exits with 1 if any of them failed.

Needs Python 3.11 or newer with pip, and the package registry that pip is configured for. What comes from there is
installed into environments of its own, in a temporary folder; compilers that are missing, with apt-get into the system.
The two commands of the README are taken from the README.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from native import NativeChecks

ROOT = Path(__file__).resolve().parents[1]
CPP_SUFFIXES = {".cc", ".cpp", ".h", ".hpp"}
MIN_ANSWER_WORDS = 5


class StageError(Exception):
    """A stage did not give what it must."""


class StageSkippedError(Exception):
    """A stage needs what is not on this machine and cannot be fetched in the time there is."""


@dataclass
class Checks:
    """Runs stages in a scratch folder and remembers what became of them."""

    scratch: Path
    results: list[tuple[str, str, float]] = field(default_factory=list)

    def stage(self, name: str, action: Callable[[], None]) -> None:
        """Runs one stage; a failure is reported and does not stop the others."""
        print(f"\n=== {name}", flush=True)
        start = time.monotonic()
        try:
            action()
            outcome = "ran"
        except StageSkippedError as reason:
            print(f"{name}: skipped, as {reason}", flush=True)
            outcome = "skipped"
        except (StageError, OSError, subprocess.SubprocessError) as error:
            print(f"{name}: {error}", flush=True)
            outcome = "failed"
        seconds = time.monotonic() - start
        self.results.append((name, outcome, seconds))
        print(f"=== {name}: {outcome} after {seconds:.1f} s", flush=True)

    def summary(self) -> int:
        """Prints one line a stage; returns the exit code."""
        print()
        for name, outcome, seconds in self.results:
            print(f"{outcome:<7}  {seconds:7.1f} s  {name}")
        count = Counter(outcome for _, outcome, _ in self.results)
        seconds = sum(row[2] for row in self.results)
        print(f"{len(self.results)} stages, {count['failed']} failed, {count['skipped']} skipped, {seconds:.0f} s")
        return 1 if count["failed"] else 0

    def clean_copy(self, name: str) -> Path:
        """Copies the project without anything that is built, cached or installed."""
        ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split()]
        target = self.scratch / name
        shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(".git", *ignored))
        return target

    def tool(self, name: str) -> str:
        """Returns the path of a program of the environment with the tools."""
        return str(self.scratch / "tools" / "bin" / name)


def run(command: list[str] | str, *, cwd: Path = ROOT, variables: Mapping[str, str] = {}) -> str:
    """Runs a command, a text with the shell; returns what it wrote to standard output, which is shown as well."""
    print(f"$ {command if isinstance(command, str) else ' '.join(command)}", flush=True)
    with subprocess.Popen(
        command,
        shell=isinstance(command, str),
        cwd=cwd,
        env=environment(variables),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    ) as process:
        lines = []
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode:
        raise StageError(f"the command ended with {process.returncode}")
    return "".join(lines)


def environment(variables: Mapping[str, str] = {}) -> dict[str, str]:
    """Returns the environment without a developer's own settings of Python and of cera, but for where models are."""
    hidden = ("CERA_", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    kept = {
        name: value for name, value in os.environ.items() if name == "CERA_CACHE_DIR" or not name.startswith(hidden)
    }
    # Together with the commands' own `-q`, pip then says only what went wrong.
    return kept | {"PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CERA_REQUIRE_NATIVE": "1"} | variables


def readme_command(program: str) -> str:
    """Returns the line of the README's first block of commands that calls a program."""
    block = re.search(r"^```(?:sh|console)\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for line in (block[1] if block else "").splitlines() if f"bin/{program}" in line]
    if len(lines) != 1:
        raise StageError(f"one line of the first block of commands in README.md must call {program}, not {len(lines)}")
    return lines[0]


def readme_tests(checks: Checks) -> None:
    """The README's second line, in a fresh copy."""
    run(readme_command("pytest"), cwd=checks.clean_copy("readme-tests"))


def readme_answer(checks: Checks) -> None:
    """The README's first line, in a fresh copy and with an empty cache of models; an answer must come."""
    cache = str(checks.scratch / "cache")
    answer = run(readme_command("cera"), cwd=checks.clean_copy("readme-run"), variables={"CERA_CACHE_DIR": cache})
    if len(answer.split()) < MIN_ANSWER_WORDS:
        raise StageError(f"an answer of at least {MIN_ANSWER_WORDS} words must come on standard output")


def install_tools(checks: Checks) -> None:
    """Installs cera with the tools of its extra `dev`."""
    run([sys.executable, "-m", "venv", str(checks.scratch / "tools")])
    run([checks.tool("pip"), "install", "-q", ".[dev]"], cwd=checks.clean_copy("tools-source"))


def clang_format(checks: Checks) -> None:
    """Checks the layout of all C++ files."""
    files = [file for file in ROOT.glob("plugins/*/src/**/*") if file.suffix in CPP_SUFFIXES]
    if not files:
        raise StageError("there must be C++ files in plugins/*/src, and none was found")
    run(
        [checks.tool("clang-format"), "--dry-run", "--Werror", *(str(file.relative_to(ROOT)) for file in sorted(files))]
    )


def documentation_site(checks: Checks) -> None:
    """Builds the pages as a site; a warning, for instance about a link that leads nowhere, is an error."""
    run([checks.tool("sphinx-build"), "-q", "-W", "--keep-going", "docs", str(checks.scratch / "site")])


def real_models(checks: Checks) -> None:
    """Tests on real models: the default one must be there; others may be skipped, with the reason, as not served."""
    run([checks.tool("pytest"), "-q", "-m", "model"], variables={"CERA_REQUIRE_MODELS": "1"})


def other_engines(checks: Checks) -> None:
    """Tests inside and over other engines, of the Pythons that `CERA_HOSTS_PYTHON` names, or of the one that runs this.

    Their packages are added behind those of the environment with the tools.
    """
    pythons = os.environ.get("CERA_HOSTS_PYTHON", sys.executable).split(os.pathsep)
    names = "('llama_cpp', 'transformers')"
    found = (
        f"import importlib.util as u, sysconfig as s; any(map(u.find_spec, {names})) and print(s.get_path('purelib'))"
    )
    folders = [run([python, "-c", found]).strip() for python in pythons]
    if not any(folders):
        raise StageSkippedError(
            f"neither llama-cpp-python nor transformers is installed for {', '.join(pythons)}; CERA_HOSTS_PYTHON may "
            "name a Python that has one"
        )
    own = run([checks.tool("python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    Path(own, "other-engines.pth").write_text("\n".join(folders) + "\n")
    run([checks.tool("pytest"), "-q", "-m", "hosts", "tests/hosts"])


def main() -> int:
    """Runs all stages."""
    with tempfile.TemporaryDirectory(prefix="cera-ci-") as scratch:
        checks = Checks(Path(scratch))
        native = NativeChecks(run, checks.tool, checks.scratch)
        stages: dict[str, Callable[[], None]] = {
            "README: tests": lambda: readme_tests(checks),
            "README: answer": lambda: readme_answer(checks),
            "tools": lambda: install_tools(checks),
            "ruff check": lambda: run([checks.tool("ruff"), "check"]),
            "ruff format": lambda: run([checks.tool("ruff"), "format", "--check"]),
            "mypy": lambda: run([checks.tool("mypy")]),
            "import-linter": lambda: run(
                [checks.tool("lint-imports")], variables={"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"}
            ),
            "clang-format": lambda: clang_format(checks),
            "documentation site": lambda: documentation_site(checks),
            "native: sanitizers": native.sanitizers,
            "native: fuzzing": native.fuzzing,
            "native: ARM": native.arm,
            "real models": lambda: real_models(checks),
            "documentation and packaging": lambda: run([checks.tool("pytest"), "-q", "-m", "install"]),
            "other engines": lambda: other_engines(checks),
        }
        for name, action in stages.items():
            checks.stage(name, action)
        return checks.summary()


if __name__ == "__main__":
    sys.exit(main())
