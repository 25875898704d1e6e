"""Fits a model file to its architecture: the numbers and tensors of every layer, known to belong together.

A backend walks the description and checks nothing again. This module knows nothing of weights or arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cera_core.model import ModelConfig
from cera_core.modelfile.architectures import ARCHITECTURES, UNSUPPORTED_SETTINGS, Architecture, Role
from cera_core.modelfile.hyperparameters import damaged, positive_int, unsupported
from cera_core.modelfile.rotary import FREQUENCY_FACTORS, Rotary, read_rotary
from cera_core.near_match import did_you_mean

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import ModelFile, TensorInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDescription:
    """One block.

    Attributes:
        num_heads: Number of query heads.
        num_kv_heads: Number of key/value heads; divides `num_heads`.
        feed_forward_size: Width of the feed-forward.
        rotary: How queries and keys turn.
        tensors: By role name, for instance "attn_q.weight"; an optional tensor the file lacks is not there.
    """

    num_heads: int
    num_kv_heads: int
    feed_forward_size: int
    rotary: Rotary
    tensors: Mapping[str, TensorInfo]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDescription:
    """A model file fitted to its architecture.

    Attributes:
        config: What the loop and a reader need to know.
        architecture: The entry of the table.
        head_dim: Elements of a head, for queries, keys and values alike.
        rms_eps: What RMS norms add to the mean square.
        tensors: Those outside the blocks, by name. "output.weight" is always there; with a tied head it is the token
            embedding.
        layers: The blocks in order.
    """

    config: ModelConfig
    architecture: Architecture
    head_dim: int
    rms_eps: float
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
    _refuse_unsupported_settings(model_file)
    num_layers = positive_int(model_file, f"{prefix}block_count")
    hidden_size = positive_int(model_file, f"{prefix}embedding_length")
    head_dim = _head_dim(model_file, prefix, hidden_size)
    vocab_size = _vocab_size(model_file)
    outside = _resolve(model_file, architecture.outside, "", {"vocab": vocab_size, "hidden": hidden_size})
    layers = _layers(model_file, architecture, num_layers, hidden_size, head_dim)
    used = {info.name: info for tensors in (outside, *(layer.tensors for layer in layers)) for info in tensors.values()}
    _refuse_unused_tensors(model_file, used)
    config = ModelConfig(
        vocab_size=vocab_size,
        max_seq_len=positive_int(model_file, f"{prefix}context_length"),
        architecture=model_file.architecture,
        name=model_file.get("general.name", str, ""),
        num_layers=num_layers,
        hidden_size=hidden_size,
        num_parameters=sum(math.prod(info.shape) for info in used.values()),
        file_size=_bytes_read(used, outside),
    )
    return ModelDescription(
        config=config,
        architecture=architecture,
        head_dim=head_dim,
        rms_eps=_rms_eps(model_file, f"{prefix}attention.layer_norm_rms_epsilon"),
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


def _refuse_unsupported_settings(model_file: ModelFile) -> None:
    """Raises for a setting that would change the arithmetic, rather than compute something else."""
    for name in UNSUPPORTED_SETTINGS:
        key = f"{model_file.architecture}.{name}"
        value = model_file.get(key, float, 0.0)
        if value != 0.0:
            raise unsupported(model_file, f"the key {key!r} must be absent or 0, found {value:g}.")


def _refuse_unused_tensors(model_file: ModelFile, used: Mapping[str, TensorInfo]) -> None:
    """Raises for a tensor nothing would read: the model computes something its architecture's entry does not."""
    unused = [name for name in model_file.tensors if name not in used and name != FREQUENCY_FACTORS]
    if unused:
        raise unsupported(
            model_file,
            f"the architecture {model_file.architecture!r} has no place for {len(unused)} of its tensors, the first "
            f"is {unused[0]!r}. This variant of the architecture is not supported.",
        )


def _layers(
    model_file: ModelFile, architecture: Architecture, num_layers: int, hidden_size: int, head_dim: int
) -> tuple[LayerDescription, ...]:
    """Fits every block."""
    prefix = f"{model_file.architecture}."
    rotary = read_rotary(model_file, architecture.rotary_layout, head_dim)
    num_heads = positive_int(model_file, f"{prefix}attention.head_count")
    num_kv_heads = _num_kv_heads(model_file, f"{prefix}attention.head_count_kv", num_heads)
    feed_forward_size = positive_int(model_file, f"{prefix}feed_forward_length")
    sizes = {
        "hidden": hidden_size,
        "queries": num_heads * head_dim,
        "keys": num_kv_heads * head_dim,
        "head": head_dim,
        "feed_forward": feed_forward_size,
    }
    return tuple(
        LayerDescription(
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            feed_forward_size=feed_forward_size,
            rotary=rotary,
            tensors=_resolve(model_file, architecture.block, f"blk.{index}.", sizes),
        )
        for index in range(num_layers)
    )


def _resolve(
    model_file: ModelFile, roles: tuple[Role, ...], prefix: str, sizes: Mapping[str, int]
) -> Mapping[str, TensorInfo]:
    """Finds the tensor of each role and checks its shape."""
    found = {}
    for role in roles:
        name = prefix + role.name
        if name not in model_file.tensors and not role.required:
            if role.substitute is None:
                continue
            name = prefix + role.substitute
        found[role.name] = model_file.tensor(name, tuple(sizes[dimension] for dimension in role.shape))
    return found


def _head_dim(model_file: ModelFile, prefix: str, hidden_size: int) -> int:
    """Returns the size of a head: what the file says, else an equal share of the hidden size."""
    key, value_key = f"{prefix}attention.key_length", f"{prefix}attention.value_length"
    num_heads = positive_int(model_file, f"{prefix}attention.head_count")
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


def _num_kv_heads(model_file: ModelFile, key: str, num_heads: int) -> int:
    """Returns the number of key/value heads, by default one for each query head."""
    num_kv_heads = model_file.get(key, int, num_heads)
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise damaged(
            model_file, f"the key {key!r} must divide the number of heads, {num_heads}, found {num_kv_heads}."
        )
    return num_kv_heads


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


def _bytes_read(used: Mapping[str, TensorInfo], outside: Mapping[str, TensorInfo]) -> int:
    """Returns the bytes of all weights a forward reads; a separate token embedding is only looked up."""
    total = sum(info.num_bytes for info in used.values())
    embedding, head = outside["token_embd.weight"], outside["output.weight"]
    return total if head.name == embedding.name else total - embedding.num_bytes
