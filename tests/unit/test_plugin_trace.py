"""`CERA_TRACE_PLUGINS=1` shows each call of a hook: plugin, hook, arguments cut short, time."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import entry_points
from types import SimpleNamespace

import pluggy
import pytest

from cera_core.discovery import discover
from cera_core.hookspecs import PROJECT_NAME, ObserverHooks, hookimpl
from cera_core.observers import Observers
from cera_core.plugin_trace import MAX_ARGUMENT_LENGTH, trace_hook_calls

EVENT = SimpleNamespace(text="x" * 1000)


class Watcher:
    @hookimpl
    def cera_round_finished(self, round: object) -> None:  # noqa: A002
        pass


class Failing:
    @hookimpl
    def cera_round_finished(self) -> None:
        raise ValueError("no")


@pytest.fixture
def observers() -> Observers:
    manager = pluggy.PluginManager(PROJECT_NAME)
    manager.add_hookspecs(ObserverHooks)
    manager.register(Watcher(), "watcher")
    manager.register(Failing(), "failing")
    trace_hook_calls(manager)
    return Observers(manager)


def test_each_call_is_a_line(observers: Observers, capsys: pytest.CaptureFixture[str]) -> None:
    observers.round_finished(EVENT)  # type: ignore[arg-type]
    observers.round_finished(EVENT)  # type: ignore[arg-type]
    lines = sorted(capsys.readouterr().err.splitlines())
    assert len(lines) == 3  # the one that failed is called once
    shown = re.fullmatch(r"trace: watcher: cera_round_finished\(round=(.*)\) in \d+\.\d{3} ms", lines[1])
    assert shown
    assert len(shown[1]) == MAX_ARGUMENT_LENGTH
    assert re.search(r"failing: cera_round_finished\(.*\) raised ValueError: no in", lines[0])


def test_calls_on_several_threads_do_not_mix_their_times(
    observers: Observers, capsys: pytest.CaptureFixture[str]
) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(observers.round_finished, [EVENT] * 50))
    assert all(float(line.split()[-2]) < 1000 for line in capsys.readouterr().err.splitlines())


def test_discovery_is_traced_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    discover()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("CERA_TRACE_PLUGINS", "1")
    discover()
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("trace: prompt-lookup: cera_register_drafters(register=") for line in lines)
    assert any(line.startswith("trace: numpy: cera_register_models(register=") for line in lines)
    assert len(lines) == len(entry_points(group="cera"))
