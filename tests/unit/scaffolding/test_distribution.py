"""A new plugin's names are checked, and its files are small, complete and its own."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from cera_core import PLUGIN_API
from cera_core.errors import InvalidInputError, UnknownNameError
from cera_core.scaffolding.distribution import LICENCES, MAX_NAME_LENGTH, new_distribution

ROOT = Path(__file__).parents[3]
NAMES = ["x", "my-idea", "a-very-long-name-of-a-plugin-of-40-chars"]


@pytest.mark.parametrize("kind", ["drafter", "backend"])
@pytest.mark.parametrize("name", NAMES)
def test_module_is_short_and_says_what_it_is_written_for(kind, name: str, tmp_path: Path) -> None:
    distribution = new_distribution(kind, name, "MIT")
    paths = distribution.write(tmp_path / "new")
    assert sorted(path.name for path in paths) == sorted(
        ["pyproject.toml", "README.md", "LICENSE", f"{distribution.module}.py", f"test_{distribution.module}.py"]
    )
    text = (tmp_path / "new" / f"{distribution.module}.py").read_text(encoding="utf-8")
    assert text.count("\n") < 70
    assert f"\nCERA_PLUGIN_API = {PLUGIN_API}\n" in text
    assert distribution.class_name in {node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}


@pytest.mark.parametrize("licence", LICENCES)
def test_settings_name_the_plugin_and_its_licence(licence: str, tmp_path: Path) -> None:
    new_distribution("drafter", "my-idea", licence).write(tmp_path / "new")
    project = tomllib.loads((tmp_path / "new" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (project["name"], project["license"]) == ("cera-my-idea", licence)
    assert project["entry-points"] == {"cera": {"my-idea": "cera_my_idea"}}
    text = (tmp_path / "new" / "LICENSE").read_text(encoding="utf-8")
    assert {"MIT": "MIT License", "BSD-3-Clause": "BSD 3-Clause", "Apache-2.0": "Apache License"}[licence] in text
    assert licence == "Apache-2.0" or "the authors of cera-my-idea" in text


def test_apache_licence_is_that_of_cera_itself(tmp_path: Path) -> None:
    new_distribution("drafter", "my-idea", "Apache-2.0").write(tmp_path / "new")
    assert (tmp_path / "new" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("My_Idea", " Did you mean 'my-idea'?"),
        ("MyIdea", " Did you mean 'my-idea'?"),
        ("my--idea", " Did you mean 'my-idea'?"),
        ("-my-idea-", " Did you mean 'my-idea'?"),
        ("../idea", " Did you mean 'idea'?"),
        ("", ""),
        ("4ever", ""),
        ("a" * (MAX_NAME_LENGTH + 1), ""),
    ],
)
def test_name_that_is_no_name_is_refused_with_the_likely_one(name: str, hint: str) -> None:
    with pytest.raises(InvalidInputError, match="must be in kebab-case") as caught:
        new_distribution("drafter", name, "MIT")
    assert str(caught.value).endswith(f"{name!r}.{hint}")


def test_name_of_another_plugin_or_of_a_module_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'auto' is that of a drafter which is there already"):
        new_distribution("drafter", "auto", "MIT", taken=["auto"])
    with pytest.raises(InvalidInputError, match="would be called 'cera_core', and there is such a module"):
        new_distribution("drafter", "core", "MIT")


def test_licence_that_cannot_be_chosen_is_refused_with_the_likely_one() -> None:
    with pytest.raises(
        UnknownNameError, match=r"one of Apache-2\.0, .*but is 'bsd-3-claus'.*Did you mean 'BSD-3-Clause'"
    ):
        new_distribution("drafter", "my-idea", "bsd-3-claus")


def test_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="exists already"):
        new_distribution("drafter", "my-idea", "MIT").write(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        new_distribution("drafter", "my-idea", "MIT").write(tmp_path / "file" / "new")
