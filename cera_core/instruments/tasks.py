"""Tasks to measure with: those that come with cera, or a file of the user's. Knows nothing of models."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from cera_core.drafting.sources import decoded_line, read_lines
from cera_core.errors import InvalidInputError
from cera_core.near_match import did_you_mean

FORM = "a JSON object with 'turns' (the user's messages) or 'prompt', and perhaps 'category' and 'question_id'"


@dataclass(frozen=True, slots=True)
class Task:
    """A conversation of which the model writes every answer.

    Attributes:
        name: Unique among the tasks of a run.
        category: What kind of answer it asks for.
        turns: The user's messages, one or more.
    """

    name: str
    category: str
    turns: tuple[str, ...]


def built_in_tasks() -> list[Task]:
    """Returns the tasks that come with cera."""
    tables = tomllib.loads((files(__package__) / "tasks.toml").read_text(encoding="utf-8"))["tasks"]
    return [Task(task["name"], task["category"], tuple(task["turns"])) for task in tables]


def tasks_in(path: Path | None) -> list[Task]:
    """Returns the tasks of a file, or those that come with cera."""
    return built_in_tasks() if path is None else read_tasks(path)


def read_tasks(path: Path) -> list[Task]:
    """Reads tasks in the format of Spec-Bench (arXiv 2401.07851): on each line a JSON object.

    Raises:
        InvalidInputError: The file cannot be read, has no task, or a line is of another form.
    """
    tasks = [_parsed(line, place, number) for number, (place, line) in enumerate(read_lines(path), start=1)]
    if not tasks:
        raise InvalidInputError(f"'{path}' must have a task on each line, and is empty. Each is {FORM}.")
    repeated = [name for name, count in Counter(task.name for task in tasks).items() if count > 1]
    if repeated:
        raise InvalidInputError(f"'{path}' must name each task once; {repeated[0]!r} is there twice. Rename one.")
    return tasks


def chosen_tasks(tasks: Sequence[Task], categories: Iterable[str] = (), limit: int | None = None) -> list[Task]:
    """Returns the tasks of some categories, or of all, and of each category the first `limit`.

    Raises:
        InvalidInputError: There is no task of a category.
    """
    known = list(dict.fromkeys(task.category for task in tasks))
    wanted = list(categories) or known
    for category in wanted:
        if category not in known:
            raise InvalidInputError(
                f"There is no task of the category {category!r}.{did_you_mean(category, known)} "
                f"There are: {', '.join(known)}."
            )
    return [task for category in wanted for task in [t for t in tasks if t.category == category][:limit]]


def _parsed(line: str, place: str, number: int) -> Task:
    value = decoded_line(line, place)
    turns = list(_turns(value)) if isinstance(value, dict) else []
    if not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise InvalidInputError(f"{place}: must be {FORM}. Correct the line.")
    name = value.get("question_id", value.get("task_id", value.get("name", number)))
    return Task(str(name), str(value.get("category", "all")), tuple(turns))


def _turns(value: Mapping[str, Any]) -> Iterator[Any]:
    turns = value.get("turns", value.get("prompt"))
    yield from turns if isinstance(turns, list) else [turns]
