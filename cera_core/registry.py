"""Names to specs, for drafters and for backends; knows nothing of where a spec comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from cera_core.errors import UnknownNameError
from cera_core.near_match import did_you_mean
from cera_core.specs import DrafterSpec, ModelSpec

Spec = TypeVar("Spec", DrafterSpec, ModelSpec)


class Registry(Mapping[str, Spec], Generic[Spec]):
    """The specs of one kind, by name, in the order in which they came.

    Attributes:
        kind: What a spec stands for, for messages: `drafter` or `backend`.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._specs: dict[str, Spec] = {}

    def __getitem__(self, name: str) -> Spec:
        return self._specs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def add(self, specs: Iterable[Spec]) -> None:
        """Adds specs whose names are free; the caller has seen to that."""
        self._specs.update((spec.name, spec) for spec in specs)

    def unknown(self, name: str, also: Iterable[str] = ()) -> UnknownNameError:
        """Makes the error for a name that is not here; `also` are names that mean something besides."""
        known = [*self._specs, *also]
        installed = ", ".join(sorted(known)) or "none"
        return UnknownNameError(
            f"There is no {self.kind} named {name!r}.{did_you_mean(name, known)} Installed: {installed}."
        )
