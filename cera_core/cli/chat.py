"""`cera chat`: a conversation, one message a line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from cera_core.cli.answer import AnswerWriter, write_answer
from cera_core.cli.engine_flags import EngineFlags, takes_engine_flags
from cera_core.cli.loading import PullFlag, load_engine
from cera_core.cli.output import say
from cera_core.cli.prompt import checked_argument
from cera_core.cli.summary import write_summary
from cera_core.errors import ContextFullError, InvalidInputError

if TYPE_CHECKING:
    from cera_core.engine import Engine

HELP = "/reset begins anew, /exit or Ctrl-D ends, Ctrl-C stops an answer."
PROMPT = "> "

app = typer.Typer(add_completion=False)


class Conversation:
    """Messages, and the session behind them, which keeps its cache from turn to turn."""

    def __init__(self, engine: Engine, system: str | None, *, show_drafts: bool) -> None:
        self._engine = engine
        self._session = engine.session()
        self._show_drafts = show_drafts
        self._system = [] if system is None else [{"role": "system", "content": checked_argument(system, "'--system'")}]
        self._messages = list(self._system)

    def answer(self, message: str) -> None:
        """Writes the answer to a message; both are part of the conversation from then on.

        Raises:
            ContextFullError: The conversation has become too long; the message is not part of it.
        """
        messages = [*self._messages, {"role": "user", "content": message}]
        if self._messages != self._system and not sys.stdin.isatty():
            sys.stdout.write("\n")  # where no typed line stands between two answers
        writer = AnswerWriter(show_drafts=self._show_drafts)
        stream = self._engine.stream_chat(messages, session=self._session)
        generation = write_answer(stream, self._session, writer)
        self._engine.save_memory()
        self._messages = [*messages, {"role": "assistant", "content": generation.text}]
        if self._show_drafts:
            write_summary(generation, writer, is_exact=self._engine.model.batch_invariant)
        if generation.finish_reason == "context_full":
            say("The context is full; /reset begins anew.")

    def reset(self) -> None:
        """Forgets all messages but what the model was told at the beginning."""
        self._messages = list(self._system)


@app.command()
@takes_engine_flags
def chat(
    engine_flags: EngineFlags,
    *,
    system: Annotated[
        str | None, typer.Option("--system", metavar="TEXT", help="What the model is told before the first message.")
    ] = None,
    show_drafts: Annotated[
        bool, typer.Option("--show-drafts", help="Mark accepted tokens by drafter, and show a summary of each answer.")
    ] = False,
    pull: PullFlag = False,
) -> None:
    """Talks with the model, turn by turn.

    Each line of standard input is a message. /reset begins anew, /exit or Ctrl-D ends, Ctrl-C stops an answer.
    """
    engine = load_engine(engine_flags, may_pull=pull, keeps_answers=True)
    if engine.chat_template is None:
        raise InvalidInputError(
            f"A chat needs a chat template, and the model file {engine.config.model!r} has none. "
            "`cera run` continues a text."
        )
    conversation = Conversation(engine, system, show_drafts=show_drafts)
    if sys.stdin.isatty():
        say(HELP)
    while (message := _next_message()) is not None and message != "/exit":
        if message == "/reset":
            conversation.reset()
        elif message:
            _answer(conversation, message)


def _answer(conversation: Conversation, message: str) -> None:
    """Answers; a conversation that has become too long ends a script, but not a person's chat."""
    try:
        conversation.answer(message)
    except ContextFullError as error:
        if not sys.stdin.isatty():
            raise
        say(f"Error: {error} /reset begins anew.")


def _next_message() -> str | None:
    """Returns the next line without space around it; None at the end.

    Raises:
        InvalidInputError: It is no UTF-8.
    """
    try:
        line = _next_line()
        return None if line is None else checked_argument(line, "A message")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"A message must be UTF-8, but the byte 0x{error.object[error.start]:02x} is not. Convert it."
        ) from error


def _next_line() -> str | None:
    if sys.stdin.isatty() and sys.stdout.isatty():
        import readline  # noqa: F401, PLC0415 - lets `input` edit the line and remember earlier ones

        try:
            return input(PROMPT).strip()
        except EOFError:
            say()
            return None
        except KeyboardInterrupt:
            say()
            raise
    if sys.stdin.isatty():
        sys.stderr.write(PROMPT)
        sys.stderr.flush()
    line = sys.stdin.readline()
    return line.strip() if line else None
