"""Virtual environments that share the packages of the one the tests run in, so that nothing need be fetched."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """A virtual environment of a test."""

    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "bin"

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which a shell uses this environment, and pip nothing from anywhere else."""
        without_network = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_QUIET": "1"}
        return os.environ | without_network | {"PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *command: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs a program of this environment."""
        process = subprocess.run(
            [self.programs / command[0], *command[1:]],
            cwd=cwd,
            env=self.variables,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if check and process.returncode:
            raise AssertionError(f"{command} ended with {process.returncode}:\n{process.stdout}\n{process.stderr}")
        return process


def make_environment(folder: Path, *, shares_cera: bool) -> Environment:
    """Makes an environment whose own packages come before the shared ones; `pip` installs into it.

    Args:
        folder: Where.
        shares_cera: Whether cera is one of the shared packages even where it is installed as editable; the importer of
            such an installation would come before the environment's own packages.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    environment = Environment(folder)
    python = environment.programs / "python"
    own_packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    shared = [path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"}]
    lines = [f"import site; site.addsitedir({path!r})" if shares_cera else path for path in shared]
    (own_packages / "shared.pth").write_text("\n".join(lines), encoding="utf-8")
    modules = {"pip": "pip", "pytest": "pytest"} | ({"cera": "cera_core.cli.main"} if shares_cera else {})
    for program, module in modules.items():
        file = environment.programs / program
        file.write_text(f'#!/bin/sh\nexec "{python}" -m {module} "$@"\n', encoding="utf-8")
        file.chmod(0o755)
    return environment
