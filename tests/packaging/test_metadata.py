"""What pyproject.toml declares is what the code uses, and the other way round."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PLUGINS = sorted(folder.name for folder in (ROOT / "plugins").iterdir() if (folder / "__init__.py").is_file())

ADAPTERS = {"cera_transformers"}
"""Take cera into another engine, so there is nothing that they register."""
OTHER_ENGINES = {"llama_cpp", "torch", "transformers", "xllamacpp"}
"""What cera runs in, over or beside, where somebody has it."""


def python_files() -> list[Path]:
    return [*(ROOT / "cera_core").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]


def imported_modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def canonical(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()


def test_every_dependency_is_imported_and_every_import_is_a_dependency() -> None:
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in python_files())
    packages = {module.partition(".")[0] for tree in trees for module in imported_modules(tree)}
    packages -= {*sys.stdlib_module_names, "cera_core", *PLUGINS}
    distributions = packages_distributions()
    packages -= OTHER_ENGINES
    used = {canonical(distributions[package][0]) for package in packages}
    used -= {"pydantic-core"}  # pydantic's other half, which it pins
    used -= {"pytest"}  # imported by the suites of cera_core.testing when they are run, by it
    extra = {canonical(requirement) for requirement in PROJECT["project"]["optional-dependencies"]["report"]}
    assert used - extra == {canonical(requirement) for requirement in PROJECT["project"]["dependencies"]}
    assert extra <= used


def test_every_plugin_is_packaged_and_has_an_entry_point() -> None:
    assert set(PROJECT["project"]["entry-points"]["cera"].values()) == set(PLUGINS) - ADAPTERS
    expected = ["cera_core", *(f"plugins/{name}" for name in PLUGINS)]
    assert sorted(PROJECT["tool"]["scikit-build"]["wheel"]["packages"]) == sorted(expected)


def test_every_plugin_is_under_the_contracts_of_the_import_linter() -> None:
    settings = PROJECT["tool"]["importlinter"]
    contracts = {contract["name"]: contract for contract in settings["contracts"]}
    assert set(settings["root_packages"]) == {"cera_core", *PLUGINS}
    assert set(contracts["The core knows no plugin"]["forbidden_modules"]) == set(PLUGINS)
    assert set(contracts["Plugins do not know one another"]["modules"]) == set(PLUGINS)


def test_no_module_called_plugins_can_be_installed() -> None:
    assert not (ROOT / "plugins" / "__init__.py").exists()


@pytest.mark.parametrize("file", ["README.md", "LICENSE", "CHANGELOG.md", "cera_core/py.typed"])
def test_files_that_every_project_has_are_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_the_changelog_has_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[(Unreleased|{re.escape(PROJECT['project']['version'])})\]", text, re.MULTILINE)


def test_nothing_points_to_a_machine_or_an_index() -> None:
    """The sources of models and packages are what their owner configured, never what we wrote down."""
    forbidden = re.compile(r"index-url|find-links|/home/\w|/root/|/work/|/opt/|localhost:\d")
    suffixes = {".py", ".md", ".toml", ".txt", ".cc", ".h", ".cmake"}
    ignored = {".git", ".venv", "build", "dist", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    found = []
    for file in ROOT.rglob("*"):
        parts = set(file.relative_to(ROOT).parts)
        if file.suffix in suffixes and not parts & ignored and file != Path(__file__):
            found += [f"{file.relative_to(ROOT)}: {match}" for match in forbidden.findall(file.read_text("utf-8"))]
    assert found == []
