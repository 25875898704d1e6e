"""The checks of the contracts as pytest classes: an author derives one, supplies one fixture, and has every test.

pytest is imported only when a check is skipped; whoever has no tests needs no pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from cera_core.errors import InvalidInputError
from cera_core.testing.checking import DoesNotApplyError, check_reasons
from cera_core.testing.drafter_checks import DRAFTER_CHECKS
from cera_core.testing.model_checks import MODEL_CHECKS

if TYPE_CHECKING:
    from cera_core.drafter import Drafter
    from cera_core.model import Model


def _test_name(check: Callable[[Any], None]) -> str:
    return f"test_{check.__name__.removeprefix('check_')}"


class ContractSuite:
    """Base of the suites: one test for each check, which can be left out with a reason, but not overridden.

    Attributes:
        SKIP: Why a check is left out, by its name; pytest shows the reason.
    """

    SKIP: ClassVar[Mapping[str, str]] = {}
    _checks: ClassVar[tuple[Callable[[Any], None], ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuses what would hide a failing check.

        Raises:
            InvalidInputError: A test of a check is overridden, or `SKIP` names no check or gives no reason.
        """
        super().__init_subclass__(**options)
        check_reasons(cls._checks, cls.SKIP)
        for check in cls._checks:
            name = _test_name(check)
            if sum(name in vars(base) for base in cls.__mro__) > 1:
                raise InvalidInputError(
                    f"{cls.__name__} overrides {name!r}, a check of the contract. Leave the check out with its reason, "
                    f"SKIP = {{{check.__name__!r}: '...'}}, and give your own test another name."
                )

    def _run(self, check: Callable[[Any], None], subject: object) -> None:
        """Runs a check, or skips it with the reason."""
        reason = self.SKIP.get(check.__name__)
        if reason is None:
            try:
                check(subject)
            except DoesNotApplyError as error:
                reason = str(error)
        if reason is not None:
            import pytest  # noqa: PLC0415 - only who runs the tests has it

            pytest.skip(reason)


class DrafterSuite(ContractSuite):
    """Every check of the `Drafter` contract.

    @pytest.fixture
    def make_drafter():
        return MyDrafter

    class TestMyDrafter(DrafterSuite):
        pass
    """

    _checks = DRAFTER_CHECKS


class ModelSuite(ContractSuite):
    """Every check of the `Model` contract.

    @pytest.fixture(scope="module")
    def model():
        return MyModel()

    class TestMyModel(ModelSuite):
        pass
    """

    _checks = MODEL_CHECKS


def _test_of_drafter(check: Callable[[Any], None]) -> Callable[..., None]:
    def test(self: DrafterSuite, make_drafter: Callable[[], Drafter]) -> None:
        self._run(check, make_drafter)

    return test


def _test_of_model(check: Callable[[Any], None]) -> Callable[..., None]:
    def test(self: ModelSuite, model: Model) -> None:
        self._run(check, model)

    return test


def _add_tests(suite: type[ContractSuite], test_of: Callable[[Callable[[Any], None]], Callable[..., None]]) -> None:
    """Gives a suite a test method for each of its checks."""
    for check in suite._checks:
        test = test_of(check)
        test.__name__ = _test_name(check)
        test.__qualname__ = f"{suite.__name__}.{test.__name__}"
        test.__doc__ = check.__doc__
        setattr(suite, test.__name__, test)


_add_tests(DrafterSuite, _test_of_drafter)
_add_tests(ModelSuite, _test_of_model)
