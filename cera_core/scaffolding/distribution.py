"""Fills the templates of this package with a name, and writes them into a new folder.

It knows the names of files and what a name must be; what stands in the files is in the templates.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias

from jinja2 import Environment, StrictUndefined

from cera_core import __version__
from cera_core.errors import InvalidInputError, UnknownNameError
from cera_core.hookspecs import PLUGIN_API
from cera_core.near_match import did_you_mean
from cera_core.registry import KEBAB_CASE

PluginKind: TypeAlias = Literal["drafter", "backend"]

LICENCES = ("Apache-2.0", "BSD-3-Clause", "MIT")
"""The licences that can be chosen, by their SPDX identifiers: https://spdx.org/licenses/."""
MAX_NAME_LENGTH = 40


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a new plugin is called.

    Attributes:
        kind: What it brings.
        name: The name users choose it by, in kebab-case.
        licence: One of `LICENCES`.
    """

    kind: PluginKind
    name: str
    licence: str

    @property
    def package(self) -> str:
        """The name of the distribution."""
        return f"cera-{self.name}"

    @property
    def module(self) -> str:
        """The name of its module."""
        return self.package.replace("-", "_")

    @property
    def class_name(self) -> str:
        """The name of its class."""
        words = "".join(word.capitalize() for word in self.name.split("-"))
        return words + ("Drafter" if self.kind == "drafter" else "Model")

    def write(self, folder: Path) -> list[Path]:
        """Writes the files into a new folder.

        Returns:
            Their paths.

        Raises:
            InvalidInputError: The folder exists, or cannot be written.
        """
        templates = {
            "pyproject.toml": "pyproject.toml",
            "README.md": "README.md",
            "LICENSE": f"licences/{self.licence}.txt",
            f"{self.module}.py": f"{self.kind}.py",
            f"test_{self.module}.py": f"test_{self.kind}.py",
        }
        texts = {folder / name: self._rendered(template) for name, template in templates.items()}
        try:
            folder.mkdir(parents=True)
            for path, text in texts.items():
                path.write_text(text, encoding="utf-8")
        except FileExistsError as error:
            raise InvalidInputError(f"'{folder}' exists already. Choose another folder with '--directory'.") from error
        except OSError as error:
            raise InvalidInputError(f"'{folder}' cannot be written: {error.strerror}.") from error
        return list(texts)

    def _rendered(self, template: str) -> str:
        environment = Environment(
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
        )
        source = (files(__package__) / "templates" / f"{template}.jinja").read_text(encoding="utf-8")
        return environment.from_string(source).render(
            kind=self.kind,
            name=self.name,
            package=self.package,
            module=self.module,
            class_name=self.class_name,
            licence=self.licence,
            author=f"the authors of {self.package}",
            year=datetime.now(UTC).year,
            cera_version=__version__,
            plugin_api=PLUGIN_API,
        )


def new_distribution(kind: PluginKind, name: str, licence: str, taken: Collection[str] = ()) -> Distribution:
    """Checks what a new plugin is to be called.

    Args:
        kind: What it is to bring.
        name: The name users will choose it by.
        licence: One of `LICENCES`.
        taken: Names of its kind that are reserved, or those of plugins that are installed.

    Raises:
        InvalidInputError: The name cannot be that of a plugin, or is taken.
        UnknownNameError: There is no such licence to choose.
    """
    if not KEBAB_CASE.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        likely = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()).strip("-")
        is_better = likely != name and KEBAB_CASE.fullmatch(likely) and len(likely) <= MAX_NAME_LENGTH
        raise InvalidInputError(
            f"A plugin's name must be in kebab-case, of at most {MAX_NAME_LENGTH} letters a-z, digits and single "
            f"dashes, but is {name!r:.80}.{f' Did you mean {likely!r}?' if is_better else ''}"
        )
    if licence not in LICENCES:
        hint = did_you_mean(licence, LICENCES)
        raise UnknownNameError(f"'--licence' must be one of {', '.join(LICENCES)}, but is {licence!r:.80}.{hint}")
    distribution = Distribution(kind, name, licence)
    if name in taken:
        raise InvalidInputError(f"The name {name!r} is that of a {kind} which is there already. Choose another one.")
    if find_spec(distribution.module):
        raise InvalidInputError(
            f"The module of {name!r} would be called {distribution.module!r}, and there is such a module already. "
            "Choose another name."
        )
    return distribution
