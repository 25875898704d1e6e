"""Checks of the native backend's C++ code that need compilers of their own: sanitizers, fuzzing, 64-bit ARM.

Debian's packages are installed where a program is missing; where that is not possible a check fails with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "plugins" / "cera_native"
FUZZING_SECONDS = 30
LONGEST_INPUT_BYTES = 400
WARNINGS_ARE_ERRORS = "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"  # not with GCC's sanitizers, which make it see false ones

Run = Callable[[list[str]], object]


class NativeChecks:
    """Builds the C++ tests in several ways, each in a folder of its own, and runs them."""

    def __init__(self, run: Run, tool: Callable[[str], str], scratch: Path) -> None:
        """Takes how to run a command, where CMake and Ninja are, and where to build."""
        self._run, self._tool, self._scratch = run, tool, scratch

    def sanitizers(self) -> None:
        """The tests of kernels and of a short generation, with errors of memory and undefined behaviour found."""
        folder = self._build("sanitizers", "-DCERA_NATIVE_TESTS=ON", "-DCERA_NATIVE_SANITIZE=address,undefined")
        self._run_tests(folder)

    def fuzzing(self) -> None:
        """Loading of hostile models, for a bounded time, from an input that describes a sound one."""
        self._require_programs({"clang++": "clang libclang-rt-dev"})
        folder = self._build(
            "fuzzing",
            WARNINGS_ARE_ERRORS,
            "-DCERA_NATIVE_FUZZER=ON",
            "-DCERA_NATIVE_SANITIZE=address,undefined",
            "-DCMAKE_CXX_COMPILER=clang++",
        )
        corpus = folder / "corpus"
        corpus.mkdir()
        (corpus / "sound").write_bytes(bytes(LONGEST_INPUT_BYTES))
        limits = [f"-max_total_time={FUZZING_SECONDS}", f"-max_len={LONGEST_INPUT_BYTES}", "-timeout=20"]
        quiet = ["-len_control=0", "-rss_limit_mb=4096", "-malloc_limit_mb=0", "-verbosity=0", "-print_final_stats=1"]
        self._run([str(folder / "model_fuzzer"), *limits, *quiet, f"-artifact_prefix={folder}{os.sep}", str(corpus)])

    def arm(self) -> None:
        """The same tests on 64-bit ARM with dot products: their last line must be that of every other machine."""
        self._require_programs({"aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"})
        toolchain = SOURCE / "aarch64-linux-gnu.cmake"
        self._run_tests(
            self._build("arm", WARNINGS_ARE_ERRORS, "-DCERA_NATIVE_TESTS=ON", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"),
            ["qemu-aarch64"],
        )

    def _build(self, name: str, *options: str) -> Path:
        folder = self._scratch / name
        ninja = f"-DCMAKE_MAKE_PROGRAM={self._tool('ninja')}"
        self._run([self._tool("cmake"), "-S", str(SOURCE), "-B", str(folder), "-G", "Ninja", ninja, *options])
        self._run([self._tool("cmake"), "--build", str(folder)])
        return folder

    def _run_tests(self, folder: Path, emulator: list[str] | None = None) -> None:
        for test in ("kernels_test", "generation_test"):
            self._run([*(emulator or []), str(folder / test)])

    def _require_programs(self, packages: dict[str, str]) -> None:
        """Installs the packages of the programs that are not there."""
        missing = [name for program, names in packages.items() if not shutil.which(program) for name in names.split()]
        if missing:
            install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends"]
            self._run(["apt-get", "update", "-qq"])
            self._run(["env", "DEBIAN_FRONTEND=noninteractive", *install, *missing])
