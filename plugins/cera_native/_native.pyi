"""Types of the extension; what it does is said in src/model.h."""

import numpy as np
from numpy.typing import NDArray

def instruction_sets() -> list[str]: ...
def core_round_trip() -> float: ...

class State:
    @property
    def length(self) -> int: ...
    @property
    def max_length(self) -> int: ...
    @property
    def oldest(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...

class Model:
    def __init__(
        self,
        hidden_size: int,
        head_dim: int,
        vocab_size: int,
        rms_eps: float,
        instruction_set: str,
        num_threads: int,
        half_cache: bool,
        embedding_scale: float = 1.0,
        residual_scale: float = 1.0,
        attention_scale: float = 0.0,
        logit_divisor: float = 1.0,
        gelu: bool = False,
        rewind_headroom: int = 64,
    ) -> None: ...
    @property
    def instruction_set(self) -> str: ...
    @property
    def num_threads(self) -> int: ...
    def add_layer(
        self,
        num_heads: int,
        num_kv_heads: int,
        feed_forward_size: int,
        frequencies: NDArray[np.float64],
        interleaved: bool,
        magnitude: float = 1.0,
        window: int = 0,
    ) -> None: ...
    def add_experts(self, num_experts: int, num_used: int, sigmoid_gating: bool) -> None: ...
    def set_tensor(
        self, layer: int, role: str, name: str, gguf_type: int, num_columns: int, data: NDArray[np.uint8]
    ) -> None: ...
    def finish(self) -> None: ...
    def new_state(self, max_length: int) -> State: ...
    def copy_state(self, state: State) -> State: ...
    def truncate(self, state: State, length: int) -> None: ...
    def forward(self, state: State, ids: NDArray[np.int32], logits: NDArray[np.float32], all_rows: bool) -> None: ...
