"""How likely do the native backend, the NumPy backend and llama.cpp find the same text, and how alike are their logits?

    python tests/bench/likelihood.py smollm2-135m qwen2.5-coder-0.5b --llama-cpp-python PYTHON

The text is the beginning of a page of the documentation, or of `--text FILE`. PYTHON is an interpreter that has
`xllamacpp`; without it llama.cpp is left out. Prints the mean negative log-likelihood of a token, and the cosine
between the rows of logits of native and NumPy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cera_core
from cera_core.modelfile.catalogue import resolve
from cera_core.modelfile.gguf import open_model_file
from cera_core.modelfile.tokenizer import load_tokenizer
from cera_core.speculation.sampling import log_softmax

TEXT = Path(__file__).parents[2] / "docs" / "explanation" / "architecture.md"
CHUNK = 64


def all_rows(model: cera_core.Model, ids: list[int]) -> NDArray[np.float32]:
    """Returns the logits after each id."""
    state = model.new_state(len(ids))
    chunks = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
    return np.concatenate([model.forward_all(chunk, state).copy() for chunk in chunks])


def negative_log_likelihood(rows: NDArray[np.float32], ids: list[int]) -> float:
    """Returns the mean over all ids but the first."""
    return -float(np.mean([log_softmax(row)[next_id] for row, next_id in zip(rows, ids[1:], strict=False)]))


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the cosine between each row of one and the same row of the other."""
    return (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def of_llama_cpp(python: str, path: Path, ids: list[int], vocab_size: int) -> float:
    worker = Path(__file__).with_name("llama_cpp_likelihood.py")
    request = json.dumps({"ids": ids, "vocab_size": vocab_size})
    output = subprocess.run([python, worker, path], input=request, stdout=subprocess.PIPE, text=True, check=True).stdout
    return -float(np.mean(json.loads(output)["log_probabilities"]))


def report(name: str, text: str, num_tokens: int, llama_cpp_python: str | None) -> str:
    path = resolve(name)
    with open_model_file(path) as model_file:
        ids = load_tokenizer(model_file).encode(text)[:num_tokens]
    rows = {backend: all_rows(cera_core.load_model(path, backend=backend), ids) for backend in ("native", "numpy")}
    alike = cosines(rows["native"], rows["numpy"])
    likelihoods = {backend: negative_log_likelihood(of_backend, ids) for backend, of_backend in rows.items()}
    if llama_cpp_python:
        likelihoods["llama.cpp"] = of_llama_cpp(llama_cpp_python, path, ids, rows["native"].shape[1])
    native = likelihoods.pop("native")
    others = " | ".join(f"{value:.4f} ({native / value - 1:+.2%})" for value in likelihoods.values())
    same_choice = (rows["native"].argmax(axis=1) == rows["numpy"].argmax(axis=1)).mean()
    return (
        f"| {name} | {len(ids)} | {native:.4f} | {others} | {alike.mean():.5f} ({alike.min():.5f}) "
        f"| {same_choice:.1%} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--tokens", type=int, default=448)
    parser.add_argument("--llama-cpp-python")
    arguments = parser.parse_args()
    peer = " llama.cpp (native is) |" if arguments.llama_cpp_python else ""
    print(f"| model | tokens | native | NumPy (native is) |{peer} cosine: mean (lowest) | same likeliest token |")
    print("|---" * (7 if peer else 6) + "|")
    text = arguments.text.read_text(encoding="utf-8")
    for name in arguments.models:
        print(report(name, text, arguments.tokens, arguments.llama_cpp_python), flush=True)


if __name__ == "__main__":
    main()
