"""Plugins are found through entry points, each in isolation: one that is broken harms nobody."""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cera_core import PLUGIN_API
from cera_core.discovery import PluginRecord, Plugins, discover
from cera_core.errors import CeraWarning, PluginError, UnknownNameError
from cera_core.observers import Observers
from support.plugin_package import install_plugin

HEADER = """
from cera_core import DrafterSpec, ModelSpec, hookimpl

def drafter(name):
    return DrafterSpec(name=name, summary="Guesses.", create=lambda options, context: None)

def backend(name, **settings):
    return ModelSpec(name=name, summary="Computes.", load=lambda file, options: None, **settings)
"""

GUESSER = """
@hookimpl
def cera_register_drafters(register):
    register(drafter("guesser"))
"""

FIRST_PARTY = {"prompt-lookup", "suffix-automaton", "aho-corasick", "corpus"}

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a plugin for one test; its source comes after `HEADER`."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)

    def install_one(name: str, source: str, *, distribution: str = "stranger", version: str = "1.0") -> None:
        install_plugin(tmp_path, name, HEADER + textwrap.dedent(source), distribution=distribution, version=version)

    yield install_one
    for name in set(sys.modules) - before:
        if name.startswith("plugin_"):
            del sys.modules[name]


def record_of(plugins: Plugins, name: str) -> PluginRecord:
    (record,) = (record for record in plugins.records if record.name == name)
    return record


def reason_of(plugins: Plugins, name: str) -> str:
    record = record_of(plugins, name)
    assert record.status == "broken"
    assert record.reason is not None
    return record.reason


class TestVersionOfTheContract:
    def test_plugin_that_asks_for_another_is_listed_with_what_it_wants(self, install: Install) -> None:
        install("future", "CERA_PLUGIN_API = 2\n" + GUESSER, distribution="futuristic")
        install("present", f"CERA_PLUGIN_API = {PLUGIN_API}\n" + GUESSER.replace('"guesser"', '"other"'))
        plugins = discover()
        record = record_of(plugins, "future")
        assert (record.status, record.drafters) == ("incompatible", ())
        assert record.reason == (
            "It is written for version 2 of the plugin API, and this cera has 1. Install a release of 'futuristic' for "
            "1, or of cera with 2."
        )
        assert "other" in plugins.drafters
        assert "guesser" not in plugins.drafters
        with pytest.raises(PluginError, match=r"'future' of futuristic 1\.0 is incompatible: It is written for"):
            plugins.drafter("future")

    @pytest.mark.parametrize("wanted", ["'1'", "0", "None", "2.5"])
    def test_anything_but_the_number_is_another(self, install: Install, wanted: str) -> None:
        install("odd", f"CERA_PLUGIN_API = {wanted}\n" + GUESSER)
        assert record_of(discover(), "odd").status == "incompatible"


class TestFinding:
    def test_drafters_and_backends_of_strangers_are_found(self, install: Install) -> None:
        install(
            "both",
            GUESSER
            + """
@hookimpl
def cera_register_models(register):
    register(backend("engine"))
    register(backend("other-engine"))
""",
            version="3.2",
        )
        plugins = discover()
        assert plugins.drafter("guesser").summary == "Guesses."
        assert plugins.backend("engine").summary == "Computes."
        assert record_of(plugins, "both") == PluginRecord(
            name="both",
            distribution="stranger",
            version="3.2",
            status="loaded",
            drafters=("guesser",),
            backends=("engine", "other-engine"),
        )

    def test_first_party_plugins_come_in_by_the_same_door(self) -> None:
        plugins = discover()
        assert set(plugins.drafters) >= FIRST_PARTY
        assert {"numpy", "native"} <= set(plugins.backends)
        assert {record.status for record in plugins.records if record.distribution == "cera"} == {"loaded"}

    def test_first_party_come_first_then_by_distribution_and_name(self, install: Install) -> None:
        observer = "@hookimpl\ndef cera_round_finished(round): pass\n"
        for name, distribution in [("b", "aaa"), ("a", "bbb"), ("a-first", "aaa")]:
            install(name, observer, distribution=distribution)
        order = [(record.distribution, record.name) for record in discover().records]
        num_first_party = sum(distribution == "cera" for distribution, _ in order)
        assert {distribution for distribution, _ in order[:num_first_party]} == {"cera"}
        strangers = [pair for pair in order if pair[0] in {"aaa", "bbb"}]
        assert strangers == [("aaa", "a-first"), ("aaa", "b"), ("bbb", "a")]

    def test_strangers_only_leaves_the_first_party_out(self, install: Install) -> None:
        install("mine", GUESSER)
        plugins = discover(strangers_only=True)
        assert "guesser" in plugins.drafters
        assert not FIRST_PARTY & set(plugins.drafters)
        assert "cera" not in {record.distribution for record in plugins.records}

    def test_two_distributions_may_use_one_entry_point_name(self, install: Install, tmp_path: Path) -> None:
        install("plugin", GUESSER, distribution="one")
        (tmp_path / "plugin_other.py").write_text(HEADER + GUESSER.replace("guesser", "other-guesser"))
        metadata = tmp_path / "two-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: two\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text("[cera]\nplugin = plugin_other\n")
        plugins = discover()
        assert {"guesser", "other-guesser"} <= set(plugins.drafters)


SIMPLE_FLAWS = {
    "import error": ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
    "syntax error": ("def def", "SyntaxError: "),
    "exits": ("raise SystemExit('I am leaving')", "SystemExit: I am leaving"),
    "panics": ("class Panic(BaseException): pass\nraise Panic('in Rust')", "Panic: in Rust"),
    "several lines": ("raise ValueError('one\\n  two')", "ValueError: one two"),
    "speechless": (
        "class Speechless(Exception):\n    def __str__(self): raise RuntimeError\nraise Speechless",
        "Speechless",
    ),
    "no hook": ("x = 1", "It implements no hook of cera (functions marked with '@hookimpl')."),
    "unmarked hook": (
        GUESSER + "def cera_register_models(register): pass",
        "Its 'cera_register_models' is not marked with '@hookimpl'.",
    ),
    "unknown hook": (
        "@hookimpl\ndef cera_register_drafter(register): pass",
        "It implements an unknown hook 'cera_register_drafter'. Did you mean 'cera_register_drafters'?",
    ),
    "unknown hook far from all": (
        "@hookimpl\ndef zzz(): pass",
        "It implements an unknown hook 'zzz'.",
    ),
    "unknown hook under another name": (
        "@hookimpl(specname='cera_round_ended')\ndef watch(round): pass",
        "It implements an unknown hook 'cera_round_ended'. Did you mean 'cera_round_finished'?",
    ),
    "wrong arguments": (
        "@hookimpl\ndef cera_register_drafters(registry): pass",
        "PluginValidationError: Plugin 'flawed' for hook 'cera_register_drafters' hookimpl definition: "
        "cera_register_drafters(registry) Argument(s) {'registry'} are declared in the hookimpl but can not be found "
        "in the hookspec",
    ),
    "wrapper": (
        "@hookimpl(wrapper=True)\ndef cera_round_finished(round):\n    yield",
        "Its 'cera_round_finished' is a wrapper; the hooks of cera are plain functions.",
    ),
    "hook raises": (
        "@hookimpl\ndef cera_register_drafters(register): raise KeyError('gone')",
        "KeyError: 'gone'",
    ),
    "hook exits": (
        "@hookimpl\ndef cera_register_models(register): raise SystemExit(3)",
        "SystemExit: 3",
    ),
    "hook returns": (
        "@hookimpl\ndef cera_register_drafters(): return [drafter('guesser')]",
        "Its 'cera_register_drafters' returns something; it must call 'register' with each spec instead.",
    ),
    "no spec": (
        "@hookimpl\ndef cera_register_drafters(register): register('guesser')",
        "It registers 'guesser' where a DrafterSpec is required.",
    ),
    "spec of the other kind": (
        "@hookimpl\ndef cera_register_models(register): register(drafter('guesser'))",
        "where a ModelSpec is required.",
    ),
    "bad name": (
        "@hookimpl\ndef cera_register_drafters(register): register(drafter('My Guesser'))",
        "It registers a drafter named 'My Guesser'; a name is in kebab-case.",
    ),
    "reserved name": (
        "@hookimpl\ndef cera_register_models(register): register(backend('auto'))",
        "It registers the backend 'auto', a name that is reserved.",
    ),
    "name of the first party": (
        "@hookimpl\ndef cera_register_drafters(register): register(drafter('prompt-lookup'))",
        "It registers the drafter 'prompt-lookup', a name that 'cera' has taken.",
    ),
    "name of another stranger": (
        GUESSER,
        "It registers the drafter 'guesser', a name that 'early-bird' has taken.",
    ),
}


class TestIsolation:
    @pytest.mark.parametrize("flaw", SIMPLE_FLAWS)
    def test_a_flawed_plugin_is_recorded_with_its_reason_and_harms_nobody(self, install: Install, flaw: str) -> None:
        source, reason = SIMPLE_FLAWS[flaw]
        first_party = set(discover().drafters)
        install("early", GUESSER, distribution="early-bird")
        install("flawed", source, distribution="flawed-package", version="0.7")
        install("late", GUESSER.replace("guesser", "late-guesser"), distribution="latecomer")
        plugins = discover()
        assert reason in reason_of(plugins, "flawed")
        record = record_of(plugins, "flawed")
        assert (record.distribution, record.version) == ("flawed-package", "0.7")
        assert (record.drafters, record.backends) == ((), ())
        assert set(plugins.drafters) == {*first_party, "guesser", "late-guesser"}
        assert "flawed" not in dict(plugins.manager.list_name_plugin())

    def test_a_plugin_that_comes_twice_keeps_its_first_registration(self, install: Install, tmp_path: Path) -> None:
        install("original", GUESSER + "@hookimpl\ndef cera_round_finished(round): pass\n")
        entry_points = tmp_path / "stranger-1.0.dist-info" / "entry_points.txt"
        entry_points.write_text(entry_points.read_text() + "second = plugin_original\n")
        plugins = discover()
        assert reason_of(plugins, "second") == "It is the same object as the plugin 'original'."
        assert "guesser" in plugins.drafters
        assert Observers(plugins.manager).watch_rounds

    def test_hooks_of_a_flawed_plugin_are_not_called(self, install: Install) -> None:
        install(
            "flawed",
            """
@hookimpl
def cera_generation_finished(generation): pass

@hookimpl
def cera_register_drafters(register):
    register(drafter("auto"))
""",
        )
        assert not Observers(discover().manager).watch_generations

    def test_nothing_of_a_plugin_counts_if_one_spec_is_flawed(self, install: Install) -> None:
        install("half", "@hookimpl\ndef cera_register_drafters(register):\n    [register(drafter(n)) for n in 'aA']")
        plugins = discover()
        assert "a-name" not in plugins.drafters
        assert "a" not in plugins.drafters
        assert reason_of(plugins, "half").startswith("It registers a drafter named 'A'")

    def test_a_hook_may_be_optional(self, install: Install) -> None:
        install("modern", GUESSER + "@hookimpl(optionalhook=True)\ndef cera_of_the_future(): pass\n")
        assert record_of(discover(), "modern").status == "loaded"


class TestAskedFor:
    def test_a_broken_plugin_is_an_error_with_its_reason_and_version(self, install: Install) -> None:
        install("wanted", "import nowhere_at_all", distribution="wanted-package", version="2.0")
        plugins = discover()
        reason = (
            "^The plugin 'wanted' of wanted-package 2.0 is broken: ModuleNotFoundError: No module named "
            "'nowhere_at_all'$"
        )
        with pytest.raises(PluginError, match=reason):
            plugins.drafter("wanted")
        with pytest.raises(PluginError, match=reason):
            plugins.backend("wanted")

    def test_an_unknown_name_is_answered_with_near_matches_and_what_is_installed(self) -> None:
        with pytest.raises(UnknownNameError, match=r"Did you mean 'prompt-lookup'\?") as caught:
            discover().drafter("prompt_lokup")
        assert "auto, corpus, none, prompt-lookup, suffix-automaton." in str(caught.value)
        with pytest.raises(UnknownNameError, match=r"There is no backend named 'nunpy'. Did you mean 'numpy'\?"):
            discover().backend("nunpy")

    def test_an_unknown_name_points_to_plugins_that_were_left_out(self, install: Install) -> None:
        install("flawed", "import nowhere_at_all")
        with pytest.raises(UnknownNameError, match=r"Not loaded: .*'flawed'; `cera plugins` says why\."):
            discover().drafter("special-guesser")

    def test_a_backend_that_cannot_run_says_why(self, install: Install) -> None:
        install(
            "machines",
            """
def fail(): raise OSError("no driver")
def leave(): raise SystemExit(1)

@hookimpl
def cera_register_models(register):
    register(backend("no-device", availability=lambda: "it needs a device; buy one"))
    register(backend("clueless", availability=fail))
    register(backend("leaver", availability=leave))
    register(backend("ready", availability=lambda: None))
""",
        )
        plugins = discover()
        with pytest.raises(
            PluginError, match=r"^The backend 'no-device' is not available: it needs a device; buy one$"
        ):
            plugins.backend("no-device")
        with pytest.raises(PluginError, match="'clueless' is not available: asking it failed with OSError: no driver"):
            plugins.backend("clueless")
        with pytest.raises(PluginError, match="'leaver' is not available: asking it failed with SystemExit: 1"):
            plugins.backend("leaver")
        names = [spec.name for spec in plugins.available_backends()]
        assert "ready" in names
        assert not {"no-device", "clueless", "leaver"} & set(names)

    def test_available_backends_are_ordered_by_priority(self, install: Install) -> None:
        install(
            "machines",
            """
@hookimpl
def cera_register_models(register):
    register(backend("slow", priority=-1000))
    register(backend("fast", priority=1000))
    register(backend("middling", priority=900))
""",
        )
        names = [spec.name for spec in discover().available_backends()]
        assert names[:2] == ["fast", "middling"]
        assert names[-1] == "slow"

    def test_no_backend_at_all_is_an_error_with_every_reason(self, install: Install) -> None:
        install(
            "machines",
            "@hookimpl\ndef cera_register_models(register): register(backend('x', availability=lambda: 'no x here'))",
        )
        with pytest.raises(PluginError, match=r"No backend is available. x: no x here"):
            discover(["cera"]).available_backends()
        with pytest.raises(PluginError, match=r"No backend is available. None is installed; reinstall cera."):
            discover(["cera", "stranger"]).available_backends()


class TestDisabling:
    @pytest.mark.parametrize("name", ["mine", "my-package", "My_Package", "my.package"])
    def test_by_entry_point_or_distribution(self, install: Install, name: str) -> None:
        install("mine", "raise RuntimeError('I was imported')", distribution="my_package")
        plugins = discover([name])
        record = record_of(plugins, "mine")
        assert (record.status, record.reason) == ("disabled", "It is named in 'disabled_plugins'.")
        with pytest.raises(PluginError, match=r"The plugin 'mine' of my_package 1.0 is disabled: It is named in"):
            plugins.drafter("mine")

    def test_a_first_party_plugin_by_name(self) -> None:
        plugins = discover(["prompt-lookup"])
        assert "prompt-lookup" not in plugins.drafters
        assert "suffix-automaton" in plugins.drafters
        with pytest.raises(PluginError, match="is disabled"):
            plugins.drafter("prompt-lookup")

    def test_a_name_that_disables_nothing_is_said(self) -> None:
        with pytest.warns(CeraWarning, match=r"names 'prompt-lokup', and no plugin .* Did you mean 'prompt-lookup'\?"):
            discover(["prompt-lokup"])

    def test_a_first_party_name_that_is_not_looked_at_is_known_all_the_same(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            discover(["prompt-lookup"], strangers_only=True)
