"""`cera run`: one prompt, one answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cera_core.cli.answer import AnswerWriter, write_answer
from cera_core.cli.engine_flags import EngineFlags, takes_engine_flags
from cera_core.cli.flags import PromptArgument, PromptFileFlag
from cera_core.cli.loading import PullFlag, load_engine
from cera_core.cli.main import EXIT_INTERRUPTED
from cera_core.cli.output import write_json
from cera_core.cli.prompt import checked_argument, read_text
from cera_core.cli.summary import write_summary
from cera_core.errors import InvalidInputError

if TYPE_CHECKING:
    from cera_core.engine import Engine
    from cera_core.generation import Generation, TokenStream
    from cera_core.session import Session

app = typer.Typer(add_completion=False)


@app.command()
@takes_engine_flags
def run(
    engine_flags: EngineFlags,
    *,
    prompt: PromptArgument = None,
    file: PromptFileFlag = None,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="What the model is told before the prompt.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as it is, without the model's chat template.")
    ] = False,
    show_drafts: Annotated[
        bool, typer.Option("--show-drafts", help="Mark accepted tokens by drafter, and show a summary at the end.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object at the end: text, tokens and all that was counted.")
    ] = False,
    draft_from: Annotated[
        Path | None,
        typer.Option("--draft-from", metavar="FILE", help="Draft from this text too: what the answer will resemble."),
    ] = None,
    pull: PullFlag = False,
) -> None:
    """Answers one prompt.

    The answer goes to standard output as it comes, all else to standard error. Ctrl-C ends it and keeps the text.
    """
    text = read_text(prompt, file)
    engine = load_engine(engine_flags, may_pull=pull, keeps_answers=True)
    session = engine.session()
    writer = AnswerWriter(show_drafts=show_drafts)
    prediction = None if draft_from is None else read_text(None, draft_from)
    stream = _stream(engine, session, text, system, raw=raw, prediction=prediction)
    generation = write_answer(stream, session, None if as_json else writer)
    engine.save_memory()
    if as_json:
        write_json(_as_dict(engine, generation))
    elif show_drafts:
        write_summary(generation, writer, is_exact=engine.model.batch_invariant)
    if generation.finish_reason == "cancelled":
        raise typer.Exit(EXIT_INTERRUPTED)


def _stream(
    engine: Engine, session: Session, text: str, system: str | None, *, raw: bool, prediction: str | None
) -> TokenStream:
    """Begins the answer, through the model's chat template where there is one."""
    if engine.chat_template is None or raw:
        if system is not None:
            raise InvalidInputError(
                "'--system' needs a chat template; leave out '--raw', or take a model that has one."
            )
        session.append(text)
        return session.stream(prediction=prediction)
    messages = [] if system is None else [{"role": "system", "content": checked_argument(system, "'--system'")}]
    messages.append({"role": "user", "content": text.removesuffix("\n")})
    return engine.stream_chat(messages, session=session, prediction=prediction)


def _as_dict(engine: Engine, generation: Generation) -> dict[str, Any]:
    return {
        "model": engine.config.model,
        "drafter": engine.config.drafter,
        "batch_invariant": engine.model.batch_invariant,
        "text": generation.text,
        "token_ids": generation.token_ids,
        "finish_reason": generation.finish_reason,
        "seed": generation.seed,
        "logprobs": generation.logprobs,
        "stats": generation.stats.as_dict(),
    }
