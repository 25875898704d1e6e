import sys

import pytest

import cera_native
from cera_core.errors import PluginError
from cera_core.specs import ModelSpec


def registered_spec() -> ModelSpec:
    specs = []
    cera_native.cera_register_models(specs.append)
    (spec,) = specs
    return spec


def test_without_the_extension_it_is_listed_with_reason_and_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cera_native._native", None)
    spec = registered_spec()
    reason = spec.availability()
    assert "CERA_REQUIRE_NATIVE=1" in reason
    assert "compiler" in reason
    with pytest.raises(PluginError, match="'native' is not available"):
        spec.load(None, spec.options())


def test_it_comes_before_the_reference_backend():
    assert registered_spec().priority > 10


def test_options_are_checked():
    for wrong in ({"threads": 0}, {"cache_type": "q8"}, {"instruction_set": "mmx"}, {"thread": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            cera_native.NativeOptions(**wrong)
