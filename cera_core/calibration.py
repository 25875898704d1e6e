"""Measures what forwards cost on this machine, once for a model file, and keeps it in the user's cache.

A calibration only spares the draft budget its first guesses: what it learns while text is made comes before. So a file
that cannot be read or written is no error, and neither is a model that cannot be measured.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import threading
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cera_core.errors import CeraError
from cera_core.files import replacing
from cera_core.machine import num_usable_processors, processor_name
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.model_guard import call_model, new_state

if TYPE_CHECKING:
    from cera_core.model import InferenceState, Model

FILE_NAME = "round-costs.json"
MAX_KEPT = 100
_FORMAT = 1
_ROWS = (1, 4, 8, 2, 16, 1)  # in this order, as time may run out; a plain step first and last
_SECONDS = 0.3
_log = logging.getLogger("cera")


class Calibration:
    """The costs of one model on this machine, measured when they are first asked for.

    Args:
        model: The model.
        file: Where costs are kept; None keeps nothing.
        key: Names model file, backend and machine in it.
    """

    def __init__(self, model: Model, file: Path | None, key: str) -> None:
        self._model = model
        self._file = file
        self._key = key
        self._costs: RoundCosts | None = None
        self._lock = threading.Lock()

    @property
    def costs(self) -> RoundCosts:
        """What is known of the costs, the same object each time; a second thread waits for the first."""
        with self._lock:
            if self._costs is None:
                self._costs = RoundCosts(self._steps())
            return self._costs

    def _steps(self) -> dict[int, float]:
        kept = _read(self._file) if self._file else {}
        steps = kept.get(self._key) or measured_steps(self._model)
        if self._file and steps and self._key not in kept:
            _write(self._file, {**kept, self._key: steps})
        return steps


def calibration_key(model: Model, model_file: Path, options: Mapping[str, Any]) -> str:
    """Names what costs depend on: the model file, the backend with its options, the machine, the version of cera."""
    from cera_core import __version__  # noqa: PLC0415 - the package's names are imported when asked for

    status = model_file.stat()
    parts = (
        __version__,
        f"{type(model).__module__}.{type(model).__qualname__}",
        sorted((name, repr(value)) for name, value in options.items()),
        (processor_name(), num_usable_processors()),
        (model_file.name, status.st_size, status.st_mtime_ns),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def measured_steps(model: Model) -> dict[int, float]:
    """Measures forwards of several rows on an empty state, for at most 0.3 seconds and one forward more.

    Returns:
        Cost by number of rows, in plain steps; empty if the model failed or was too slow to compare anything.
    """
    seconds: dict[int, list[float]] = {}
    try:
        state = new_state(model, min(2 * max(_ROWS), model.config.max_seq_len))
        _seconds_of_forward(model, state, 1)  # the first touches memory for the first time
        end = perf_counter() + _SECONDS
        for num_rows in _ROWS:
            if num_rows <= min(model.max_batch, state.max_seq_len) and perf_counter() < end:
                seconds.setdefault(num_rows, []).append(_seconds_of_forward(model, state, num_rows))
    except CeraError as error:
        _log.debug("The model could not be calibrated: %s", error)
        return {}
    best = {num_rows: min(samples) for num_rows, samples in sorted(seconds.items())}
    return {num_rows: value / best[1] for num_rows, value in best.items()} if best.get(1) else {}


def _seconds_of_forward(model: Model, state: InferenceState, num_rows: int) -> float:
    token_ids = [index % model.config.vocab_size for index in range(num_rows)]
    start = perf_counter()
    call_model(model.forward_all, token_ids, state)
    seconds = perf_counter() - start
    call_model(model.truncate, state, 0)
    return seconds


def _read(file: Path) -> dict[str, dict[int, float]]:
    """Reads what is kept; nothing if that is missing, damaged or of another format."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
        if value["format"] != _FORMAT:
            return {}
        kept = {key: {int(rows): float(cost) for rows, cost in steps.items()} for key, steps in value["steps"].items()}
        return {key: steps for key, steps in kept.items() if all(0 < cost < math.inf for cost in steps.values())}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write(file: Path, steps: Mapping[str, Mapping[int, float]]) -> None:
    """Writes the newest entries."""
    newest = dict(list(steps.items())[-MAX_KEPT:])
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as unfinished:
            unfinished.write(json.dumps({"format": _FORMAT, "steps": newest}).encode())
    except OSError as error:
        _log.debug("The costs of rounds could not be kept: %s", error)
