"""`cera check`: the conformance kit without a test framework."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cera_core.cli.engine_flags import options_from
from cera_core.cli.flags import MODEL_HELP, ConfigFlag, JsonFlag, KindArgument, checked_kind
from cera_core.cli.loading import context_without_model, tokenizer_of
from cera_core.cli.main import EXIT_FAILURE
from cera_core.cli.output import write_json
from cera_core.config import Config, load_config
from cera_core.errors import InvalidInputError
from cera_core.registry import AUTO, NONE

if TYPE_CHECKING:
    from cera_core.drafter import Drafter
    from cera_core.testing.checking import CheckResult

app = typer.Typer(add_completion=False)


@app.command()
def check(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, as `cera plugins` lists it.")],
    *,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of it; may be repeated.")
    ] = None,
    skip: Annotated[
        list[str] | None, typer.Option("--skip", metavar="CHECK=REASON", help="Leaves a check out; may be repeated.")
    ] = None,
    as_json: JsonFlag = False,
    config: ConfigFlag = None,
) -> None:
    """Checks an installed drafter or backend against its contract.

    A backend is checked with a model file. A drafter is given the tokenizer of one where `--model` names it. The exit
    code is 1 if a check failed.
    """
    settings = load_config(config)
    options = options_from(option or (), "--option")
    if checked_kind(kind) == "drafter":
        found = _of_drafter(name, model, settings, options, _reasons(skip or ()))
    else:
        found = _of_backend(name, model or settings.model, settings, options, _reasons(skip or ()))
    results = []
    for result in found:
        results.append(result)
        if not as_json:
            typer.echo(f"{result.outcome:<8} {result.check}{': ' if result.message else ''}{result.message}")
    if as_json:
        write_json([asdict(result) for result in results])
    else:
        counts = Counter(result.outcome for result in results)
        typer.echo(f"{kind} {name!r}: " + ", ".join(f"{counts[how]} {how}" for how in ("passed", "failed", "skipped")))
    if any(result.outcome == "failed" for result in results):
        raise typer.Exit(EXIT_FAILURE)


def _of_drafter(
    name: str, model: str | None, settings: Config, options: Mapping[str, Any], reasons: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Checks a drafter; a fresh one is made by its plugin, as often as a check needs one."""
    from cera_core.assembly import make_drafter, options_with  # noqa: PLC0415 - the help of the command needs none of these
    from cera_core.discovery import discover  # noqa: PLC0415
    from cera_core.specs import DrafterContext  # noqa: PLC0415
    from cera_core.testing import DRAFTER_CHECKS, run_checks  # noqa: PLC0415

    plugins = discover(settings.disabled_plugins)
    context = context_without_model(tokenizer_of(model)) if model else DrafterContext()
    all_options = options_with(settings.drafters, name, options)

    def fresh() -> Drafter:
        drafter = make_drafter(name, plugins, all_options, context)
        if drafter is None:
            raise InvalidInputError(f"{NONE!r} stands for no drafter, so there is nothing to check.")
        return drafter

    fresh()  # what is wrong with it as a whole is no failed check
    return run_checks(DRAFTER_CHECKS, fresh, reasons)


def _of_backend(
    name: str, model: str, settings: Config, options: Mapping[str, Any], reasons: Mapping[str, str]
) -> Iterator[CheckResult]:
    """Checks a backend with one model, which it loads once."""
    from cera_core.assembly import make_model, options_with  # noqa: PLC0415
    from cera_core.discovery import discover  # noqa: PLC0415
    from cera_core.modelfile.catalogue import resolve  # noqa: PLC0415
    from cera_core.modelfile.gguf import open_model_file  # noqa: PLC0415
    from cera_core.testing import MODEL_CHECKS, run_checks  # noqa: PLC0415

    if name == AUTO:
        raise InvalidInputError(f"{AUTO!r} stands for whichever backend suits; name the one to check.")
    all_options = options_with(settings.backends, name, options)
    loaded = make_model(open_model_file(resolve(model)), name, discover(settings.disabled_plugins), all_options)
    return run_checks(MODEL_CHECKS, loaded, reasons)


def _reasons(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Reads `check=reason` texts.

    Raises:
        InvalidInputError: A text has no reason.
    """
    reasons = {}
    for text in texts:
        name, _, reason = text.partition("=")
        if not reason.strip():
            raise InvalidInputError(f"'--skip' must be CHECK=REASON, and is {text!r}.")
        reasons[name] = reason
    return reasons
