"""What `cera new` writes can be installed, passes its own tests untouched, and is found and used by cera."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.environments import Environment, make_environment
from support.tiny_gguf import write_tiny_gguf

pytestmark = [pytest.mark.install, pytest.mark.timeout(300)]


@pytest.fixture(params=["drafter", "backend"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return make_environment(tmp_path / "environment", shares_cera=True)


@pytest.fixture
def project(kind: str, environment: Environment, tmp_path: Path) -> Path:
    """A new plugin, as `cera new` leaves it, installed."""
    environment.run("cera", "new", kind, "my-idea", cwd=tmp_path)
    environment.run("pip", "install", ".", cwd=tmp_path / "cera-my-idea")
    return tmp_path / "cera-my-idea"


def test_it_works_from_the_first_minute(kind: str, project: Path, environment: Environment, tmp_path: Path) -> None:
    (listed,) = (
        row
        for row in json.loads(environment.run("cera", "plugins", "--json", cwd=tmp_path).stdout)
        if row["name"] == "my-idea"
    )
    assert (listed["kind"], listed["status"], listed["package"]) == (kind, "available", "cera-my-idea")
    tested = environment.run("pytest", "-q", cwd=project).stdout
    assert " passed" in tested
    model = write_tiny_gguf(tmp_path / "tiny.gguf", seed=2)
    checked = environment.run("cera", "check", kind, "my-idea", "--model", str(model), cwd=tmp_path).stdout
    assert " 0 failed" in checked
    decode = ["cera", "run", "--raw", "--json", "--model", str(model), "--max-tokens", "40", "--ignore-eos"]
    prompt = "on and on and on and on and on"
    answer = json.loads(environment.run(*decode, f"--{kind}", "my-idea", "--no-adaptive", prompt, cwd=tmp_path).stdout)
    assert len(answer["token_ids"]) == 40
    if kind == "drafter":
        plain = json.loads(environment.run(*decode, "--drafter", "none", prompt, cwd=tmp_path).stdout)
        assert answer["token_ids"] == plain["token_ids"]
        assert answer["stats"]["drafters"]["my-idea"]["num_drafted"] > 0


@pytest.mark.parametrize("name", ["my-idea", "a-very-long-name-of-a-plugin-of-40-chars"])
def test_it_is_as_ruff_wants_it(kind: str, name: str, environment: Environment, tmp_path: Path) -> None:
    environment.run("cera", "new", kind, name, cwd=tmp_path)
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "."]
        process = subprocess.run(
            ruff, cwd=tmp_path / f"cera-{name}", capture_output=True, encoding="utf-8", check=False
        )
        assert process.returncode == 0, process.stdout
