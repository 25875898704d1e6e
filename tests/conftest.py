"""What all tests share: an environment that is the same on every machine, and real models by name."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import settings

from cera_core.errors import DownloadError, InvalidInputError
from cera_core.modelfile import catalogue

if TYPE_CHECKING:
    from support.turns import Turns

DEVELOPERS_ENVIRONMENT = dict(os.environ)
KEPT_VARIABLES = ("CERA_CACHE_DIR", "CERA_NATIVE_ISA", "CERA_REQUIRE_", "CERA_TEST_")
REQUIRED_MODEL = "smollm2-135m"
FAST_SUITE = "not bench and not model and not install and not hosts"  # as in pyproject.toml
NUM_PROCESSES = 2

settings.register_profile("cera", deadline=None)  # else a busy machine fails a test; each has a time limit anyway
settings.load_profile("cera")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Shares the fast suite between two processes, where it is asked for as a whole and pytest-xdist is there."""
    is_whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS and config.option.markexpr == FAST_SUITE
    can_share = config.pluginmanager.hasplugin("xdist") and not hasattr(config, "workerinput")
    if can_share and is_whole and config.option.numprocesses is None and not config.option.usepdb:
        config.option.numprocesses = NUM_PROCESSES


def pytest_collection_finish() -> None:
    """Spares the garbage collector the thousands of tests there are, which it would look at again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Where several processes share the tests, lets one marked `alone` have the machine to itself."""
    if hasattr(item.config, "workerinput"):
        with _turns(item.config).turn(alone=item.get_closest_marker("alone") is not None):
            return (yield)
    return (yield)


@cache
def _turns(config: pytest.Config) -> Turns:
    from support.turns import Turns

    turns = Turns(config._tmp_path_factory.getbasetemp().parent)  # type: ignore[attr-defined]
    config.add_cleanup(turns.close)
    return turns


@pytest.fixture(autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hides the developer's own settings of cera from a test, and fails a test that leaves the environment changed.

    The model cache stays the developer's, and so does the configuration of pip.
    """
    with mock.patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("CERA_") and not name.startswith(KEPT_VARIABLES)]:
            del os.environ[name]
        pip_settings = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "pip" / "pip.conf"
        if pip_settings.is_file():
            os.environ.setdefault("PIP_CONFIG_FILE", str(pip_settings))
        os.environ["CERA_CALIBRATE"] = "false"  # it would fill the developer's cache with models that are gone
        os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.getbasetemp() / "no-settings")
        before = _variables()
        yield
        left = _variables()
    changed = sorted(name for name in before.keys() | left.keys() if before.get(name) != left.get(name))
    if changed:
        pytest.fail(f"The test left these environment variables changed: {', '.join(changed)}.")


def _variables() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture(scope="session")
def model_path() -> Callable[[str], Path]:
    """Finds a model of the catalogue by name, and fetches it into the user's cache if it is not there.

    Where it cannot be had the test is skipped with the reason; with `CERA_REQUIRE_MODELS=1` it fails if the model is
    the default one.
    """
    reasons: dict[str, str] = {}

    def find(name: str) -> Path:
        path = catalogue.cached_path(name)
        if path is not None:
            return path
        if name not in reasons:
            try:
                with mock.patch.dict(os.environ, DEVELOPERS_ENVIRONMENT, clear=True):
                    return catalogue.pull(name)
            except (DownloadError, InvalidInputError) as error:
                reasons[name] = str(error)
        if name == REQUIRED_MODEL and os.environ.get("CERA_REQUIRE_MODELS") == "1":
            pytest.fail(reasons[name])
        pytest.skip(reasons[name])

    return find
