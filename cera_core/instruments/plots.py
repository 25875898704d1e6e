"""Draws what a measurement found, as SVG text that stands in a page by itself.

matplotlib draws; it comes with the extra `report`. Contestants differ in hatch or marker as well as in colour.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import zip_longest
from statistics import quantiles
from typing import TYPE_CHECKING, Any

from cera_core.errors import PluginError
from cera_core.instruments.pages import COLOURS
from cera_core.instruments.totals import total_drafter_stats

if TYPE_CHECKING:
    from cera_core.instruments.bench import Result
    from cera_core.instruments.summary import Line

HATCHES = ("", "//", "..", "xx", "\\\\", "oo", "--", "++")
MARKERS = "osD^vP*X"


def draw_speed_ups(lines: Sequence[Line]) -> str:
    """Draws the speed-up over plain by category, with the lowest and the highest turn."""
    measured = [line for line in lines if line.stats.num_emitted]
    categories = list(dict.fromkeys(line.category for line in measured))
    names = list(dict.fromkeys(line.contestant for line in measured))
    figure, axes = _figure(height=1 + 0.28 * len(categories) * len(names))
    for index, name in enumerate(names):
        own = {line.category: line for line in measured if line.contestant == name}
        height = 0.8 / len(names)
        places = [row + index * height for row, category in enumerate(categories) if category in own]
        chosen = [own[category] for category in categories if category in own]
        medians = [line.speed_up for line in chosen]
        below = [line.speed_up - min(line.speed_ups) for line in chosen]
        above = [max(line.speed_ups) - line.speed_up for line in chosen]
        axes.barh(
            places, medians, height, xerr=[below, above], label=name, color=COLOURS[index % len(COLOURS)],
            hatch=HATCHES[index % len(HATCHES)], edgecolor="white", capsize=2,
        )  # fmt: skip
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks([row + 0.4 for row in range(len(categories))], categories)
    axes.invert_yaxis()
    axes.set_xlabel("speed over plain decoding")
    axes.legend(loc="best", fontsize="small")
    return _svg(figure)


def draw_acceptance(lines: Sequence[Line]) -> str:
    """Draws the share of draft tokens that was accepted, by their position in the draft."""
    figure, axes = _figure(height=3.2)
    names = list(dict.fromkeys(line.contestant for line in lines if line.stats.drafters))
    for index, name in enumerate(names):
        own = [line for line in lines if line.contestant == name]
        total = total_drafter_stats(drafter for line in own for drafter in line.stats.drafters.values())
        counts = zip_longest(total.accepted_by_position, total.drafted_by_position, fillvalue=0)
        shares = [accepted / drafted for accepted, drafted in counts]
        axes.plot(
            range(1, len(shares) + 1), shares, label=name,
            color=COLOURS[index % len(COLOURS)], marker=MARKERS[index % len(MARKERS)],
        )  # fmt: skip
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("position in the draft")
    axes.set_ylabel("share accepted")
    if names:
        axes.legend(loc="best", fontsize="small")
    return _svg(figure)


def draw_round_costs(results: Sequence[Result]) -> str:
    """Draws what a forward took by its number of rows: the median, and the middle half of the samples."""
    figure, axes = _figure(height=3.2)
    seconds: dict[str, dict[int, list[float]]] = {}
    for result in results:
        for event in result.rounds:
            by_rows = seconds.setdefault(result.plain, {})
            by_rows.setdefault(1 + event.num_drafted, []).append(1e3 * event.verify_seconds)
    for index, (plain, by_rows) in enumerate(seconds.items()):
        rows = sorted(by_rows)
        quarters = [_quarters(by_rows[num_rows]) for num_rows in rows]
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(
            rows, [middle for _, middle, _ in quarters], label=plain, color=colour, marker=MARKERS[index % len(MARKERS)]
        )
        axes.fill_between(
            rows, [low for low, _, _ in quarters], [high for *_, high in quarters], color=colour, alpha=0.2
        )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows of a forward")
    axes.set_ylabel("milliseconds")
    if len(seconds) > 1:
        axes.legend(loc="best", fontsize="small")
    return _svg(figure)


def draw_time_line(results: Sequence[Result]) -> str:
    """Draws for each contestant how many tokens of one task were there at what time."""
    figure, axes = _figure(height=3.2)
    for index, result in enumerate(results):
        times, counts = [0.0], [0]
        for event in result.rounds:
            times.append(times[-1] + event.draft_seconds + event.verify_seconds)
            counts.append(counts[-1] + len(event.token_ids))
        axes.step(times, counts, where="post", label=result.contestant, color=COLOURS[index % len(COLOURS)])
        axes.plot(times[-1:], counts[-1:], color=COLOURS[index % len(COLOURS)], marker=MARKERS[index % len(MARKERS)])
    axes.set_xlabel("seconds of drafting and verifying")
    axes.set_ylabel("tokens")
    if results:
        axes.legend(loc="best", fontsize="small")
    return _svg(figure)


def _quarters(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns what a quarter, a half and three quarters of the values are below."""
    low, middle, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return low, middle, high


def require_matplotlib() -> Any:
    """Returns the class of a figure.

    Raises:
        PluginError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise PluginError("A page with plots needs matplotlib. Install it with: pip install 'cera[report]'") from error
    return Figure


def _figure(height: float) -> tuple[Any, Any]:
    figure = require_matplotlib()(figsize=(8, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Any) -> str:
    """Returns the SVG element without the XML header, which a page does not take."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    text = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "cera"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]
