"""Other engines as contestants of a measurement: each in a process of its own, asked for the same prompts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cera_core.engine import Engine
from cera_core.errors import InvalidInputError, PluginError
from cera_core.generation import Generation
from cera_core.instruments.bench import answer_turns
from cera_core.instruments.tasks import Task
from cera_core.machine import num_usable_processors
from cera_core.modelfile.catalogue import resolve
from cera_core.speculation.stats import SpecStats

WORKERS = {"llama.cpp": Path(__file__).with_name("llama_cpp_worker.py")}
"""The engines there are to measure against, and what runs each of them."""
LARGEST_CONTEXT = 4096
"""Their context. llama-cpp-python keeps the logits of all positions when it drafts: 600 KB each with 150,000 words."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An engine as one Python has it.

    Attributes:
        worker: What runs it.
        python: The Python that has it.
        binding: The package through which it is called.
        version: Of the package.
        modes: How it can decode; plain is the first.
    """

    worker: Path
    python: str
    binding: str
    version: str
    modes: tuple[str, ...]


def find_peer(name: str, python: str) -> Peer:
    """Asks a Python for an engine.

    Raises:
        InvalidInputError: There is no way to measure against an engine of this name.
        PluginError: The Python cannot be started, or does not have the engine.
    """
    if name not in WORKERS:
        raise InvalidInputError(f"'--against' must be one of {', '.join(WORKERS)}, and is {name!r}.")
    command = [python, str(WORKERS[name])]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        found = json.loads(outcome.stdout) if outcome.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise PluginError(
            f"{python!r} must be a Python with a binding of {name}, and cannot be asked: {error}. Name another with "
            "'--against-python'."
        ) from error
    if found is None:
        raise PluginError(
            f"{python!r} must have a binding of {name}, and has none. Install one into it ('pip install "
            "llama-cpp-python'), or name another Python with '--against-python'."
        )
    return Peer(WORKERS[name], python, found["binding"], found["version"], tuple(found["modes"]))


class PeerContestant:
    """Another engine in one of its modes; it answers greedily.

    Args:
        peer: The engine.
        mode: One of its modes.
        engine: Gives prompts their ids, and the limits of an answer.
        process: The worker, with the model loaded.
    """

    def __init__(self, peer: Peer, mode: str, engine: Engine, process: subprocess.Popen[str]) -> None:
        self.name = f"{peer.binding} {mode}"
        self.plain = f"{peer.binding} {peer.modes[0]}"
        self._engine = engine
        self._process = process

    def prepare(self, task: Task) -> None:
        """Does nothing: the worker keeps nothing between runs."""

    def run(self, task: Task) -> list[Generation]:
        """Answers turn by turn, each with the answers before it."""
        return answer_turns(self._engine, task, self._answer)

    def _answer(self, prompt: Sequence[int]) -> Generation:
        options = self._engine.config.generation
        reply = exchange(
            self._process,
            {"prompt": list(prompt), "max_tokens": options.max_tokens, "ignore_eos": options.ignore_eos},
            self.name,
        )
        tokenizer = self._engine.tokenizer
        token_ids = reply.get("token_ids")
        if token_ids is None:
            token_ids = tokenizer.encode(reply["text"], add_special=False)
        num_tokens = reply.get("num_tokens", len(token_ids))
        stats = SpecStats(num_prompt_tokens=len(prompt), num_emitted=num_tokens, total_seconds=reply["seconds"])
        stats.num_drafted, stats.num_accepted = reply["num_drafted"], reply["num_accepted"]
        return Generation(reply.get("text") or tokenizer.decode(token_ids), token_ids, "max_tokens", stats)


@contextmanager
def peer_contestants(peers: Sequence[Peer], engine: Engine) -> Iterator[list[PeerContestant]]:
    """Loads the engine's model into each peer in each of its modes; ends their processes in the end.

    Raises:
        InvalidInputError: Answers are to be sampled.
        PluginError: A process ended.
    """
    if engine.config.generation.temperature:
        raise InvalidInputError(
            f"'--against' compares greedy answers, and 'temperature' is {engine.config.generation.temperature} "
            f"({engine.config.origin_of('generation.temperature')}). Leave it out."
        )
    with ExitStack() as stack:
        contestants = []
        for peer in peers:
            for mode in peer.modes:
                process = stack.enter_context(_worker(peer, mode, engine))
                contestants.append(PeerContestant(peer, mode, engine, process))
        yield contestants


@contextmanager
def _worker(peer: Peer, mode: str, engine: Engine) -> Iterator[subprocess.Popen[str]]:
    num_threads = engine.model.facts().get("threads") or str(num_usable_processors())
    context = min(engine.model.config.max_seq_len, LARGEST_CONTEXT)
    command = [peer.python, str(peer.worker), str(resolve(engine.config.model)), mode, num_threads, str(context)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            exchange(process, None, f"{peer.binding} {mode}")
            yield process
        finally:
            process.kill()


def exchange(process: subprocess.Popen[str], request: dict[str, Any] | None, name: str) -> dict[str, Any]:
    """Sends a request, or none, and returns the next answer.

    Raises:
        PluginError: The process ended, or says that it cannot answer.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    line = ""
    try:
        if request is not None:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
    except OSError:
        pass  # it ended, which the empty line says
    reply: dict[str, Any] = json.loads(line) if line else {"error": f"it ended with status {process.wait()}"}
    if "error" in reply:
        raise PluginError(
            f"{name} must answer every prompt, and did not: {reply['error']}. Run its own programs on the model to see "
            "why, or leave '--against' out."
        )
    return reply
