"""Files from the Hugging Face hub, or from a mirror of it that `HF_ENDPOINT` names, over plain HTTP.

One public file of known size and checksum needs no client library: no token, no listing, no second cache.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from cera_core.errors import DownloadError
from cera_core.modelfile.download import Assembly

DEFAULT_ENDPOINT = "https://huggingface.co"
TIMEOUT_SECONDS = 10.0  # for the connection, and for each pause of the server


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a model repository.

    Attributes:
        repository: Owner and name.
        file_name: Path in the repository.
        revision: Branch or commit.
    """

    repository: str
    file_name: str
    revision: str = "main"

    @property
    def description(self) -> str:
        """Names the repository."""
        return f"Hugging Face repository {self.repository}"

    @property
    def url(self) -> str:
        """Where the file is, by `HF_ENDPOINT`."""
        endpoint = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
        return f"{endpoint}/{self.repository}/resolve/{self.revision}/{self.file_name}"

    def fetch(self, assembly: Assembly, workspace: Path) -> None:
        """Downloads the file; see `Source`."""
        del workspace
        assembly.begin(self.description)
        with _errors_named(self.url), urlopen(_request(self.url), timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length")
            if length is not None and length != str(assembly.size):
                raise DownloadError(f"the file must have {assembly.size} bytes, but {self.url} has {length}")
            assembly.append(response)


def _request(url: str) -> Request:
    if not url.startswith(("https://", "http://")):
        raise DownloadError(f"HF_ENDPOINT must begin with https:// or http://, found {url!r}")
    return Request(url, headers={"User-Agent": "cera"})


@contextmanager
def _errors_named(url: str) -> Iterator[None]:
    """Turns what can go wrong over HTTP into one `DownloadError` that names the address."""
    try:
        yield
    except HTTPError as error:
        raise DownloadError(f"{url} answered {error.code} {error.reason}") from error
    except TimeoutError as error:
        raise DownloadError(f"{url} did not answer within {TIMEOUT_SECONDS:g} seconds") from error
    except URLError as error:
        reason = "no answer in time" if isinstance(error.reason, TimeoutError) else error.reason
        raise DownloadError(f"{url} cannot be reached: {reason}") from error
    except (HTTPException, ConnectionError, ValueError) as error:  # ValueError: an address that is none
        raise DownloadError(f"{url} broke off: {error or type(error).__name__}") from error
