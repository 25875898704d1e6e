"""Records greedy text and log-probabilities of llama.cpp for real models: writes greedy.json.

    PYTHONPATH=. python tests/parity/record_greedy.py smollm2-135m=MODEL.gguf qwen2.5-coder-0.5b=MODEL.gguf ...

Each model twice: the file as it is, where llama.cpp reads the weights with code of its own but rounds activations to 8
bits; and a copy with all weights dequantised, where it rounds nothing (that copy takes 4 bytes a weight on the disk).
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from llama_cpp_server import ENGINE, LlamaCppServer, write_fixture

from cera_core.modelfile.gguf import open_model_file

NUM_TOKENS = 40
NUM_CANDIDATES = 5
PROMPTS = {
    "smollm2-135m": [
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
        "The three primary colours are red, yellow and blue. Mixing two of them gives",
        "def mean(numbers):\n    \"\"\"Returns the arithmetic mean.\"\"\"\n",
    ],
    "qwen2.5-coder-0.5b": [
        "<|im_start|>user\nWrite a Python function that reverses a list.<|im_end|>\n<|im_start|>assistant\n",
        "SELECT name, count(*) FROM visits\n",
    ],
    "qwen2.5-coder-1.5b": [
        "<|im_start|>user\nWrite a Python function that reverses a list.<|im_end|>\n<|im_start|>assistant\n",
    ],
}  # fmt: skip


def record(server: LlamaCppServer, prompt: str) -> dict[str, Any]:
    prompt_ids = server.encode(prompt, parse_special=True)
    positions = server.greedy(prompt_ids, NUM_TOKENS, NUM_CANDIDATES)
    return {
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "token_ids": [position["id"] for position in positions],
        "candidates": [[candidate["id"] for candidate in position["top_logprobs"]] for position in positions],
        "log_probabilities": [
            [round(candidate["logprob"], 4) for candidate in position["top_logprobs"]] for position in positions
        ],
    }


def write_dequantised(source: Path, target: Path) -> None:
    """Copies a model file, every weight as float32."""
    model_file = open_model_file(source)
    writer = gguf.GGUFWriter(target, model_file.architecture)
    for field in gguf.GGUFReader(source).fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            item_type = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], item_type)
    float32 = np.dtype(np.float32)
    for info in model_file.tensors.values():
        writer.add_tensor_info(info.name, info.shape, float32, math.prod(info.shape) * float32.itemsize)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for info in model_file.tensors.values():
        writer.write_tensor_data(gguf.dequantize(model_file.tensor_bytes(info.name), info.type))
    writer.close()


def record_model(path: Path, prompts: list[str], *, is_large: bool) -> dict[str, Any]:
    """Records both kinds; of a large model only the second, as its types of weights occur in the others."""
    recorded = {}
    if not is_large:
        server = LlamaCppServer(path)
        recorded["file"] = [record(server, prompt) for prompt in prompts]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "float32.gguf"
        write_dequantised(path, copy)
        server = LlamaCppServer(copy, float32_cache=True)
        recorded["float32"] = [record(server, prompt) for prompt in prompts]
    return recorded


def main() -> None:
    models = {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        models[name] = record_model(Path(path), PROMPTS[name], is_large=name == "qwen2.5-coder-1.5b")
    write_fixture(Path(__file__).with_name("greedy.json"), {"engine": ENGINE, "models": models})


if __name__ == "__main__":
    main()
