"""Costs are measured once for a model file and kept; nothing that goes wrong with that is an error."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core import calibration
from cera_core.calibration import MAX_KEPT, Calibration, calibration_key, measured_steps
from cera_core.errors import ModelError
from cera_core.model import InferenceState
from cera_core.speculation.costs import RoundCosts
from cera_core.testing.fakes import ScriptedModel, TableModel
from support.simulated_time import Clock, TimedModel
from support.tiny_gguf import write_tiny_gguf


class FailingModel(TableModel):
    """Cannot compute."""

    error: Exception = ModelError("It failed.")

    def forward_all(self, token_ids: Sequence[int], state: InferenceState) -> Any:
        raise self.error


class PanickingModel(FailingModel):
    """Fails in a way of its own."""

    error = ZeroDivisionError()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    clock.replace_everywhere(monkeypatch)
    return clock


def timed_model(clock: Clock, step: float = 0.001) -> TimedModel:
    return TimedModel([1] * 64, clock, lambda rows: step * (1 + 0.25 * (rows - 1)), vocab_size=8)


def test_costs_are_measured_in_plain_steps(clock: Clock) -> None:
    assert measured_steps(timed_model(clock)) == pytest.approx({1: 1, 2: 1.25, 4: 1.75, 8: 2.75, 16: 4.75})


def test_a_slow_model_is_measured_for_a_bounded_time(clock: Clock) -> None:
    steps = measured_steps(timed_model(clock, step=0.1))
    assert steps == pytest.approx({1: 1, 4: 1.75, 8: 2.75})
    assert clock.now <= 0.1 + calibration._SECONDS + 0.475


def test_a_model_that_fails_or_is_small_is_no_error() -> None:
    assert measured_steps(FailingModel()) == measured_steps(PanickingModel()) == {}
    assert set(measured_steps(TableModel(max_batch=4))) == {1, 2, 4}
    assert set(measured_steps(ScriptedModel([1, 2], vocab_size=4, max_seq_len=2))) == {1, 2}


def test_costs_are_measured_once_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "costs.json"
    model, again, other = TableModel(), TableModel(), TableModel()
    first = Calibration(model, file, "a")
    assert not model.forward_sizes
    assert first.costs is first.costs
    assert sorted(model.forward_sizes) == [1, 1, 1, 2, 4, 8, 16]
    costs = Calibration(again, file, "a").costs
    assert not again.forward_sizes
    for known in (costs, first.costs):
        known.observe(1, 1.0)
    assert costs.steps(16) == pytest.approx(first.costs.steps(16))
    Calibration(other, file, "b").costs  # noqa: B018
    assert other.forward_sizes
    assert list(json.loads(file.read_text())["steps"]) == ["a", "b"]


DAMAGED = ("", "{", "[]", "{}", '{"format": 0, "steps": {}}', '{"format": 1, "steps": {"a": 3}}')
NO_COSTS = ('{"1": 1, "8": 0}', '{"1": 1, "8": -2}', '{"1": 1, "8": NaN}', '{"1": 1, "8": Infinity}')


@pytest.mark.parametrize("content", [*DAMAGED, *(f'{{"format": 1, "steps": {{"a": {steps}}}}}' for steps in NO_COSTS)])
def test_a_damaged_file_is_written_anew(tmp_path: Path, content: str) -> None:
    file = tmp_path / "costs.json"
    file.write_text(content)
    Calibration(TableModel(), file, "a").costs  # noqa: B018
    assert set(json.loads(file.read_text())["steps"]["a"]) == {"1", "2", "4", "8", "16"}


def test_a_folder_that_cannot_be_written_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    costs = Calibration(TableModel(), tmp_path / "file" / "costs.json", "a").costs
    costs.observe(1, 1.0)
    assert costs.steps(16) is not None


def test_the_oldest_are_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "costs.json"
    for number in range(MAX_KEPT + 2):
        calibration._write(file, {**calibration._read(file), str(number): {1: 1.0}})
    kept = list(calibration._read(file))
    assert (len(kept), kept[0], kept[-1]) == (MAX_KEPT, "2", str(MAX_KEPT + 1))
    assert [path.name for path in tmp_path.iterdir()] == ["costs.json"]


def test_another_file_or_option_has_another_key(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"a")
    key = calibration_key(TableModel(), file, {"threads": 2})
    assert key == calibration_key(TableModel(), file, {"threads": 2})
    assert key != calibration_key(TableModel(), file, {"threads": 1})
    assert key != calibration_key(FailingModel(), file, {"threads": 2})
    file.write_bytes(b"ab")
    assert key != calibration_key(TableModel(), file, {"threads": 2})


def test_an_engine_calibrates_when_drafting_begins_and_the_text_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))
    model = write_tiny_gguf(tmp_path / "tiny.gguf", seed=2)
    options = {"backend": "numpy", "backend_options": {"exact": True}, "max_tokens": 24, "ignore_eos": True}
    plain = cera_core.load(model, drafter=None, **options).generate("the text of the text of")
    monkeypatch.setenv("CERA_CALIBRATE", "true")
    assert cera_core.load(model, drafter=None, **options).generate("the text").token_ids
    assert not (tmp_path / "round-costs.json").exists()
    engine = cera_core.load(model, **options)
    assert not (tmp_path / "round-costs.json").exists()
    assert engine.generate("the text of the text of").token_ids == plain.token_ids
    assert (tmp_path / "round-costs.json").exists()


def test_two_threads_that_ask_at_once_measure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, num_measured = threading.Barrier(2), []

    def measured(model: object) -> dict[int, float]:
        num_measured.append(model)
        time.sleep(0.05)  # the other thread asks meanwhile
        return {1: 1.0}

    monkeypatch.setattr(calibration, "measured_steps", measured)
    shared = Calibration(TableModel(), None, "key")

    def costs(_: int) -> RoundCosts:
        gate.wait()
        return shared.costs

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(costs, range(2))
    assert first is second
    assert len(num_measured) == 1
