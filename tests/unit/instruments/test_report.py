"""The page of a measurement stands by itself and says what the table says."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from cera_core.errors import InvalidInputError
from cera_core.instruments.bench import Result, Sample
from cera_core.instruments.report import write_report
from cera_core.instruments.tasks import Task
from cera_core.specs import RoundEvent
from cera_core.speculation.stats import SpecStats

HEADING = "A model <b>& more</b>"


class Page(HTMLParser):
    """Notes tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


def results() -> list[Result]:
    task = Task("<i>", "copy & paste", ("x",))
    stats = SpecStats(num_emitted=4, num_plain_steps=1)
    stats.count_round("lookup", 3, 2, 0.01)
    samples = [Sample((1, 2, 3, 4), seconds, None, None) for seconds in (2.0, 4.0)]
    faster = [Sample((1, 2, 3, 5), seconds, 0.0, "shared cache") for seconds in (1.0, 1.0)]
    return [
        Result("plain", "plain", task, samples, SpecStats(num_emitted=4, num_plain_steps=4)),
        Result("lookup", "plain", task, faster, stats, equals_plain=False),
    ]


def test_page_is_self_contained_escaped_and_says_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, results(), heading=HEADING)
    page = Page(path.read_text())
    assert HEADING in page.texts
    assert page.tags.count("svg") == 2
    assert all(link.startswith("#") for link in page.links)
    assert "script" not in page.tags
    assert {"copy & paste (1)", "lookup", "3.00", "2.00", "4.00", "no"} <= set(page.texts)


def test_single_rounds_are_drawn_where_they_are_known(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    known = results()
    for result, num_drafted in zip(known, (0, 3), strict=True):
        event = RoundEvent(
            position=5, token_ids=(1, 2), num_drafted=num_drafted, num_accepted=1, drafter=None, source=None,
            skip_reason=None, draft_seconds=0.001, verify_seconds=0.02,
        )  # fmt: skip
        result.rounds = [event, event]
    write_report(path, known, heading=HEADING)
    page = Page(path.read_text())
    assert page.tags.count("svg") == 4
    assert {"rows of a forward", "seconds of drafting and verifying"} <= set(page.texts)


def test_the_same_measurement_gives_the_same_page(tmp_path: Path) -> None:
    write_report(tmp_path / "a.html", results(), heading=HEADING)
    write_report(tmp_path / "b.html", results(), heading=HEADING)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_report(tmp_path / "none" / "report.html", results(), heading=HEADING)
