"""What the supported architectures are made of: the one table every backend reads, through `describe`.

An entry says which tensors a block has, in which shape, how its heads turn and what numbers the file must give. A new
family of models made of known parts is a new entry; this module knows nothing of particular files, weights or
arithmetic.

Tensor names follow the GGUF specification (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Files of the
architectures `llama` and `granite` hold the rows of queries and keys in the order the interleaved rotary layout wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cera_core.modelfile.rotary import RotaryLayout

Activation: TypeAlias = Literal["silu", "gelu"]
Gating: TypeAlias = Literal["softmax", "sigmoid"]


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
class Sliding:
    """Blocks whose attention sees the last tokens only, where the file gives a window.

    Attributes:
        full_every: Every so many blocks, one sees everything; where the file does not say.
        local_base: The base of the rotary frequencies of the sliding blocks; where the file does not say.
    """

    full_every: int
    local_base: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What one family of models is made of.

    A block is: norm, mixer, residual sum, norm, feed-forward, residual sum. The mixer is attention or, in a block
    without key/value heads, a short convolution; the feed-forward is dense or made of experts. What is optional in it
    (biases, norms of queries and keys, norms of what a mixer or feed-forward gives) is there where its tensor is.

    Attributes:
        rotary_layout: Which elements of a head turn together.
        attention: The tensors of a block's norm and attention.
        convolution: Those of its norm and short convolution; none if every block attends.
        feed_forward: Those of a block's norm and dense feed-forward.
        experts: Those of its norm and experts; none if no block has any.
        gating: How the scores of experts become weights.
        activation: What the gate of the feed-forward goes through.
        scales_embedding: Embeddings are multiplied by the root of the hidden size.
        sliding: Which blocks see the last tokens only; None if none does.
        scalars: Keys with factors, 0 or absent for none: of `SCALARS`.
        unsupported: Settings that change the arithmetic where they are not 0, beside `UNSUPPORTED_SETTINGS`.
        rotary_switch: A key that is false in files whose heads do not turn at all, which is not supported.
        outside: The tensors outside the blocks.
    """

    rotary_layout: RotaryLayout
    attention: tuple[Role, ...]
    convolution: tuple[Role, ...] = ()
    feed_forward: tuple[Role, ...] = ()
    experts: tuple[Role, ...] = ()
    gating: Gating = "softmax"
    activation: Activation = "silu"
    scales_embedding: bool = False
    sliding: Sliding | None = None
    scalars: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    rotary_switch: str | None = None
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
# The three parts of the first projection are the gate before the convolution, the gate after it, and the value.
SHORT_CONVOLUTION = (
    Role("attn_norm.weight", ("hidden",)),
    Role("shortconv.in_proj.weight", ("three_hidden", "hidden")),
    Role("shortconv.conv.weight", ("hidden", "taps")),
    Role("shortconv.out_proj.weight", ("hidden", "hidden")),
)
GATED_FEED_FORWARD = (
    Role("ffn_norm.weight", ("hidden",)),
    Role("ffn_gate.weight", ("feed_forward", "hidden")),
    Role("ffn_up.weight", ("feed_forward", "hidden")),
    Role("ffn_down.weight", ("hidden", "feed_forward")),
)
EXPERTS = (
    Role("ffn_norm.weight", ("hidden",)),
    Role("ffn_gate_inp.weight", ("experts", "hidden")),
    Role("ffn_gate_exps.weight", ("experts", "expert_feed_forward", "hidden")),
    Role("ffn_up_exps.weight", ("experts", "expert_feed_forward", "hidden")),
    Role("ffn_down_exps.weight", ("experts", "hidden", "expert_feed_forward")),
)
SELECTION_BIAS = Role("exp_probs_b.bias", ("experts",))
POST_ATTENTION_NORM = Role("post_attention_norm.weight", ("hidden",))
POST_FEED_FORWARD_NORM = Role("post_ffw_norm.weight", ("hidden",))
# The norm after the last block bears the name of a norm of embeddings in the files there are.
NORM_NAMED_AFTER_EMBEDDING = (
    Role("token_embd.weight", ("vocab", "hidden")),
    Role("output_norm.weight", ("hidden",), required=False, substitute="token_embd_norm.weight"),
    Role("output.weight", ("vocab", "hidden"), required=False, substitute="token_embd.weight"),
)

SCALARS = ("embedding_scale", "residual_scale", "attention.scale", "logit_scale")

ARCHITECTURES: Mapping[str, Architecture] = {
    "gemma3": Architecture(
        rotary_layout="half_split",
        attention=(*ATTENTION, *QK_NORMS, POST_ATTENTION_NORM),
        feed_forward=(*GATED_FEED_FORWARD, POST_FEED_FORWARD_NORM),
        activation="gelu",
        scales_embedding=True,
        sliding=Sliding(full_every=6, local_base=10_000.0),
    ),
    "granite": Architecture(
        rotary_layout="interleaved",
        attention=(*ATTENTION, *OPTIONAL_ATTENTION_BIASES),
        feed_forward=GATED_FEED_FORWARD,
        scalars=SCALARS,
        rotary_switch="rope.scaling.finetuned",
    ),
    "lfm2": Architecture(
        rotary_layout="half_split",
        attention=(*ATTENTION, *QK_NORMS),
        convolution=SHORT_CONVOLUTION,
        feed_forward=GATED_FEED_FORWARD,
        unsupported=("attention.sliding_window",),
        outside=NORM_NAMED_AFTER_EMBEDDING,
    ),
    "lfm2moe": Architecture(
        rotary_layout="half_split",
        attention=(*ATTENTION, *QK_NORMS),
        convolution=SHORT_CONVOLUTION,
        feed_forward=GATED_FEED_FORWARD,
        experts=(*EXPERTS, SELECTION_BIAS),
        gating="sigmoid",
        unsupported=("attention.sliding_window",),
        outside=NORM_NAMED_AFTER_EMBEDDING,
    ),
    "llama": Architecture(
        rotary_layout="interleaved",
        attention=(*ATTENTION, *OPTIONAL_ATTENTION_BIASES),
        feed_forward=GATED_FEED_FORWARD,
    ),
    "qwen2": Architecture(
        rotary_layout="half_split", attention=(*ATTENTION, *QKV_BIASES), feed_forward=GATED_FEED_FORWARD
    ),
    "qwen3": Architecture(
        rotary_layout="half_split", attention=(*ATTENTION, *QK_NORMS), feed_forward=GATED_FEED_FORWARD
    ),
    "qwen3moe": Architecture(
        rotary_layout="half_split",
        attention=(*ATTENTION, *QK_NORMS),
        feed_forward=GATED_FEED_FORWARD,
        experts=EXPERTS,
    ),
}

# Settings that change the arithmetic where they are not 0, and that only the entries above that name them provide for.
UNSUPPORTED_SETTINGS = (
    "expert_count",
    "expert_shared_count",
    "expert_shared_feed_forward_length",
    "expert_group_count",
    "attention.clamp_kqv",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "rope.scaling.yarn_log_multiplier",
    *SCALARS,
)
