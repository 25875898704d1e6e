"""Records log-probabilities of llama.cpp for tiny float32 models of every architecture: writes tiny_models.json.

    PYTHONPATH=tests:. python tests/parity/record_tiny_models.py

With float32 weights and caches llama.cpp quantises nothing, so its figures can be met closely. Positions where its
likeliest token is a part of a character are left out: the server holds them back.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from llama_cpp_server import ENGINE, LlamaCppServer, write_fixture

from support.tiny_gguf import write_tiny_gguf

TOKEN_IDS = np.random.default_rng(1).integers(0, 270, 40).tolist()
NUM_CANDIDATES = 3
MODELS: dict[str, dict[str, Any]] = {
    "llama": {"architecture": "llama"},
    "llama with factors": {"architecture": "llama", "rope_factors": True},
    "qwen2": {"architecture": "qwen2", "tied": False},
    "qwen3": {"architecture": "qwen3"},
    "gemma3": {"architecture": "gemma3", "num_layers": 3, "settings": {"attention.sliding_window": 8}},
    "gemma3 without a pattern": {
        "architecture": "gemma3",
        "num_layers": 7,
        "rope_freq_base": 100000.0,
        "settings": {"attention.sliding_window": 8, "attention.sliding_window_pattern": None},
    },
    "granite": {"architecture": "granite"},
    "llama, linear scaling": {
        "architecture": "llama",
        "settings": {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    },
    "qwen2, YaRN": {
        "architecture": "qwen2",
        "settings": {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 128,
        },
    },
    "lfm2": {"architecture": "lfm2", "num_layers": 3},
    "lfm2moe": {"architecture": "lfm2moe", "num_layers": 3},
    "qwen3moe": {"architecture": "qwen3moe"},
}


def record(options: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = write_tiny_gguf(Path(folder) / "tiny.gguf", quantisation="F32", **options)
        server = LlamaCppServer(path, float32_cache=True)
        candidates = {}
        for position in range(len(TOKEN_IDS)):
            found = server.greedy(TOKEN_IDS[: position + 1], 1, NUM_CANDIDATES)
            if found:
                candidates[str(position)] = [
                    [candidate["id"], round(candidate["logprob"], 4)] for candidate in found[0]["top_logprobs"]
                ]
    return {"options": options, "candidates": candidates}


def main() -> None:
    models = {name: record(options) for name, options in MODELS.items()}
    content = {"engine": ENGINE, "token_ids": TOKEN_IDS, "models": models}
    write_fixture(Path(__file__).with_name("tiny_models.json"), content)


if __name__ == "__main__":
    main()
