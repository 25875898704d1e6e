"""Loads what a command asks for: an engine, whose model is fetched first where that is wanted, or its tokenizer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from cera_core.cli.engine_flags import EngineFlags
from cera_core.cli.fetching import fetch
from cera_core.cli.output import say
from cera_core.errors import MissingModelError
from cera_core.modelfile.catalogue import resolve

if TYPE_CHECKING:
    from cera_core.engine import Engine
    from cera_core.modelfile.tokenizer import ModelTokenizer
    from cera_core.specs import DrafterContext

PullFlag: TypeAlias = Annotated[
    bool, typer.Option("--pull", help="Fetch the model if it is not here. In a terminal that is done without asking.")
]


def load_engine(flags: EngineFlags, *, may_pull: bool, keeps_answers: bool = False) -> Engine:
    """Loads the model that the flags and the other settings name.

    Args:
        flags: What was given on the command line.
        may_pull: Fetch the model if it is not here.
        keeps_answers: The memory of answers, if there is one, will be saved; then it must be possible.

    Raises:
        MissingModelError: The model is not on this machine, and is not to be fetched.
        CeraError: Something else cannot be found, read or used.
    """
    from cera_core.drafting.memory import check_memory_can_be_saved  # noqa: PLC0415
    from cera_core.engine import load  # noqa: PLC0415 - 200 ms, which the help of a command should not cost

    config = flags.load_config()
    for name in config.generation.without_effect():
        origin = config.origin_of(f"generation.{name}")
        say(f"Note: {name!r} has no effect at temperature 0, which is greedy ({origin}).")
    if keeps_answers and config.memory is not None:
        check_memory_can_be_saved(config.memory)
    try:
        resolve(config.model)
    except MissingModelError:
        if not (may_pull or sys.stderr.isatty()):
            raise
        fetch(config.model)
    return load(config=config, backend_options=flags.backend_options, drafter_options=flags.drafter_options)


def tokenizer_of(model: str) -> ModelTokenizer:
    """Reads the tokenizer of a model file, or of a model by its name.

    Raises:
        MissingModelError: The model is not on this machine.
        ModelFileError: The file cannot be read, or has no tokenizer that can be used.
    """
    from cera_core.modelfile.gguf import open_model_file  # noqa: PLC0415 - the help of a command needs neither
    from cera_core.modelfile.tokenizer import load_tokenizer  # noqa: PLC0415

    with open_model_file(resolve(model)) as model_file:
        return load_tokenizer(model_file)


def context_without_model(tokenizer: ModelTokenizer) -> DrafterContext:
    """Returns what a drafter is told where no model is loaded: the vocabulary is the tokenizer's."""
    from cera_core.specs import DrafterContext  # noqa: PLC0415

    return DrafterContext(
        tokenizer=tokenizer, vocab_size=tokenizer.vocab_size, tokenizer_fingerprint=tokenizer.fingerprint
    )
