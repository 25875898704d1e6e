"""A class or function is traced to the package whose plugin defined it."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import cera_core
from cera_core.origins import package_of, with_package
from cera_prompt_lookup import PromptLookupDrafter
from support.plugin_package import install_plugin


def test_first_party_plugin_is_of_cera() -> None:
    assert package_of(PromptLookupDrafter) == f"cera {cera_core.__version__}"
    assert with_package("prompt-lookup", PromptLookupDrafter) == f"'prompt-lookup' of cera {cera_core.__version__}"


def test_stranger_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    source = "class Thing:\n    def method(self): pass\n"
    install_plugin(tmp_path, "stranger-x", source, distribution="strange", version="2.1")
    module = importlib.import_module("plugin_stranger_x")
    assert package_of(module.Thing) == package_of(module.Thing.method) == "strange 2.1"


@pytest.mark.parametrize("value", [dict, 5, object(), type("Mine", (), {}), cera_core.Draft])
def test_what_no_plugin_defined_is_of_no_package(value: object) -> None:
    assert package_of(value) is None
    assert with_package("x", value) == "'x'"
