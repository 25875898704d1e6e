"""Rules 1 to 31 each have a test that is named after the rule; this looks at the names."""

from __future__ import annotations

import re
from pathlib import Path

NUM_RULES = 31


def test_each_rule_from_1_to_31_has_a_test_and_each_name_says_more_than_its_number() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("test_*.py"))]
    names = re.findall(r"^def test_rule_(\d\d)_(\w+)\(", "\n".join(texts), flags=re.MULTILINE)
    assert {int(number) for number, _ in names} == set(range(1, NUM_RULES + 1))
    assert all(len(words.split("_")) >= 5 for _, words in names)
