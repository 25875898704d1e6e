"""Replays recorded texts through a drafter, without a model, and predicts what drafting would have brought.

A round goes as in the decoding loop: one token is certain, the drafter guesses those after it, and the guesses that
agree with the record are kept. What a forward costs comes from a table, so figures of one run can be compared however
busy the machine is; only the drafter's own time is measured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from cera_core.drafter import NO_DRAFT, Draft, Drafter
from cera_core.drafting.acceptance import Acceptance
from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import InvalidInputError
from cera_core.generation_options import GenerationOptions
from cera_core.instruments.totals import total_stats
from cera_core.instruments.transcripts import Transcript
from cera_core.specs import MAX_VOCAB_SIZE
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import count_faults, first_tokens
from cera_core.speculation.history import History
from cera_core.speculation.stats import SpecStats


class CostTable:
    """What a forward takes by its number of rows, in plain steps: straight lines between the points known.

    Args:
        points: Cost by number of rows; one row among them. Beyond the last point it rises as from the one before.
        seconds_of_a_step: What a plain step takes.
    """

    def __init__(self, points: Mapping[int, float], seconds_of_a_step: float) -> None:
        if 1 not in points or min(points) < 1 or min(points.values()) <= 0:
            raise InvalidInputError(
                "A cost table must have positive costs by numbers of rows from 1 on, 1 among them; it is "
                f"{dict(points)}. Correct it."
            )
        self._rows = sorted(points)
        self._costs = [points[num_rows] / points[1] for num_rows in self._rows]
        self.seconds_of_a_step = seconds_of_a_step

    def __call__(self, num_rows: int) -> float:
        """Returns the cost of a forward of `num_rows` rows, in plain steps."""
        if len(self._rows) == 1:
            return 1.0
        index = min(max(bisect_left(self._rows, num_rows), 1), len(self._rows) - 1)
        low, high = self._rows[index - 1], self._rows[index]
        slope = (self._costs[index] - self._costs[index - 1]) / (high - low)
        return self._costs[index - 1] + slope * (num_rows - low)


@dataclass(slots=True)
class Replayed:
    """What a drafter did on the transcripts of a category.

    Attributes:
        drafter: Its name.
        category: Of the transcripts.
        num_transcripts: How many.
        stats: Counts, and the times of a model that costs what the table says; `draft_seconds` was measured.
        num_steps: The model's time in plain steps.
        seconds_of_a_step: What a plain step takes by the table.
        memory_bytes: The most the drafter held, as it reports it.
    """

    drafter: str
    category: str
    seconds_of_a_step: float
    num_transcripts: int = 0
    stats: SpecStats = field(default_factory=SpecStats)
    num_steps: float = 0.0
    memory_bytes: int = 0

    @property
    def speed_up(self) -> float:
        """Predicted speed over plain decoding, which takes a step for each token; the drafter's time counts."""
        steps = self.num_steps + self.stats.draft_seconds / self.seconds_of_a_step
        return self.stats.num_emitted / steps if steps else 1.0


class Replay:
    """Replays transcripts through one drafter.

    Args:
        name: The drafter's name.
        drafter: Asked for drafts; each transcript gets a clone.
        costs: What a forward takes.
        options: `adaptive` and `max_draft_tokens`, as in a generation.

    Attributes:
        name: The drafter's name.
    """

    def __init__(self, name: str, drafter: Drafter, costs: CostTable, options: GenerationOptions) -> None:
        self.name = name
        self._drafter = GuardedDrafter(name, drafter, MAX_VOCAB_SIZE)
        self._costs = costs
        self._options = options
        self._learned_costs = RoundCosts()
        self._results: dict[str, Replayed] = {}

    @property
    def results(self) -> list[Replayed]:
        """What was found so far, by category in the order of the transcripts."""
        return list(self._results.values())

    @property
    def total(self) -> Replayed:
        """The results of all categories together."""
        return Replayed(
            self.name,
            "all",
            self._costs.seconds_of_a_step,
            sum(result.num_transcripts for result in self.results),
            total_stats(result.stats for result in self.results),
            sum(result.num_steps for result in self.results),
            max((result.memory_bytes for result in self.results), default=0),
        )

    def add(self, transcript: Transcript) -> None:
        """Replays one transcript."""
        result = self._results.setdefault(
            transcript.category, Replayed(self._drafter.name, transcript.category, self._costs.seconds_of_a_step)
        )
        drafter = self._drafter.clone()
        budget = DraftBudget(self._options, self._learned_costs, Acceptance(), drafter.suggested_k)
        history = History(transcript.prompt)
        result.num_transcripts += 1
        result.stats.num_prompt_tokens += len(transcript.prompt)
        result.stats.num_emitted += len(transcript.output)
        num_done = 0
        while num_done < len(transcript.output):
            num_done += self._round(result, drafter, budget, history, transcript.output, num_done)
        result.memory_bytes = max(result.memory_bytes, drafter.memory_bytes())
        count_faults(result.stats, drafter)

    def _round(
        self,
        result: Replayed,
        drafter: GuardedDrafter,
        budget: DraftBudget,
        history: History,
        text: Sequence[int],
        start: int,
    ) -> int:
        """Plays one round, which begins at an index of the text; returns how many tokens it committed."""
        budget.begin_round(len(history))
        _commit(text[start : start + 1], history, budget)
        draft, reason = self._ask(result.stats, drafter, budget, history, len(text) - start - 1)
        num_drafted = len(draft.token_ids)
        cost = self._costs(1 + num_drafted)
        seconds = cost * self._costs.seconds_of_a_step
        result.num_steps += cost
        budget.observe_forward(1 + num_drafted, seconds)
        if reason:
            result.stats.count_plain_step(reason, seconds)
            return 1
        judged = text[start + 1 : start + 1 + num_drafted]
        num_accepted = _num_agreed(draft.token_ids, judged)
        budget.observe_round(draft, num_accepted, seconds)
        drafter.accept(draft, num_accepted)
        step_seconds = self._costs.seconds_of_a_step
        result.stats.count_round(draft.drafter or drafter.name, num_drafted, num_accepted, seconds, step_seconds)
        _commit(judged[:num_accepted], history, budget)
        return 1 + num_accepted

    def _ask(
        self, stats: SpecStats, drafter: GuardedDrafter, budget: DraftBudget, history: History, room: int
    ) -> tuple[Draft, str]:
        """Returns a draft to verify, or why there is none."""
        num_wanted = min(budget.num_wanted(), room)
        if num_wanted <= 0:
            return NO_DRAFT, "the text ended" if not room else budget.why_none_wanted
        start = perf_counter()
        draft = drafter.draft(history.view(), num_wanted)
        seconds = perf_counter() - start
        stats.draft_seconds += seconds
        budget.observe_asked(seconds)
        if not draft.token_ids:
            return NO_DRAFT, drafter.why_no_guess()
        num_to_verify = budget.num_to_verify(draft)
        if not num_to_verify:
            return NO_DRAFT, "the guess was not worth its cost"
        return first_tokens(draft, num_to_verify), ""


def _commit(token_ids: Sequence[int], history: History, budget: DraftBudget) -> None:
    for token_id in token_ids:
        history.append(token_id)
        budget.observe_token(token_id)


def _num_agreed(draft: Sequence[int], text: Sequence[int]) -> int:
    """Returns how many tokens at the start are the same."""
    pairs = enumerate(zip(draft, text, strict=False))
    return next((index for index, (guess, token_id) in pairs if guess != token_id), min(len(draft), len(text)))
