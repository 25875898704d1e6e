"""What a check is: a function that raises `CheckError` where a plugin does not keep one named invariant.

It knows neither drafters nor models, and needs no test framework.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from cera_core.errors import InvalidInputError
from cera_core.foreign_errors import error_line
from cera_core.near_match import did_you_mean

Subject = TypeVar("Subject")
CheckOutcome: TypeAlias = Literal["passed", "failed", "skipped"]

PAGE = "docs/reference/checks.md"
"""Has a section for each check."""


class CheckError(AssertionError):
    """A plugin does not keep its contract.

    Attributes:
        check: The name of the check that found it.
    """

    def __init__(self, required: str, found: str) -> None:
        super().__init__(required, found)
        self.check = ""

    def __str__(self) -> str:
        required, found = self.args
        return f"Required: {required}. Found: {found}. Read on: {PAGE}#{self.check}"


class DoesNotApplyError(Exception):
    """A check is about what the plugin says it cannot do."""


def contract_check(function: Callable[[Subject], None]) -> Callable[[Subject], None]:
    """Makes a function a check: its errors carry its name, and what the plugin raises is one of them."""

    @functools.wraps(function)
    def check(subject: Subject) -> None:
        try:
            function(subject)
        except DoesNotApplyError:
            raise
        except CheckError as error:
            error.check = function.__name__
            raise
        except (Exception, SystemExit) as error:
            failure = CheckError("no exception where the contract allows none", error_line(error))
            failure.check = function.__name__
            raise failure from error

    return check


def checks_in(module: Mapping[str, Any]) -> tuple[Callable[[Any], None], ...]:
    """Returns the checks among the names of a module, in the order in which they were defined."""
    own = (value for value in module.values() if getattr(value, "__module__", None) == module["__name__"])
    return tuple(value for value in own if getattr(value, "__name__", "").startswith("check_"))


def require(holds: object, required: str, found: object) -> None:
    """Raises `CheckError` unless something holds."""
    if not holds:
        raise CheckError(required, str(found))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What came of one check.

    Attributes:
        check: Its name.
        outcome: Whether it passed.
        message: Why it failed or was skipped; empty if it passed.
    """

    check: str
    outcome: CheckOutcome
    message: str = ""


def run_checks(
    checks: Iterable[Callable[[Subject], None]], subject: Subject, skip: Mapping[str, str] | None = None
) -> Iterator[CheckResult]:
    """Runs checks one by one.

    Args:
        checks: `DRAFTER_CHECKS` or `MODEL_CHECKS`.
        subject: What they are called with.
        skip: Why to leave a check out, by its name.

    Raises:
        InvalidInputError: `skip` names no check, or gives no reason.
    """
    checks, skip = tuple(checks), skip or {}
    check_reasons(checks, skip)
    for check in checks:
        name = check.__name__
        if name in skip:
            yield CheckResult(name, "skipped", skip[name])
            continue
        try:
            check(subject)
        except DoesNotApplyError as reason:
            yield CheckResult(name, "skipped", str(reason))
        except CheckError as error:
            yield CheckResult(name, "failed", str(error))
        else:
            yield CheckResult(name, "passed")


def check_reasons(checks: Iterable[Callable[..., None]], skip: Mapping[str, str]) -> None:
    """Checks what is to be left out.

    Raises:
        InvalidInputError: A name is that of no check, or its reason is empty.
    """
    names = {check.__name__ for check in checks}
    for name, reason in skip.items():
        if name not in names:
            raise InvalidInputError(f"There is no check named {name!r} to be skipped.{did_you_mean(name, names)}")
        if not (isinstance(reason, str) and reason.strip()):
            raise InvalidInputError(f"To skip {name!r} takes a reason, a text that is not empty; found {reason!r}.")
