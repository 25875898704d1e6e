"""`cera explain`: one answer, with what was guessed, decided and spent in each round."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cera_core.cli.answer import AnswerWriter, write_answer
from cera_core.cli.engine_flags import EngineFlags, takes_engine_flags
from cera_core.cli.flags import PromptArgument, PromptFileFlag
from cera_core.cli.loading import PullFlag, load_engine
from cera_core.cli.main import EXIT_INTERRUPTED
from cera_core.cli.output import say, write_table
from cera_core.cli.prompt import read_text
from cera_core.cli.summary import write_summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cera_core.instruments.rounds import Round

app = typer.Typer(add_completion=False)


@app.command()
@takes_engine_flags
def explain(
    engine_flags: EngineFlags,
    *,
    prompt: PromptArgument = None,
    file: PromptFileFlag = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page as well: one file, for any browser.")
    ] = None,
    pull: PullFlag = False,
) -> None:
    """Answers one prompt and shows what happened in each round.

    The answer comes first, its accepted tokens marked by drafter. Then a table: the token the model chose, the guess
    after it, of which the part in `[ ]` was verified in vain and the part in `( )` not at all, who made it from what,
    and why as much was verified.
    """
    from cera_core.instruments.rounds import rounds_of  # noqa: PLC0415

    text = read_text(prompt, file)
    if html is not None:
        from cera_core.instruments.pages import check_page_can_be_written  # noqa: PLC0415

        check_page_can_be_written(html)
    engine = load_engine(engine_flags, may_pull=pull, keeps_answers=True)
    session = engine.session()
    message = {"role": "user", "content": text.removesuffix("\n")}
    session.append(text if engine.chat_template is None else engine.chat_ids([message]))
    writer = AnswerWriter(show_drafts=True)
    generation = write_answer(session.stream(explain=True), session, writer)
    engine.save_memory()
    rounds = rounds_of(generation, writer.tokens, engine.tokenizer)
    typer.echo()
    write_table(HEADERS, [_cells(each) for each in rounds])
    write_summary(generation, writer, is_exact=engine.model.batch_invariant)
    if html is not None:
        _write_page(html, f"{engine.model.config.name or engine.config.model}: {len(writer.tokens)} tokens", rounds)
        say(f"Wrote {html}.")
    if generation.finish_reason == "cancelled":
        raise typer.Exit(EXIT_INTERRUPTED)


HEADERS = ("round", "chosen", "guess", "drafter", "from", "decision", "drafting", "model")


def _cells(each: Round) -> tuple[str, ...]:
    vain = f"[{each.rejected}]" if each.rejected else ""
    left_out = f"({each.left_out})" if each.left_out else ""
    return (
        str(each.number),
        _on_a_line(each.chosen),
        _on_a_line(f"{each.accepted}{vain}{left_out}"),
        each.drafter or "",
        each.source or "",
        each.decision,
        f"{each.draft_ms:.2f} ms",
        f"{each.verify_ms:.2f} ms",
    )


def _on_a_line(text: str) -> str:
    return text.replace("\n", "\\n").replace("\t", "\\t")


def _write_page(path: Path, heading: str, rounds: Sequence[Round]) -> None:
    from cera_core.instruments.pages import COLOURS, write_page  # noqa: PLC0415

    drafters = list(dict.fromkeys(each.drafter for each in rounds if each.drafter))
    write_page(path, "explain.html.jinja", heading=heading, rounds=rounds, drafters=drafters, colours=COLOURS)
