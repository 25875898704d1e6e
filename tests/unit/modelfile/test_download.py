from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cera_core.errors import DownloadError
from cera_core.modelfile import download as download_module
from cera_core.modelfile.download import Assembly, Source, download

CONTENT = bytes(range(256)) * 8
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Fake:
    """A source that sends these pieces, or does what it is told."""

    description: str = "Fake"
    pieces: tuple[bytes, ...] = (CONTENT,)
    act: Callable[[Path], None] | None = None

    def fetch(self, assembly: Assembly, workspace: Path) -> None:
        assembly.begin(f"{self.description} begins")
        for piece in self.pieces:
            assembly.append(io.BytesIO(piece))
        if self.act is not None:
            self.act(workspace)


def fetch(target: Path, *sources: Source) -> None:
    download(target, size=len(CONTENT), sha256=SHA256, sources=sources)


def raising(error: BaseException) -> Fake:
    def act(workspace: Path) -> None:
        raise error

    return Fake("Raising", pieces=(b"some",), act=act)


def test_the_pieces_make_the_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.gguf"
    fetch(target, Fake(pieces=(CONTENT[:100], CONTENT[100:101], CONTENT[101:])))
    assert target.read_bytes() == CONTENT
    assert list(target.parent.iterdir()) == [target]


def test_the_first_good_source_is_enough(tmp_path: Path) -> None:
    fetch(tmp_path / "file", Fake(), raising(AssertionError("was asked")))


WRONG = bytes(len(CONTENT))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (
            Fake("Bad", (WRONG,)),
            f"Bad: the file's SHA-256 must be {SHA256}, found {hashlib.sha256(WRONG).hexdigest()}.",
        ),
        (Fake("Bad", (CONTENT[:-1],)), "Bad: the file must have 2048 bytes, but 2047 were sent."),
        (Fake("Bad", ()), "Bad: the file must have 2048 bytes, but 0 were sent."),
        (Fake("Bad", (CONTENT, b"x")), "Bad: the file must have 2048 bytes, but more were sent."),
        (raising(DownloadError("the reason")), "Raising: the reason."),
        (raising(OSError(errno.ENOSPC, "No space left on device")), "Raising: [Errno 28] No space left on device."),
    ],
)
def test_a_bad_source_is_passed_over_and_named_at_the_end(tmp_path: Path, bad: Fake, reason: str) -> None:
    fetch(tmp_path / "file", bad, Fake())
    assert (tmp_path / "file").read_bytes() == CONTENT
    with pytest.raises(DownloadError) as caught:
        fetch(tmp_path / "other", bad, bad)
    assert str(caught.value) == f"No source delivered 'other'. {reason} {reason}"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_source_that_never_ends_is_stopped(tmp_path: Path) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"x" * 1000

    class Source:
        description = "Endless"

        def fetch(self, assembly: Assembly, workspace: Path) -> None:
            assembly.append(Endless())

    with pytest.raises(DownloadError, match="more were sent"):
        fetch(tmp_path / "file", Source())


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError()])
def test_nothing_is_left_behind_after_an_interrupt(tmp_path: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        fetch(tmp_path / "file", raising(error))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_the_old_file_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(DownloadError):
        fetch(tmp_path / "file", Fake(pieces=(WRONG,)))
    assert (tmp_path / "file").read_bytes() == b"old"
    fetch(tmp_path / "file", Fake())
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_the_target_is_never_half_a_file(tmp_path: Path) -> None:
    target = tmp_path / "file"

    def act(workspace: Path) -> None:
        assert workspace.parent == tmp_path
        assert not target.exists()

    fetch(target, Fake(act=act))


def test_two_at_once_do_not_meet(tmp_path: Path) -> None:
    both_are_at_work = threading.Barrier(2, timeout=10)
    source = Fake(act=lambda workspace: both_are_at_work.wait() and None)
    threads = [threading.Thread(target=fetch, args=(tmp_path / "file", source)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_what_a_killed_process_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, recent = (tmp_path / f"{download_module.WORKSPACE_PREFIX}{name}" for name in ("old", "recent"))
    for workspace in (old, recent):
        workspace.mkdir()
        (workspace / "part").write_bytes(b"x")
    two_days_ago = time.time() - 2 * 86_400
    os.utime(old, (two_days_ago, two_days_ago))
    fetch(tmp_path / "file", Fake())
    assert not old.exists()
    assert recent.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(DownloadError, match=r"kept in .*taken', which cannot be written: \w.*\. Set CERA_CACHE_DIR"):
        fetch(tmp_path / "taken" / "file", Fake())


def test_progress_counts_bytes_and_names_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_module, "CHUNK_BYTES", 1000)
    seen: list[tuple[int, int, str]] = []
    sources = [Fake("First", (WRONG,)), Fake("Second")]
    download(
        tmp_path / "file",
        size=len(CONTENT),
        sha256=SHA256,
        sources=sources,
        progress=lambda done_bytes, total_bytes, step: seen.append((done_bytes, total_bytes, step)),
    )
    counts = [0, 1000, 2000, 2048]
    assert seen == [(count, 2048, f"{name} begins") for name in ("First", "Second") for count in counts]
