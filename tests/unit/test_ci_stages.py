"""The stages of `.ci` run away from a developer's settings, and find the models that are there."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

CI = Path(__file__).parents[2] / ".ci"


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not CI.is_dir():
        pytest.skip("a source distribution does not hold it")
    monkeypatch.syspath_prepend(str(CI))
    spec = spec_from_file_location("stages", CI / "stages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "stages", module)
    spec.loader.exec_module(module)
    return module


def test_settings_are_hidden_but_for_where_models_are(stages: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CERA_BACKEND", "PYTHONPATH", "CERA_CACHE_DIR"):
        monkeypatch.setenv(name, "x")
    environment = stages.environment({"CERA_REQUIRE_MODELS": "1"})
    assert environment["CERA_CACHE_DIR"] == "x"
    assert environment["CERA_REQUIRE_MODELS"] == "1"
    assert not {"CERA_BACKEND", "PYTHONPATH"} & environment.keys()
    assert stages.environment({"CERA_CACHE_DIR": "own"})["CERA_CACHE_DIR"] == "own"


def test_a_stage_that_is_skipped_says_why(
    stages: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stages, "run", lambda command, **settings: "\n")
    monkeypatch.setenv("CERA_HOSTS_PYTHON", "some-python")
    checks = stages.Checks(tmp_path)
    checks.stage("other engines", lambda: stages.other_engines(checks))
    assert checks.summary() == 0
    written = capsys.readouterr().out
    assert (
        "other engines: skipped, as neither llama-cpp-python nor transformers is installed for some-python" in written
    )
    assert "1 stages, 0 failed, 1 skipped" in written
