"""Fits a model file to its architecture: the numbers and tensors of every layer, known to belong together.

A backend walks the description and checks nothing again. This module knows nothing of weights or arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cera_core.model import ModelConfig
from cera_core.modelfile.architectures import ARCHITECTURES, SCALARS, UNSUPPORTED_SETTINGS, Architecture
from cera_core.modelfile.blocks import LayerDescription, find_tensors, fit_blocks
from cera_core.modelfile.hyperparameters import damaged, int_of_block, positive_float, positive_int, unsupported
from cera_core.modelfile.rotary import FREQUENCY_FACTORS
from cera_core.near_match import did_you_mean

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import ModelFile, TensorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model file fitted to its architecture.

    Attributes:
        config: What the loop and a reader need to know.
        architecture: The entry of the table.
        head_dim: Elements of a head, for queries, keys and values alike.
        rms_eps: What RMS norms add to the mean square.
        embedding_scale: What the embedding of a token is multiplied by.
        residual_scale: What mixers and feed-forwards give is multiplied by it before it is added.
        attention_scale: What the products of queries and keys are multiplied by.
        logit_divisor: What logits are divided by.
        tensors: Those outside the blocks, by name. "output.weight" is always there; with a tied head it is the token
            embedding.
        layers: The blocks in order.
    """

    config: ModelConfig
    architecture: Architecture
    head_dim: int
    rms_eps: float
    embedding_scale: float
    residual_scale: float
    attention_scale: float
    logit_divisor: float
    tensors: Mapping[str, TensorInfo]
    layers: tuple[LayerDescription, ...]


def describe(model_file: ModelFile) -> ModelDescription:
    """Fits a model file to its architecture.

    Raises:
        UnsupportedModelError: The architecture, or something else the file asks for, is not there.
        ModelFileError: A key or tensor is missing, or numbers do not fit together.
    """
    architecture = _architecture(model_file)
    prefix = f"{model_file.architecture}."
    _refuse_unsupported_settings(model_file, architecture)
    hidden_size = positive_int(model_file, f"{prefix}embedding_length")
    head_dim = _head_dim(model_file, prefix, hidden_size)
    vocab_size = _vocab_size(model_file)
    outside = find_tensors(model_file, architecture.outside, "", {"vocab": vocab_size, "hidden": hidden_size})
    layers = fit_blocks(model_file, architecture, hidden_size, head_dim)
    used = {info.name: info for tensors in (outside, *(layer.tensors for layer in layers)) for info in tensors.values()}
    _refuse_unused_tensors(model_file, used)
    config = ModelConfig(
        vocab_size=vocab_size,
        max_seq_len=positive_int(model_file, f"{prefix}context_length"),
        architecture=model_file.architecture,
        name=model_file.get("general.name", str, ""),
        num_layers=len(layers),
        hidden_size=hidden_size,
        num_parameters=sum(math.prod(info.shape) for info in used.values()),
        file_size=_bytes_read(used, outside, layers),
    )
    scalars = _read_scalars(model_file, architecture)
    attention_scale = scalars["attention.scale"] or _attention_scale(model_file, hidden_size, head_dim, len(layers))
    return ModelDescription(
        config=config,
        architecture=architecture,
        head_dim=head_dim,
        rms_eps=_rms_eps(model_file, f"{prefix}attention.layer_norm_rms_epsilon"),
        embedding_scale=math.sqrt(hidden_size) if architecture.scales_embedding else scalars["embedding_scale"] or 1.0,
        residual_scale=scalars["residual_scale"] or 1.0,
        attention_scale=attention_scale,
        logit_divisor=scalars["logit_scale"] or 1.0,
        tensors=outside,
        layers=layers,
    )


def _architecture(model_file: ModelFile) -> Architecture:
    """Returns the table's entry."""
    name = model_file.architecture
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    known = ", ".join(sorted(ARCHITECTURES))
    hint = did_you_mean(name, ARCHITECTURES)
    raise unsupported(model_file, f"the architecture must be one of {known}, found {name!r}.{hint}")


def _refuse_unsupported_settings(model_file: ModelFile, architecture: Architecture) -> None:
    """Raises for a setting that would change the arithmetic, rather than compute something else."""
    provided = (*architecture.scalars, *(("expert_count",) if architecture.experts else ()))
    for name in (*UNSUPPORTED_SETTINGS, *architecture.unsupported):
        key = f"{model_file.architecture}.{name}"
        value = 0.0 if name in provided else model_file.get(key, float, 0.0)
        if value != 0.0:
            raise unsupported(model_file, f"the key {key!r} must be absent or 0, found {value:g}.")
    switch_key = f"{model_file.architecture}.{architecture.rotary_switch}"
    if architecture.rotary_switch and not model_file.get(switch_key, bool, True):
        raise unsupported(model_file, f"the key {switch_key!r} must be absent or true, found false.")


def _read_scalars(model_file: ModelFile, architecture: Architecture) -> Mapping[str, float]:
    """Returns the value of each of `SCALARS`, 0 for none.

    A factor of 0 stands for none, as in llama.cpp, except for logits, which are divided by it.
    """
    values = dict.fromkeys(SCALARS, 0.0)
    for name in architecture.scalars:
        key = f"{model_file.architecture}.{name}"
        value = model_file.get(key, float, 0.0)
        if value != 0.0 or (name == "logit_scale" and key in model_file.metadata):
            values[name] = positive_float(model_file, key, value)
    return values


def _attention_scale(model_file: ModelFile, hidden_size: int, head_dim: int, num_layers: int) -> float:
    """Returns one over the root of a head's size.

    Gemma 3 27B, which has 62 blocks, takes the hidden size's share of a head instead, and no key of its file says so
    (https://github.com/google/gemma_pytorch/blob/main/gemma/config.py).
    """
    if model_file.architecture == "gemma3" and num_layers == 62:
        num_heads = positive_int(model_file, f"{model_file.architecture}.attention.head_count")
        return math.sqrt(num_heads / hidden_size)
    return 1.0 / math.sqrt(head_dim)


def _refuse_unused_tensors(model_file: ModelFile, used: Mapping[str, TensorInfo]) -> None:
    """Raises for a tensor nothing would read: the model computes something its architecture's entry does not."""
    unused = [name for name in model_file.tensors if name not in used and name != FREQUENCY_FACTORS]
    if unused:
        raise unsupported(
            model_file,
            f"the architecture {model_file.architecture!r} has no place for {len(unused)} of its tensors, the first "
            f"is {unused[0]!r}. This variant of the architecture is not supported.",
        )


def _head_dim(model_file: ModelFile, prefix: str, hidden_size: int) -> int:
    """Returns the size of a head: what the file says, else an equal share of the hidden size."""
    key, value_key = f"{prefix}attention.key_length", f"{prefix}attention.value_length"
    head_count_key = f"{prefix}attention.head_count"
    num_heads = int_of_block(model_file, head_count_key, 0)
    if num_heads < 1:
        raise damaged(model_file, f"the key {head_count_key!r} must be at least 1, found {num_heads}.")
    if key not in model_file.metadata and hidden_size % num_heads:
        raise damaged(
            model_file,
            f"the key '{prefix}embedding_length' must be a multiple of the number of heads, {num_heads}, where there "
            f"is no {key!r}; found {hidden_size}.",
        )
    head_dim = model_file.get(key, int, hidden_size // num_heads)
    if head_dim < 2 or head_dim % 2:
        raise damaged(model_file, f"the size of a head must be even and at least 2, found {head_dim}.")
    value_dim = model_file.get(value_key, int, head_dim)
    if value_dim != head_dim:
        raise unsupported(
            model_file, f"the key {value_key!r} must equal the size of a key, {head_dim}, found {value_dim}."
        )
    return head_dim


def _vocab_size(model_file: ModelFile) -> int:
    """Returns the number of rows of the token embedding, which is what ids must stay below."""
    info = model_file.tensor("token_embd.weight")
    if len(info.shape) != 2:
        raise damaged(model_file, f"the tensor {info.name!r} must have two dimensions, found the shape {info.shape}.")
    num_tokens = len(model_file.get("tokenizer.ggml.tokens", list, []))
    if num_tokens > info.shape[0]:
        raise damaged(
            model_file,
            f"the tensor {info.name!r} must have a row for each of the {num_tokens} tokens, found {info.shape[0]}.",
        )
    return info.shape[0]


def _rms_eps(model_file: ModelFile, key: str) -> float:
    """Returns the epsilon of the RMS norms; above 0, or a row of zeros would be divided by zero."""
    value = model_file.require(key, float)
    if not 0.0 < value < 1.0:
        raise damaged(model_file, f"the key {key!r} must lie between 0 and 1, found {value}.")
    return value


def _bytes_read(
    used: Mapping[str, TensorInfo], outside: Mapping[str, TensorInfo], layers: tuple[LayerDescription, ...]
) -> int:
    """Returns the bytes of all weights a forward of one token reads.

    A separate token embedding is only looked up, and of the experts each token has its share.
    """
    total = sum(info.num_bytes for info in used.values())
    for layer in layers:
        if layer.experts:
            bytes_of_experts = sum(info.num_bytes for role, info in layer.tensors.items() if "_exps." in role)
            total -= bytes_of_experts - bytes_of_experts * layer.experts.num_used // layer.experts.num_experts
    embedding, head = outside["token_embd.weight"], outside["output.weight"]
    return total if head.name == embedding.name else total - embedding.num_bytes
