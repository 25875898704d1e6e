"""Files that cera keeps: the folder they are in, and how one is written so that nobody reads half of it."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def cache_folder() -> Path:
    """Returns `CERA_CACHE_DIR`, or cera's folder in the user's cache."""
    from platformdirs import user_cache_path  # noqa: PLC0415 - 20 ms, and no name is looked up at import

    chosen = os.environ.get("CERA_CACHE_DIR")
    return Path(chosen).expanduser() if chosen else user_cache_path("cera", appauthor=False)


def check_can_be_replaced(path: Path) -> None:
    """Tries whether `replacing` could begin; leaves everything as it is.

    Raises:
        OSError: It could not.
    """
    with suppress(_TriedError), replacing(path):
        raise _TriedError


class _TriedError(Exception):
    """Ends a trial."""


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Gives a new file that takes the place of `path` when all went well, and vanishes when not.

    Raises:
        OSError: It cannot be written.
    """
    if path.is_dir():  # to be known before the work is done
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
