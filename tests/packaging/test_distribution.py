"""The source distribution and the wheel: what is in them, and that they can be installed and used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from pathlib import Path
from typing import Any

import pytest

from support.environments import Environment, make_environment
from support.tiny_gguf import write_tiny_gguf

pytestmark = [pytest.mark.install, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PURE = ["-C", "wheel.cmake=false", "-C", "wheel.platlib=false"]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the source distribution, and unpacks it: whatever else is built here is built from that."""
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (archive,) = folder.iterdir()
    assert archive.name == f"cera-{PROJECT['version']}.tar.gz"
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel without the native extension."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", *PURE, "--outdir", str(folder), str(sdist)]
    subprocess.run(command, check=True, capture_output=True)
    (file,) = folder.iterdir()
    assert file.name == f"cera-{PROJECT['version']}-py3-none-any.whl"
    return file


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Installs the wheel from its file into a fresh environment, without a package index."""
    environment = make_environment(tmp_path_factory.mktemp("installed"), shares_cera=False)
    environment.run("pip", "install", "--ignore-installed", wheel, cwd=wheel.parent)
    return environment


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def text_in(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"cera-{PROJECT['version']}.dist-info/{name}").decode()


class TestSourceDistribution:
    def test_has_what_a_packager_needs(self, sdist: Path) -> None:
        for name in (
            "LICENSE",
            "README.md",
            "CHANGELOG.md",
            "pyproject.toml",
            "cera_core/py.typed",
            "tests/conftest.py",
        ):
            assert (sdist / name).is_file(), name
        assert list((sdist / "plugins" / "cera_native" / "src").glob("*.cc"))

    def test_has_nothing_built_or_cached(self, sdist: Path) -> None:
        unwanted = {".so", ".pyc", ".gguf", ".whl"}
        assert [file for file in sdist.rglob("*") if file.suffix in unwanted] == []


class TestWheel:
    def test_has_every_module_and_nothing_else(self, wheel: Path) -> None:
        sources = {f"cera_core/{file.relative_to(ROOT / 'cera_core')}" for file in (ROOT / "cera_core").rglob("*.py")}
        sources |= {str(file.relative_to(ROOT / "plugins")) for file in (ROOT / "plugins").rglob("*.py")}
        found = {name for name in names_in(wheel) if ".dist-info/" not in name}
        assert {name for name in found if name.endswith(".py")} == sources
        assert {Path(name).suffix for name in found} <= {".py", ".pyi", ".typed", ".toml", ".jinja"}
        assert "cera_core/py.typed" in found
        assert {str(file.relative_to(ROOT)) for file in (ROOT / "cera_core").rglob("*.jinja")} <= found
        assert {name.partition("/")[0] for name in found} == {name.partition("/")[0] for name in sources}

    def test_has_no_module_called_plugins_or_tests(self, wheel: Path) -> None:
        assert not {"plugins", "tests", "docs"} & {name.partition("/")[0] for name in names_in(wheel)}

    def test_metadata(self, wheel: Path) -> None:
        metadata = message_from_string(text_in(wheel, "METADATA"))
        assert (metadata["Name"], metadata["Version"]) == ("cera", PROJECT["version"])
        assert metadata["Requires-Python"] == ">=3.11"
        assert metadata["License-Expression"] == "Apache-2.0"
        assert metadata["License-File"] == "LICENSE"
        assert metadata["Description-Content-Type"] == "text/markdown"
        assert metadata.get_payload() == (ROOT / "README.md").read_text(encoding="utf-8")
        assert metadata.get_all("Provides-Extra") == list(PROJECT["optional-dependencies"])
        required = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
        assert sorted(required) == sorted(PROJECT["dependencies"])
        assert text_in(wheel, "licenses/LICENSE").lstrip().startswith("Apache License")

    def test_entry_points(self, wheel: Path) -> None:
        sections = text_in(wheel, "entry_points.txt").split("[")
        lines = {section.partition("]")[0]: section.splitlines()[1:] for section in sections}
        expected = [f"{name} = {module}" for name, module in PROJECT["entry-points"]["cera"].items()]
        assert sorted(filter(None, lines["cera"])) == sorted(expected)
        assert list(filter(None, lines["console_scripts"])) == ["cera = cera_core.cli.main:main"]


class TestInstalled:
    def test_comes_from_its_own_environment(self, installed: Environment, tmp_path: Path) -> None:
        code = "import cera_core; print(cera_core.__file__); print(cera_core.__version__)"
        file, version = installed.run("python", "-c", code, cwd=tmp_path).stdout.split()
        assert Path(file).is_relative_to(installed.folder)
        assert version == PROJECT["version"]

    def test_lists_the_native_backend_as_unavailable_with_its_reason(
        self, installed: Environment, tmp_path: Path
    ) -> None:
        rows = json.loads(installed.run("cera", "plugins", "--json", cwd=tmp_path).stdout)
        status = {row["name"]: row["status"] for row in rows}
        assert status.pop("native") == "unavailable"
        assert status.pop("llama-cpp") == "unavailable", "its binding comes with an extra"
        assert set(status.values()) == {"available"}
        assert {"prompt-lookup", "suffix-automaton", "aho-corasick", "corpus", "numpy"} <= set(status)
        (native,) = (row for row in rows if row["name"] == "native")
        assert "Install a C++20 compiler" in native["note"]

    def test_answers_with_the_backend_there_is(self, installed: Environment, tmp_path: Path) -> None:
        model = write_tiny_gguf(tmp_path / "tiny.gguf")
        command = ["cera", "run", "--json", "--model", str(model), "--max-tokens", "5", "--ignore-eos", "the text"]
        assert len(json.loads(installed.run(*command, cwd=tmp_path).stdout)["token_ids"]) == 5


class TestNativeWheel:
    """The wheel with the extension needs no compiler where it is installed."""

    def test_installs_and_runs_without_a_compiler(
        self, sdist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "wheel"
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(sdist)]
        subprocess.run(build, env=os.environ | {"CERA_REQUIRE_NATIVE": "1"}, check=True, capture_output=True)
        (wheel,) = folder.iterdir()
        assert any(name.startswith("cera_native/_native.") and name.endswith(".so") for name in names_in(wheel))

        environment = make_environment(tmp_path / "installed", shares_cera=False)
        monkeypatch.setenv("PATH", str(tmp_path))  # no compiler, nor anything else
        environment.run("pip", "install", "--ignore-installed", wheel, cwd=folder)
        rows = json.loads(environment.run("cera", "plugins", "--json", cwd=tmp_path).stdout)
        assert [row["status"] for row in rows if row["name"] == "native"] == ["available"]
        model = write_tiny_gguf(tmp_path / "tiny.gguf")
        command = ["cera", "run", "--json", "--model", str(model), "--backend", "native", "--max-tokens", "5"]
        answer = json.loads(environment.run(*command, "--ignore-eos", "the text", cwd=tmp_path).stdout)
        assert len(answer["token_ids"]) == 5


class TestWithoutCompiler:
    """A compiler that cannot be run stands for one that is not there."""

    def pip_wheel(self, sdist: Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if name != "CERA_REQUIRE_NATIVE"}
        return subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(sdist)],
            env=kept | {"CC": "no-compiler-here", "CXX": "no-compiler-here"} | variables,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def test_pip_installs_all_the_same(self, sdist: Path, tmp_path: Path) -> None:
        process = self.pip_wheel(sdist, tmp_path)
        assert process.returncode == 0, process.stderr
        assert [file.name for file in tmp_path.iterdir()] == [f"cera-{PROJECT['version']}-py3-none-any.whl"]

    def test_a_missing_extension_is_an_error_where_it_is_required(self, sdist: Path, tmp_path: Path) -> None:
        process = self.pip_wheel(sdist, tmp_path, CERA_REQUIRE_NATIVE="1")
        assert process.returncode != 0
        assert "CMake configuration failed" in process.stdout + process.stderr
        assert list(tmp_path.iterdir()) == []
