"""`cera inspect` shows what a model file holds, and whether it can be run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.tiny_gguf import write_tiny_gguf


def properties(text: str) -> dict[str, str]:
    return {line.split(None, 1)[0]: line.split(None, 1)[1] for line in text.split("\n\n", maxsplit=1)[0].splitlines()}


def test_architecture_hyperparameters_and_tensor_types_are_shown(cera: Callable[..., Any], tiny_model: Path) -> None:
    outcome = cera("inspect", tiny_model)
    assert outcome.status == 0
    shown = properties(outcome.out)
    assert shown["architecture"] == "llama"
    assert shown["llama.block_count"] == "2"
    assert shown["llama.context_length"] == "512"
    assert shown["tokenizer.ggml.tokens"] == "320 values"
    assert "can be run" in outcome.out
    types = outcome.out.split("\n\n")[1].splitlines()
    assert types[0].split() == ["tensor", "type", "tensors", "weights", "size", "bits", "a", "weight"]
    assert [line.split()[0] for line in types[1:]] == ["Q4_0", "F32"]
    assert types[1].split()[-1] == "4.50"


def test_tensors_are_listed_on_request(cera: Callable[..., Any], tiny_model: Path) -> None:
    assert "blk.1.attn_q.weight" not in cera("inspect", tiny_model).out
    assert "blk.1.attn_q.weight" in cera("inspect", tiny_model, "--tensors").out


def test_json_holds_every_key_and_tensor(cera: Callable[..., Any], tiny_model: Path) -> None:
    found = json.loads(cera("inspect", tiny_model, "--json").out)
    assert found["unsupported_because"] is None
    assert len(found["metadata"]["tokenizer.ggml.tokens"]) == 320
    assert found["metadata"]["general.architecture"] == "llama"
    names = [tensor["name"] for tensor in found["tensors"]]
    assert "token_embd.weight" in names
    assert sum(tensor["num_bytes"] for tensor in found["tensors"]) < tiny_model.stat().st_size


def test_file_that_cannot_be_run_is_shown_with_the_reason(cera: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "mamba.gguf"
    llama, mamba = (len(name).to_bytes(8, "little") + name for name in (b"llama", b"mamba"))
    file.write_bytes(write_tiny_gguf(tmp_path / "tiny.gguf").read_bytes().replace(llama, mamba))
    outcome = cera("inspect", file)
    assert outcome.status == 0
    assert "can be run" in outcome.out
    assert "no: " in outcome.out
    assert "found 'mamba'" in outcome.out
    assert "found 'mamba'" in json.loads(cera("inspect", file, "--json").out)["unsupported_because"]


def test_file_that_is_no_model_is_one_paragraph(cera: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no model")
    outcome = cera("inspect", file)
    assert (outcome.status, outcome.out) == (2, "")
    assert f"Model file '{file}': a GGUF file begins with" in outcome.err
    assert outcome.err.count("\n") == 1


def test_backend_that_lacks_a_type_of_weights_names_the_tensor(cera: Callable[..., Any], tmp_path: Path) -> None:
    file = write_tiny_gguf(tmp_path / "tiny.gguf", quantisation_of={"*.1.attn_v*": "TQ2_0"})
    found = json.loads(cera("inspect", file, "--json").out)
    assert (found["unsupported_because"], found["backends"]["numpy"]) == (None, None)
    assert "'blk.1.attn_v.weight' must be of one of the types F32, F16" in found["backends"]["native"]
    assert "found TQ2_0" in found["backends"]["native"]
    outcome = cera("inspect", file)
    assert "yes, by numpy" in outcome.out
    assert "not by native" in outcome.out
