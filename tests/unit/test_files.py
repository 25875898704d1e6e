"""The cache folder, and files that are replaced at once or stay as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from cera_core.files import cache_folder, check_can_be_replaced, replacing


def test_cache_folder_is_the_one_chosen_or_in_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.setenv("CERA_CACHE_DIR", "~/elsewhere")
    assert cache_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("CERA_CACHE_DIR")
    assert cache_folder().name == "cera"


def test_a_file_is_the_old_one_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    file = path.open("rb")  # writing to it fails
    with file, pytest.raises(OSError, match="write"), replacing(path):
        file.write(b"half")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "none" / "file"):
        pass


def test_a_folder_in_the_place_is_met_before_anything_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError), replacing(tmp_path / "file"):
        pytest.fail("the work began")


def test_a_trial_of_a_place_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    check_can_be_replaced(path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    check_can_be_replaced(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(NotADirectoryError):
        check_can_be_replaced(path / "below")
