"""The native backend as a contestant of bench_native.py.

As with the others, modules are imported before the clock starts, and loading makes the tokenizer too.
"""

from __future__ import annotations

import gguf  # noqa: F401 - what reading a header imports
from worker import serve

import cera_native
import cera_native.loading
from cera_core.modelfile.gguf import open_model_file
from cera_core.modelfile.tokenizer import load_tokenizer


class Native:
    """A model and one state."""

    def __init__(self, path: str, threads: int) -> None:
        with open_model_file(path) as model_file:
            self._model = cera_native.load(model_file, cera_native.NativeOptions(threads=threads))
            self._tokenizer = load_tokenizer(model_file)
        self._state = self._model.new_state(2048)

    def run(self, num_tokens: int, *, all_rows: bool) -> None:
        ids = range(100, 100 + num_tokens)
        (self._model.forward_all if all_rows else self._model.forward)(ids, self._state)

    def cut(self, length: int) -> None:
        if length == 0:  # a state with short convolutions does not go back that far
            self._state = self._model.new_state(2048)
        self._model.truncate(self._state, min(length, self._state.seq_len))


serve(Native)
