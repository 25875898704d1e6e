"""Tasks come with cera or from a file; a file that is wrong is named with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cera_core.errors import InvalidInputError
from cera_core.instruments.tasks import Task, built_in_tasks, chosen_tasks, read_tasks


def written(folder: Path, *lines: object) -> Path:
    path = folder / "tasks.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_each_built_in_category_has_two_tasks() -> None:
    tasks = built_in_tasks()
    categories = [task.category for task in tasks]
    assert len({task.name for task in tasks}) == len(tasks)
    assert {categories.count(category) for category in categories} == {2}


def test_spec_bench_lines_are_read(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {"question_id": 81, "category": "writing", "turns": ["First.", "Second."], "reference": []},
        {"prompt": "Only a prompt."},
    )
    assert read_tasks(path) == [Task("81", "writing", ("First.", "Second.")), Task("2", "all", ("Only a prompt.",))]


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"turns": []}', '{"turns": [""]}', '{"turns": [7]}', '{"prompt": 3}']
)
def test_a_line_of_another_form_is_named(tmp_path: Path, line: str) -> None:
    path = written(tmp_path, {"prompt": "Sound."}, line)
    with pytest.raises(InvalidInputError, match=r"tasks\.jsonl, line 2(, column 2)?: must be"):
        read_tasks(path)


def test_an_empty_file_and_a_name_given_twice_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="must have a task"):
        read_tasks(written(tmp_path, ""))
    twice = {"question_id": 1, "turns": ["Again."]}
    with pytest.raises(InvalidInputError, match="'1' is there twice"):
        read_tasks(written(tmp_path, twice, twice))


def test_categories_and_limit_choose() -> None:
    tasks = [Task("a", "x", ("",)), Task("b", "y", ("",)), Task("c", "x", ("",)), Task("d", "x", ("",))]
    assert chosen_tasks(tasks) == [tasks[0], tasks[2], tasks[3], tasks[1]]
    assert chosen_tasks(tasks, ["y", "x"], limit=2) == [tasks[1], tasks[0], tasks[2]]
    with pytest.raises(InvalidInputError, match=r"no task of the category 'X'\. Did you mean 'x'\? There are: x, y\."):
        chosen_tasks(tasks, ["X"])
