"""Another engine runs in a process of its own; here it is a small module that takes the place of its binding."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cera_core
from cera_core import Engine
from cera_core.errors import InvalidInputError, PluginError
from cera_core.instruments.against import Peer, PeerContestant, find_peer, peer_contestants
from cera_core.instruments.bench import measure
from cera_core.instruments.summary import lines_of
from cera_core.instruments.tasks import Task
from support.tiny_gguf import write_tiny_gguf

COUNTING_BINDING = '''
class Llama:
    """Counts on from the last id of a prompt, up to 30; drafts are verified as the binding does it."""

    model = None

    def __init__(self, path, *, n_ctx, n_threads, n_threads_batch, draft_model, verbose):
        assert n_threads == n_threads_batch
        self.draft_model = draft_model
        print("something that llama.cpp says")

    def reset(self):
        pass

    def generate(self, prompt, *, temp, repeat_penalty):
        import numpy

        assert temp == 0.0 and repeat_penalty == 1.0
        token = prompt[-1]
        history = list(prompt)
        while True:
            token = token + 1
            history.append(token)
            yield token
            if self.draft_model is not None:
                self.draft_model(numpy.array(history))


def llama_model_get_vocab(model):
    return None


def llama_vocab_is_eog(vocab, token_id):
    return token_id == 30
'''
LOOKUP = """
import numpy

class LlamaPromptLookupDecoding:
    def __init__(self, num_pred_tokens):
        self.num_pred_tokens = num_pred_tokens

    def __call__(self, input_ids, /):
        return numpy.array([input_ids[-1] + 1, 7])  # the first is right
"""
TASK = Task("count", "counting", ("the text",))


@pytest.fixture
def python(tmp_path: Path) -> str:
    """A Python that has the binding."""
    folder = tmp_path / "site"
    (folder / "llama_cpp").mkdir(parents=True)
    (folder / "llama_cpp" / "__init__.py").write_text(COUNTING_BINDING)
    (folder / "llama_cpp" / "llama_speculative.py").write_text(LOOKUP)
    metadata = folder / "llama_cpp_python-1.2.3.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: llama-cpp-python\nVersion: 1.2.3\n")
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    program.chmod(0o755)
    return str(program)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


def an_engine(model: Path, **options: object) -> Engine:
    return cera_core.load(model, backend="numpy", **{"max_tokens": 5, "ignore_eos": True, **options})


@contextmanager
def contestants(python: str, engine: Engine) -> Iterator[list[PeerContestant]]:
    with peer_contestants([find_peer("llama.cpp", python)], engine) as found:
        yield found


def test_a_binding_is_found_with_its_modes(python: str) -> None:
    peer = find_peer("llama.cpp", python)
    assert (peer.binding, peer.version) == ("llama-cpp-python", "1.2.3")
    assert peer.modes == ("plain", "prompt-lookup@2", "prompt-lookup@10")


def test_every_mode_answers_and_is_compared_with_its_own_plain_mode(python: str, model: Path) -> None:
    engine = an_engine(model)
    with contestants(python, engine) as found:
        results = measure(found, [TASK], repeats=2)
    lines = lines_of(results)
    assert [line.contestant for line in lines] == [f"llama-cpp-python {mode}" for mode in find_modes(python)]
    assert {result.plain for result in results} == {"llama-cpp-python plain"}
    last = engine.tokenizer.encode("the text\n\n")[-1]
    assert results[0].samples[0].token_ids == tuple(range(last + 1, last + 6))
    assert all(line.equals_plain and line.tokens_per_second > 0 for line in lines)
    assert (lines[0].stats.num_drafted, lines[1].stats.num_drafted) == (0, 8)
    assert lines[1].stats.num_accepted == 4, "of each draft the first token was right"


def find_modes(python: str) -> tuple[str, ...]:
    return find_peer("llama.cpp", python).modes


def test_an_answer_ends_where_the_binding_says_so(python: str, model: Path) -> None:
    engine = an_engine(model, ignore_eos=False, max_tokens=100)
    last = engine.tokenizer.encode("the text\n\n")[-1]
    with contestants(python, engine) as found:
        answer = found[0].run(TASK)[0]
    assert answer.token_ids == list(range(last + 1, 30))


def test_the_processes_end_with_the_measurement(python: str, model: Path) -> None:
    with contestants(python, an_engine(model)) as found:
        processes = [contestant._process for contestant in found]
    assert all(process.poll() is not None for process in processes)


def test_a_process_that_ends_is_told_with_its_status(tmp_path: Path, model: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("raise SystemExit(3)")
    peer = Peer(worker, sys.executable, "other", "1", ("plain",))
    with (
        pytest.raises(PluginError, match=r"other plain must answer .* status 3"),
        peer_contestants([peer], an_engine(model)),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "program", "error", "reason"),
    [
        ("vllm", sys.executable, InvalidInputError, "one of llama.cpp, and is 'vllm'"),
        ("llama.cpp", "no-such-python", PluginError, "cannot be asked"),
        ("llama.cpp", "false", PluginError, "must have a binding of llama.cpp, and has none"),
        ("llama.cpp", "true", PluginError, "cannot be asked"),
    ],
)
def test_an_engine_that_is_not_there_is_an_error(name: str, program: str, error: type[Exception], reason: str) -> None:
    with pytest.raises(error, match=reason):
        find_peer(name, program)


def test_sampled_answers_are_not_compared(python: str, model: Path) -> None:
    with (
        pytest.raises(InvalidInputError, match=r"greedy answers, and 'temperature' is 0\.5"),
        contestants(python, an_engine(model, temperature=0.5)),
    ):
        pass
