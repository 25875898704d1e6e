"""Runs llama.cpp for `cera bench --against llama.cpp`, as a process of its own that answers line by line.

It needs nothing of cera, so that the Python it runs under need only have a binding of llama.cpp: `llama-cpp-python`, or
`xllamacpp`, whose server has more kinds of n-gram speculation. Started without arguments it writes what it can do. With
`MODEL MODE THREADS CONTEXT` it loads the model, and answers a request of JSON on each line, always greedily:

    {"prompt": [ids], "max_tokens": n, "ignore_eos": false}

with the ids of the answer, or its text where the binding gives no ids, and the seconds from the first choice on:

    {"token_ids": [ids], "seconds": 1.5, "num_drafted": 8, "num_accepted": 3}
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter
from typing import Any

PLAIN = "plain"
LOOKUP_LENGTHS = (2, 10)
"""Tokens to guess: what the binding advises for processors without a graphics card, and what it does by default."""
SERVER_MODES = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache")

Answer = Callable[[dict[str, Any]], dict[str, Any]]


def abilities() -> dict[str, Any]:
    """Returns the binding that is installed, with its version and its modes; plain decoding is the first."""
    try:
        import llama_cpp  # noqa: F401, PLC0415
    except ImportError:
        import xllamacpp  # noqa: F401, PLC0415

        return {"binding": "xllamacpp", "version": version("xllamacpp"), "modes": [PLAIN, *SERVER_MODES]}
    modes = [PLAIN, *(f"prompt-lookup@{length}" for length in LOOKUP_LENGTHS)]
    return {"binding": "llama-cpp-python", "version": version("llama-cpp-python"), "modes": modes}


def binding_answers(path: str, mode: str, num_threads: int, context: int) -> Answer:
    """Loads a model with llama-cpp-python."""
    from llama_cpp import Llama  # noqa: PLC0415
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding  # noqa: PLC0415

    class Counted(LlamaPromptLookupDecoding):  # type: ignore[misc]
        """Counts what is drafted; what is accepted shows in the ids that come."""

        drafts: list[tuple[int, list[int]]] = []  # noqa: RUF012 - one object

        def __call__(self, input_ids: Any, /, **options: Any) -> Any:
            draft = super().__call__(input_ids, **options)
            self.drafts.append((len(input_ids), draft.tolist()))
            return draft

    drafter = None if mode == PLAIN else Counted(num_pred_tokens=int(mode.partition("@")[2]))
    model = Llama(
        path, n_ctx=context, n_threads=num_threads, n_threads_batch=num_threads, draft_model=drafter, verbose=False
    )

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if drafter:
            drafter.drafts.clear()
        prompt, token_ids, start = request["prompt"], [], 0.0
        model.reset()  # else the end of the request before would count as known
        for token_id in model.generate(prompt, temp=0.0, repeat_penalty=1.0):
            start = start or perf_counter()  # the first choice; what came before was the prompt
            if not request["ignore_eos"] and is_end(token_id):
                break
            token_ids.append(token_id)
            if len(token_ids) >= request["max_tokens"]:
                break
        seconds = perf_counter() - start if start else 0.0
        drafts = drafter.drafts if drafter else []
        text = [*prompt, *token_ids]
        agreed = [num_agreed(draft, text[place:]) for place, draft in drafts]
        num_drafted = sum(len(draft) for _, draft in drafts)
        return {"token_ids": token_ids, "seconds": seconds, "num_drafted": num_drafted, "num_accepted": sum(agreed)}

    def is_end(token_id: int) -> bool:
        import llama_cpp  # noqa: PLC0415

        return bool(llama_cpp.llama_vocab_is_eog(llama_cpp.llama_model_get_vocab(model.model), token_id))

    return answer


def num_agreed(draft: list[int], text: list[int]) -> int:
    """Returns how many tokens at the start are the same."""
    pairs = enumerate(zip(draft, text))  # noqa: B905 - either may be longer
    return next((place for place, (ours, theirs) in pairs if ours != theirs), min(len(draft), len(text)))


def server_answers(path: str, mode: str, num_threads: int, context: int) -> Answer:
    """Loads a model into the server of xllamacpp."""
    import xllamacpp as api  # noqa: PLC0415

    parameters = api.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel = context, 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = num_threads
    if mode != PLAIN:
        kind = "COMMON_SPECULATIVE_TYPE_" + mode.replace("-", "_").upper()
        parameters.speculative.types = [getattr(api.common_speculative_type, kind)]
    loaded = api.Server(parameters)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        # ngram-mod would draft from earlier answers, which a plain prompt does not have: it starts anew each time.
        server = loaded if mode == PLAIN else api.Server(parameters)
        reply = server.handle_completions(
            {
                "prompt": request["prompt"],
                "n_predict": request["max_tokens"],
                "ignore_eos": request["ignore_eos"],
                "temperature": 0.0,
                "cache_prompt": False,
            }
        )
        if "choices" not in reply:
            return {"error": str(reply.get("error", reply))}
        timings = reply["timings"]
        return {
            "text": reply["choices"][0]["text"],
            "num_tokens": timings["predicted_n"],
            "seconds": timings["predicted_ms"] / 1e3,
            "num_drafted": timings.get("draft_n", 0),
            "num_accepted": timings.get("draft_n_accepted", 0),
        }

    return answer


def main() -> None:
    """Writes what is installed, or answers requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w")  # llama.cpp may print as well
    os.dup2(2, 1)
    if len(sys.argv) == 1:
        print(json.dumps(abilities()), file=answers, flush=True)
        return
    path, mode, num_threads, context = sys.argv[1:]
    load = binding_answers if abilities()["binding"] == "llama-cpp-python" else server_answers
    answer = load(path, mode, int(num_threads), int(context))
    print(json.dumps({"loaded": path}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
