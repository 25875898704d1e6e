"""`cera new`: a folder with the beginning of a plugin, or an error that says why not."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_files_are_written_and_listed_with_what_comes_next(cera) -> None:
    outcome = cera("new", "drafter", "my-idea")
    assert outcome.status == 0
    listed = [Path(line) for line in outcome.out.partition("\n\n")[0].splitlines()]
    assert sorted(listed) == sorted(path for path in Path("cera-my-idea").iterdir())
    assert "pip install -e '.[test]'" in outcome.out


def test_folder_and_licence_can_be_chosen(cera) -> None:
    assert cera("new", "backend", "my-engine", "--directory", "here/engine", "--licence", "MIT").status == 0
    assert Path("here/engine/LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert "ModelSuite" in Path("here/engine/test_cera_my_engine.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["drafte", "my-idea"], "Did you mean 'drafter'?"),
        (["drafter", "MyIdea"], "Did you mean 'my-idea'?"),
        (["drafter", "prompt-lookup"], "'prompt-lookup' is that of a drafter which is there already"),
        (["drafter", "none"], "'none' is that of a drafter"),
        (["backend", "numpy"], "'numpy' is that of a backend"),
        (["drafter", "my-idea", "--licence", "GPL"], "'--licence' must be one of Apache-2.0, BSD-3-Clause, MIT"),
        (["drafter", "my-idea", "--directory", "."], "exists already"),
    ],
)
def test_what_cannot_be_is_an_error(cera, arguments: list[str], message: str) -> None:
    outcome = cera("new", *arguments)
    assert outcome.status == 2
    assert message in outcome.err
    assert list(Path().iterdir()) == []
