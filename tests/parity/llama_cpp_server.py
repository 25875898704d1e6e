"""Asks llama.cpp, as packaged in `xllamacpp`, for ids and prompts: the independent engine fixtures are recorded from.

Not needed to run any test; `pip install xllamacpp` to record again.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xllamacpp

ENGINE = f"llama.cpp in xllamacpp {version('xllamacpp')}"


class LlamaCppServer:
    """A llama.cpp server of one model, inside this process."""

    def __init__(self, model: Path, *, float32_cache: bool = False, context_length: int = 256) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.n_ctx, params.n_parallel, params.warmup, params.verbosity = context_length, 1, False, 0
        if float32_cache:  # else float16, and fast attention rounds to it as well
            params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
            params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._server = xllamacpp.Server(params)

    def encode(self, text: str, *, parse_special: bool = False) -> list[int]:
        return self._post("/tokenize", {"content": text, "add_special": True, "parse_special": parse_special})["tokens"]

    def render(self, messages: list[dict[str, str]]) -> str:
        return self._post("/apply-template", {"messages": messages})["prompt"]

    def greedy(self, prompt_ids: list[int], num_tokens: int, num_candidates: int) -> list[dict[str, Any]]:
        """Continues a prompt greedily; for each token its id and the likeliest candidates with log-probabilities."""
        answer = self._post(
            "/completion",
            {
                "prompt": prompt_ids,
                "n_predict": num_tokens,
                "temperature": 0,
                "ignore_eos": True,
                "n_probs": num_candidates,
                "cache_prompt": False,
            },
        )
        return answer.get("completion_probabilities", [])

    def log_probability(self, prompt_ids: list[int], next_id: int, vocab_size: int) -> float:
        """Returns the natural log-probability of a token after a prompt; cheap where it extends the last one."""
        for num_candidates in (64, 4096, vocab_size):
            answer = self._post(
                "/completion", {"prompt": prompt_ids, "n_predict": 1, "temperature": 0, "n_probs": num_candidates}
            )
            for candidate in answer["completion_probabilities"][0]["top_logprobs"]:
                if candidate["id"] == next_id:
                    return candidate["logprob"]
        raise ValueError(f"llama.cpp names no probability of the token {next_id}.")

    def _post(self, path: str, content: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._server.listening_address + path,
            data=json.dumps(content).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.load(response)


def write_fixture(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a fixture with one list of numbers on a line."""
    text = json.dumps(content, ensure_ascii=False, indent=1)
    compact = re.sub(r"\[\n[-\d.,\s]+\]", lambda numbers: "".join(numbers[0].split()), text)
    path.write_text(compact + "\n", encoding="utf-8")
