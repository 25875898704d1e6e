"""The fixtures that guard all other tests can fail."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from support.turns import Turns

CONFTEST = Path(__file__).parents[1] / "conftest.py"


@pytest.fixture
def run_tests(tmp_path: Path):
    """Runs pytest on the source of a test module, below the conftest of this project, and returns what it prints."""

    def run(source: str, **variables: str) -> str:
        (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
        (tmp_path / "test_inner.py").write_text(source)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(tmp_path)]
        return subprocess.run(
            command, env=os.environ | variables, cwd=tmp_path, capture_output=True, text=True, check=False
        ).stdout

    return run


def test_a_changed_environment_is_noticed_and_put_right(run_tests) -> None:
    source = """
import os

def test_leaves():
    os.environ["LEFT"] = "1"
    os.environ["PATH"] += "x"

def test_finds():
    assert "LEFT" not in os.environ

def test_tidy(monkeypatch):
    monkeypatch.setenv("TIDY", "1")
"""
    printed = run_tests(source)
    assert "The test left these environment variables changed: LEFT, PATH." in printed
    assert "3 passed, 1 error" in printed


def test_settings_of_the_developer_are_hidden(run_tests, tmp_path: Path) -> None:
    (tmp_path / "cera").mkdir()
    (tmp_path / "cera" / "cera.toml").write_text("model = 'of the developer'\n")
    source = """
import os
from cera_core.config import load_config, user_config_file

def test_hidden():
    assert not user_config_file().exists()
    assert load_config().model == "smollm2-135m"
    assert load_config().backend == "auto"
    assert os.environ["CERA_CACHE_DIR"] == "/kept"
"""
    variables = {"XDG_CONFIG_HOME": str(tmp_path), "CERA_BACKEND": "of-the-developer", "CERA_CACHE_DIR": "/kept"}
    assert "1 passed" in run_tests(source, **variables)


UNREACHABLE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_CONFIG_FILE": os.devnull, "HF_ENDPOINT": "none"}


@pytest.mark.parametrize(("required", "outcome"), [("", "3 skipped"), ("1", "1 failed, 2 skipped")])
def test_models_that_cannot_be_had(run_tests, tmp_path: Path, required: str, outcome: str) -> None:
    source = """
import pytest

@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b", "gemma3-270m"])
def test_it(model_path, name):
    model_path(name)
"""
    cache = {"CERA_CACHE_DIR": str(tmp_path / "cache"), "CERA_REQUIRE_MODELS": required}
    printed = run_tests(source, **UNREACHABLE, **cache)
    assert outcome in printed
    for reason in ("'smollm2-135m' could not be fetched", "'qwen2.5-coder-0.5b' could not", "'gemma3-270m' has terms"):
        assert reason in printed


def test_the_fast_suite_is_what_is_shared_between_processes(pytestconfig: pytest.Config) -> None:
    addopts = pytestconfig.getini("addopts")
    conftest = CONFTEST.read_text()
    assert f'FAST_SUITE = "{addopts[addopts.index("-m") + 1]}"' in conftest


def test_one_test_alone_waits_for_all_others_and_lets_none_in_meanwhile(tmp_path: Path) -> None:
    order = []

    def enter(name: str, alone: bool) -> None:
        with closing(Turns(tmp_path)) as turns, turns.turn(alone=alone):
            order.append(name)

    with ThreadPoolExecutor(2) as pool:
        first, second = Turns(tmp_path), Turns(tmp_path)
        with closing(first), closing(second), first.turn(alone=False), second.turn(alone=False):
            ended = [pool.submit(enter, "alone", True)]
            time.sleep(0.05)  # it has to reach the door
            ended.append(pool.submit(enter, "later", False))
            time.sleep(0.05)
            order.append("both")
        for each in ended:
            each.result()
    assert order == ["both", "alone", "later"]
