"""Fits the blocks of a model file to their architecture: the numbers and tensors of each, known to belong together.

Knows nothing of weights, arithmetic or what stands outside the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from cera_core.modelfile.architectures import Architecture, Gating, Role, Sliding
from cera_core.modelfile.hyperparameters import damaged, int_of_block, positive_float, positive_int, unsupported
from cera_core.modelfile.rotary import Rotary, read_rotary

if TYPE_CHECKING:
    from cera_core.modelfile.gguf import ModelFile, TensorInfo

_GATINGS: Mapping[int, Gating] = {1: "softmax", 2: "sigmoid"}
_MOST_TAPS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionDescription:
    """A block's attention.

    Attributes:
        num_heads: Number of query heads.
        num_kv_heads: Number of key/value heads; divides `num_heads`.
        rotary: How queries and keys turn.
        window: How many tokens each one sees, itself among them; None for all before it.
    """

    num_heads: int
    num_kv_heads: int
    rotary: Rotary
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionDescription:
    """A block's gated short convolution.

    Attributes:
        num_taps: How many tokens each one sees, itself among them, at least 2.
    """

    num_taps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsDescription:
    """A block's experts.

    Attributes:
        num_experts: How many there are.
        num_used: How many each token goes through.
        gating: How the scores of experts become weights. Those of the chosen ones are then made to sum to one.
    """

    num_experts: int
    num_used: int
    gating: Gating


Mixer: TypeAlias = AttentionDescription | ConvolutionDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDescription:
    """One block.

    Attributes:
        mixer: How tokens see those before them.
        experts: None where the feed-forward is dense.
        feed_forward_size: Width of the feed-forward, or of each expert's.
        tensors: By role name, for instance "attn_q.weight"; an optional tensor the file lacks is not there.
    """

    mixer: Mixer
    experts: ExpertsDescription | None
    feed_forward_size: int
    tensors: Mapping[str, TensorInfo]


def fit_blocks(
    model_file: ModelFile, architecture: Architecture, hidden_size: int, head_dim: int
) -> tuple[LayerDescription, ...]:
    """Fits every block.

    Raises:
        UnsupportedModelError: The file asks for something that is not there.
        ModelFileError: A key or tensor is missing, or numbers do not fit together.
    """
    prefix = f"{model_file.architecture}."
    num_blocks = positive_int(model_file, f"{prefix}block_count")
    rotary = read_rotary(model_file, architecture.rotary_layout, head_dim)
    num_dense = num_blocks
    if architecture.experts:
        num_dense = model_file.get(f"{prefix}leading_dense_block_count", int, 0)

    def fit(index: int) -> LayerDescription:
        mixer = _fit_mixer(model_file, architecture, index, rotary)
        experts = None if index < num_dense else _fit_experts(model_file, architecture)
        feed_forward_size = _feed_forward_size(model_file, index, experts)
        sizes = _sizes(mixer, experts, hidden_size, head_dim, feed_forward_size)
        mixer_roles = architecture.convolution if isinstance(mixer, ConvolutionDescription) else architecture.attention
        feed_forward_roles = architecture.experts if experts else architecture.feed_forward
        return LayerDescription(
            mixer=mixer,
            experts=experts,
            feed_forward_size=feed_forward_size,
            tensors=find_tensors(model_file, (*mixer_roles, *feed_forward_roles), f"blk.{index}.", sizes),
        )

    return tuple(fit(index) for index in range(num_blocks))


def find_tensors(
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


def _sizes(
    mixer: Mixer, experts: ExpertsDescription | None, hidden_size: int, head_dim: int, feed_forward_size: int
) -> Mapping[str, int]:
    """Returns the sizes of the dimensions roles speak of."""
    sizes = {
        "hidden": hidden_size,
        "head": head_dim,
        "feed_forward": feed_forward_size,
        "expert_feed_forward": feed_forward_size,
        "three_hidden": 3 * hidden_size,
    }
    if isinstance(mixer, AttentionDescription):
        sizes |= {"queries": mixer.num_heads * head_dim, "keys": mixer.num_kv_heads * head_dim}
    else:
        sizes["taps"] = mixer.num_taps
    return sizes if experts is None else sizes | {"experts": experts.num_experts}


def _fit_mixer(model_file: ModelFile, architecture: Architecture, index: int, rotary: Rotary) -> Mixer:
    prefix = f"{model_file.architecture}."
    num_heads = int_of_block(model_file, f"{prefix}attention.head_count", index)
    key = f"{prefix}attention.head_count_kv"
    num_kv_heads = int_of_block(model_file, key, index, num_heads)
    if architecture.convolution and num_kv_heads == 0:
        return ConvolutionDescription(num_taps=_num_taps(model_file, f"{prefix}shortconv.l_cache"))
    if num_kv_heads < 1 or num_heads < 1 or num_heads % num_kv_heads:
        raise damaged(
            model_file, f"the key {key!r} must divide the number of heads, {num_heads}, found {num_kv_heads}."
        )
    window = _window(model_file, architecture.sliding, index) if architecture.sliding else None
    if architecture.sliding and window is not None:
        rotary = _local_rotary(model_file, rotary, architecture.sliding)
    return AttentionDescription(num_heads=num_heads, num_kv_heads=num_kv_heads, rotary=rotary, window=window)


def _num_taps(model_file: ModelFile, key: str) -> int:
    num_taps = positive_int(model_file, key)
    if not 2 <= num_taps <= _MOST_TAPS:
        raise damaged(model_file, f"the key {key!r} must lie between 2 and {_MOST_TAPS}, found {num_taps}.")
    return num_taps


def _window(model_file: ModelFile, sliding: Sliding, index: int) -> int | None:
    """Returns how many tokens the attention of a block sees; None for all.

    The pattern is the distance of blocks that see everything, or for each block whether it slides.
    """
    prefix = f"{model_file.architecture}.attention."
    window_key, pattern_key = f"{prefix}sliding_window", f"{prefix}sliding_window_pattern"
    window = model_file.get(window_key, int, 0)
    if window < 0:
        raise damaged(model_file, f"the key {window_key!r} must be 0 or more, found {window}.")
    pattern = int_of_block(model_file, pattern_key, index, sliding.full_every)
    is_list = hasattr(model_file.metadata.get(pattern_key), "__len__")
    if not is_list and pattern < 1:
        raise damaged(model_file, f"the key {pattern_key!r} must be at least 1, found {pattern}.")
    slides = bool(pattern) if is_list else index % pattern < pattern - 1
    return window if slides and window else None


def _local_rotary(model_file: ModelFile, rotary: Rotary, sliding: Sliding) -> Rotary:
    """Returns how the heads of a sliding block turn: at frequencies of their own, which no scaling changes."""
    key = f"{model_file.architecture}.rope.freq_base_swa"
    base = positive_float(model_file, key, model_file.get(key, float, sliding.local_base))
    return replace(rotary, base=base, scaling_factor=1.0, frequency_factors=None, yarn=None)


def _fit_experts(model_file: ModelFile, architecture: Architecture) -> ExpertsDescription:
    prefix = f"{model_file.architecture}."
    num_experts = positive_int(model_file, f"{prefix}expert_count")
    used_key, gating_key = f"{prefix}expert_used_count", f"{prefix}expert_gating_func"
    num_used = positive_int(model_file, used_key)
    if num_used > num_experts:
        raise damaged(
            model_file, f"the key {used_key!r} must be at most the number of experts, {num_experts}, found {num_used}."
        )
    if gating_key in model_file.metadata:
        found = model_file.require(gating_key, int)
        if _GATINGS.get(found) != architecture.gating:
            required = next(number for number, name in _GATINGS.items() if name == architecture.gating)
            raise unsupported(
                model_file, f"the key {gating_key!r} must be {required} ({architecture.gating}), found {found}."
            )
    weight_key = f"{prefix}expert_weights_scale"
    if model_file.get(weight_key, float, 0.0) not in (0.0, 1.0):
        raise unsupported(
            model_file,
            f"the key {weight_key!r} must be absent, 0 or 1, found {model_file.get(weight_key, float, 0.0):g}.",
        )
    return ExpertsDescription(num_experts=num_experts, num_used=num_used, gating=architecture.gating)


def _feed_forward_size(model_file: ModelFile, index: int, experts: ExpertsDescription | None) -> int:
    """Returns the width of a block's feed-forward, or of each of its experts."""
    prefix = f"{model_file.architecture}."
    key = f"{prefix}feed_forward_length" if experts is None else f"{prefix}expert_feed_forward_length"
    size = int_of_block(model_file, key, index)
    if size < 1:
        raise damaged(model_file, f"the key {key!r} must be at least 1, found {size}.")
    return size
