"""llama.cpp as a contestant of likelihood.py: reads ids, writes the log-probability of each but the first.

    python tests/bench/llama_cpp_likelihood.py MODEL_FILE < ids.json

Runs in an environment that has `xllamacpp`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "parity"))

from llama_cpp_server import ENGINE, LlamaCppServer

request = json.load(sys.stdin)
ids = request["ids"]
server = LlamaCppServer(Path(sys.argv[1]), float32_cache=True, context_length=len(ids) + 32)
log_probabilities = [
    server.log_probability(ids[:position], ids[position], request["vocab_size"]) for position in range(1, len(ids))
]
json.dump({"engine": ENGINE, "log_probabilities": log_probabilities}, sys.stdout)
