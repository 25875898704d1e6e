"""Other engines that cera runs in or over: tests of them run where they are installed."""

from __future__ import annotations

import importlib.util
import os

import pytest


def skip_without(module: str) -> None:
    """Skips the calling test module where an engine is not installed; with `CERA_TEST_HOSTS=1` that is an error."""
    if importlib.util.find_spec(module) is None:
        if os.environ.get("CERA_TEST_HOSTS") == "1":
            pytest.fail(f"CERA_TEST_HOSTS is 1, and {module} is not installed", pytrace=False)
        pytest.skip(f"{module} is not installed", allow_module_level=True)
