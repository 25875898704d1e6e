"""Records what llama.cpp makes of the texts in tokenizer_texts.json: writes tokenizer_ids.json.

    python tests/parity/record_tokenizer_ids.py smollm2-135m=MODEL.gguf qwen2.5-coder-0.5b=MODEL.gguf ...

One thing is left out of the texts on purpose: llama.cpp takes `</s>` for a control token in any vocabulary that has it,
even where the file types it as ordinary text, as in Qwen's (strike-through) and Gemma's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from llama_cpp_server import ENGINE, LlamaCppServer, write_fixture

FOLDER = Path(__file__).parent
CONVERSATIONS = [
    [{"role": "user", "content": "Hello!"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  What is 2 + 2?\n"}],
    [
        {"role": "user", "content": "Schreib einen Satz über Bäume. 🌳"},
        {"role": "assistant", "content": "Bäume wachsen."},
        {"role": "user", "content": "```py\nx = 1\n```\nAnd {{ this }}?"},
    ],
]


def record(model: Path, texts: dict[str, str]) -> dict[str, object]:
    server = LlamaCppServer(model)
    recorded: dict[str, object] = {
        "ids": {name: server.encode(text) for name, text in texts.items()},
        "ids with control tokens": {
            name: server.encode(text, parse_special=True)
            for name, text in texts.items()
            if "control look-alikes" in name or name == "tool calls"
        },
    }
    if "gemma" not in model.name:  # a base model without a template, to which llama.cpp gives one of its own
        recorded["prompts"] = [server.render(messages) for messages in CONVERSATIONS]
    return recorded


def main() -> None:
    texts = json.loads((FOLDER / "tokenizer_texts.json").read_text(encoding="utf-8"))
    models = dict(argument.split("=", 1) for argument in sys.argv[1:])
    content = {
        "engine": ENGINE,
        "conversations": CONVERSATIONS,
        "models": {name: record(Path(path), texts) for name, path in models.items()},
    }
    write_fixture(FOLDER / "tokenizer_ids.json", content)


if __name__ == "__main__":
    main()
