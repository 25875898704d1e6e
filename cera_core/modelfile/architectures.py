"""What the supported architectures are made of: the one table every backend reads, through `describe`.

An entry says which tensors a block has, in which shape, and how its heads turn. A new family of models is a new entry;
this module knows nothing of particular files, weights or arithmetic.

Tensor names follow the GGUF specification (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Files of the
architecture `llama` hold the rows of queries and keys in the order the interleaved rotary layout wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cera_core.modelfile.rotary import RotaryLayout

Activation: TypeAlias = Literal["silu"]


@dataclass(frozen=True, slots=True)
class Role:
    """A place for a tensor.

    Attributes:
        name: The tensor's GGUF name, without the block's number.
        shape: The names of its dimensions, rows first; their sizes are the file's.
        required: Whether every file has it.
        substitute: The tensor that takes the place of a missing one.
    """

    name: str
    shape: tuple[str, ...]
    required: bool = True
    substitute: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What one family of models is made of.

    A block is: norm, attention, residual sum, norm, feed-forward, residual sum. What is optional in it (biases, norms
    of queries and keys) is there where its tensor is.

    Attributes:
        rotary_layout: Which elements of a head turn together.
        block: The tensors of each block.
        activation: What the gate of the feed-forward goes through.
        outside: The tensors outside the blocks.
    """

    rotary_layout: RotaryLayout
    block: tuple[Role, ...]
    activation: Activation = "silu"
    outside: tuple[Role, ...] = (
        Role("token_embd.weight", ("vocab", "hidden")),
        Role("output_norm.weight", ("hidden",)),
        Role("output.weight", ("vocab", "hidden"), required=False, substitute="token_embd.weight"),
    )


ATTENTION = (
    Role("attn_norm.weight", ("hidden",)),
    Role("attn_q.weight", ("queries", "hidden")),
    Role("attn_k.weight", ("keys", "hidden")),
    Role("attn_v.weight", ("keys", "hidden")),
    Role("attn_output.weight", ("hidden", "queries")),
)
QKV_BIASES = (
    Role("attn_q.bias", ("queries",)),
    Role("attn_k.bias", ("keys",)),
    Role("attn_v.bias", ("keys",)),
)
OPTIONAL_ATTENTION_BIASES = (
    *(Role(role.name, role.shape, required=False) for role in QKV_BIASES),
    Role("attn_output.bias", ("hidden",), required=False),
)
QK_NORMS = (Role("attn_q_norm.weight", ("head",)), Role("attn_k_norm.weight", ("head",)))
GATED_FEED_FORWARD = (
    Role("ffn_norm.weight", ("hidden",)),
    Role("ffn_gate.weight", ("feed_forward", "hidden")),
    Role("ffn_up.weight", ("feed_forward", "hidden")),
    Role("ffn_down.weight", ("hidden", "feed_forward")),
)

ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": Architecture(
        rotary_layout="interleaved", block=(*ATTENTION, *OPTIONAL_ATTENTION_BIASES, *GATED_FEED_FORWARD)
    ),
    "qwen2": Architecture(rotary_layout="half_split", block=(*ATTENTION, *QKV_BIASES, *GATED_FEED_FORWARD)),
    "qwen3": Architecture(rotary_layout="half_split", block=(*ATTENTION, *QK_NORMS, *GATED_FEED_FORWARD)),
}

# Settings that change the arithmetic where they are not 0, and that no architecture above provides for.
UNSUPPORTED_SETTINGS = (
    "expert_count",
    "attention.scale",
    "attention.clamp_kqv",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
)
