"""Prints what `cera bench --json` or `cera replay --json` wrote as a table in Markdown, a line for each category.

    cera bench --json > measured.json
    python tests/bench/as_markdown.py measured.json

A cell is the median speed-up over plain decoding, of a replay the predicted one; of several turns also the lowest and
the highest. `*` marks an answer that was not the plain one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def cell(line: Mapping[str, Any]) -> str:
    """Returns what a contestant did in a category."""
    speed_ups = line.get("speed_ups", [])
    spread = f" ({min(speed_ups):.2f} to {max(speed_ups):.2f})" if len(speed_ups) > 1 else ""
    return f"{line['speed_up']:.2f}{spread}{'' if line.get('equals_plain', True) else '*'}"


def table(lines: Sequence[Mapping[str, Any]], column: str) -> str:
    """Returns the table; `column` is the key that names who is compared."""
    names = list(dict.fromkeys(line[column] for line in lines))
    cells: dict[str, dict[str, str]] = {}
    for line in lines:
        number = line.get("num_tasks", line.get("num_transcripts"))
        cells.setdefault(f"{line['category']} ({number})", {})[line[column]] = cell(line)
    rows = [["category", *names], ["---"] * (len(names) + 1)]
    rows += [[category, *(own.get(name, "") for name in names)] for category, own in cells.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    for path in sys.argv[1:]:
        value = json.loads(Path(path).read_text())
        if isinstance(value, list):
            print(table(value, "drafter"))
        else:
            print(value["heading"] + "\n\n" + table(value["lines"], "contestant"))


if __name__ == "__main__":
    main()
