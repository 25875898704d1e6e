"""The suites: a test for each check, left out with a reason or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cera_core.errors import InvalidInputError
from cera_core.testing import DRAFTER_CHECKS, MODEL_CHECKS, DrafterSuite, ModelSuite
from cera_core.testing.drafters import RandomDrafter
from cera_core.testing.fakes import RecurrentModel


class TestSoundDrafter(DrafterSuite):
    @pytest.fixture
    def make_drafter(self):
        return lambda: RandomDrafter(1000)


class TestRecurrentModel(ModelSuite):
    @pytest.fixture
    def model(self):
        return RecurrentModel()


def names_of_tests(suite: type) -> list[str]:
    return [name.removeprefix("test_") for name in dir(suite) if name.startswith("test_")]


@pytest.mark.parametrize(("suite", "checks"), [(DrafterSuite, DRAFTER_CHECKS), (ModelSuite, MODEL_CHECKS)])
def test_every_check_is_a_test_with_its_words(suite: type, checks) -> None:
    assert sorted(names_of_tests(suite)) == sorted(check.__name__.removeprefix("check_") for check in checks)
    assert [getattr(suite, check.__name__.replace("check", "test", 1)).__doc__ for check in checks] == [
        check.__doc__ for check in checks
    ]


def test_a_check_cannot_be_overridden() -> None:
    with pytest.raises(InvalidInputError, match=r"overrides 'test_reset_forgets'.*SKIP = {'check_reset_forgets'"):
        type("TestMine", (DrafterSuite,), {"test_reset_forgets": lambda self: None})


def test_nor_by_a_class_beside_the_suite() -> None:
    mixin = type("Mixin", (), {"test_reset_forgets": None})
    with pytest.raises(InvalidInputError, match="overrides 'test_reset_forgets'"):
        type("TestMine", (mixin, DrafterSuite), {})
    grandchild = type("TestMore", (type("TestMine", (DrafterSuite,), {}),), {"test_of_mine": lambda self: None})
    assert "test_of_mine" in vars(grandchild)


@pytest.mark.parametrize(
    ("skip", "message"),
    [
        ({"check_reset_forget": "why"}, "no check named 'check_reset_forget'.* Did you mean 'check_reset_forgets'"),
        ({"check_reset_forgets": "  "}, "takes a reason"),
        ({"check_reset_forgets": None}, "takes a reason.*found None"),
    ],
)
def test_a_check_is_skipped_by_its_name_and_with_a_reason(skip, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        type("TestMine", (DrafterSuite,), {"SKIP": skip})


AUTHORS_TESTS = """
import pytest
from cera_core.testing import DrafterSuite
from cera_core.testing.drafters import BrokenDrafter

class TestMine(DrafterSuite):
    SKIP = {"check_ids_are_in_the_vocabulary": "it has its own ids"}

    @pytest.fixture
    def make_drafter(self):
        return lambda: BrokenDrafter(lambda tokens, max_k: [-1] * (max_k + 1))
"""


def test_an_author_sees_what_failed_and_what_was_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(AUTHORS_TESTS)
    command = [sys.executable, "-m", "pytest", "-rs", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    process = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=tmp_path, check=False)
    assert process.returncode == 1
    assert "SKIPPED [1]" in process.stdout
    assert "it has its own ids" in process.stdout
    assert "Required: at most 0 ids of draft(tokens, max_k=0). Found: 1 after two equal tokens." in process.stdout
    assert "2 failed" in process.stdout  # too many ids, after long histories and short ones


def test_pytest_is_not_needed_to_run_checks() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from cera_core.testing import DRAFTER_CHECKS, run_checks\n"
        "from cera_core.testing.drafters import RandomDrafter\n"
        "print({result.outcome for result in run_checks(DRAFTER_CHECKS, lambda: RandomDrafter(9))})"
    )
    assert subprocess.check_output([sys.executable, "-c", code], encoding="utf-8") == "{'passed'}\n"
