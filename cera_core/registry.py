"""Names to specs, for drafters and for backends; knows nothing of how a spec is found or used."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from cera_core.errors import PluginError, UnknownNameError
from cera_core.near_match import did_you_mean
from cera_core.specs import DrafterSpec, ModelSpec

Spec = TypeVar("Spec", DrafterSpec, ModelSpec)

AUTO = "auto"
"""In place of a name: whichever suits."""

NONE = "none"
"""In place of a drafter's name: no drafter."""

KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Registry(Mapping[str, Spec], Generic[Spec]):
    """The specs of one kind, by name, in the order in which they came.

    Args:
        kind: What a spec stands for, for messages: `drafter` or `backend`.
        spec_type: The class of the specs.
        reserved: Names that mean something besides.

    Attributes:
        reserved: As above.
    """

    def __init__(self, kind: str, spec_type: type[Spec], reserved: Collection[str] = ()) -> None:
        self._kind = kind
        self._spec_type: type[Any] = spec_type
        self.reserved = reserved
        self._specs: dict[str, Spec] = {}
        self._owners: dict[str, str] = {}

    def __getitem__(self, name: str) -> Spec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def check(self, specs: Iterable[Any]) -> None:
        """Asks whether specs can be added.

        Raises:
            PluginError: One is no spec, or its name is none, reserved or taken.
        """
        names: set[str] = set()
        for spec in specs:
            self._check_values(spec)
            if spec.name in self.reserved:
                raise PluginError(f"It registers the {self._kind} {spec.name!r}, a name that is reserved.")
            if spec.name in names:
                raise PluginError(f"It registers the {self._kind} {spec.name!r} twice.")
            if spec.name in self._specs:
                owner = self._owners[spec.name]
                raise PluginError(f"It registers the {self._kind} {spec.name!r}, a name that {owner!r} has taken.")
            names.add(spec.name)

    def add(self, specs: Iterable[Spec], owner: str) -> None:
        """Adds specs that were checked.

        Args:
            specs: What to add.
            owner: The distribution they come from.
        """
        for spec in specs:
            self._specs[spec.name] = spec
            self._owners[spec.name] = owner

    def unknown(self, name: str) -> UnknownNameError:
        """Makes the error for a name that is not here."""
        known = [*self._specs, *self.reserved]
        installed = ", ".join(sorted(known)) or "none"
        return UnknownNameError(
            f"There is no {self._kind} named {name!r}.{did_you_mean(name, known)} Installed: {installed}."
        )

    def _check_values(self, spec: Any) -> None:
        """Checks what would else fail far from the plugin that is at fault."""
        if not isinstance(spec, self._spec_type):
            raise PluginError(f"It registers {spec!r:.80} where a {self._spec_type.__name__} is required.")
        if not (isinstance(spec.name, str) and KEBAB_CASE.fullmatch(spec.name)):
            raise PluginError(f"It registers a {self._kind} named {spec.name!r:.80}; a name is in kebab-case.")
        if not (isinstance(spec.options, type) and issubclass(spec.options, BaseModel)):
            raise PluginError(
                f"'options' of the {self._kind} {spec.name!r} must be a pydantic model class, but is "
                f"{spec.options!r:.80}."
            )
        if isinstance(spec, ModelSpec) and not isinstance(spec.priority, int):
            raise PluginError(
                f"'priority' of the {self._kind} {spec.name!r} must be a whole number, but is {spec.priority!r:.80}."
            )
