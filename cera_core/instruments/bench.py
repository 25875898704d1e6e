"""Measures contestants side by side: the same tasks, turn by turn, in one process.

In each turn every contestant runs a task once, so that a machine that changes its speed changes it for all. The first
turn warms up and is dropped. Speeds are of decoding: the prompt is in the cache before the clock starts.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from cera_core.engine import Engine
from cera_core.errors import CeraWarning, PluginError
from cera_core.generation import Generation
from cera_core.instruments.tasks import Task
from cera_core.instruments.totals import total_stats
from cera_core.machine import seconds_waited
from cera_core.session import Session
from cera_core.session_drafters import DrafterChoice
from cera_core.specs import RoundEvent
from cera_core.speculation.stats import SpecStats


class Contestant(Protocol):
    """Something that answers tasks.

    Attributes:
        name: Unique among those compared.
        plain: Name of the contestant that is the same without drafting: its own name if it is that.
    """

    name: str
    plain: str

    def prepare(self, task: Task) -> None:
        """Computes what every run of a task begins with."""

    def run(self, task: Task) -> Sequence[Generation]:
        """Answers the turns of a task that was prepared."""


class CeraContestant:
    """A drafter, or none, on an engine.

    Args:
        name: As in `Contestant`.
        plain: As in `Contestant`.
        engine: Answers. Contestants that share it share its prompts.
        drafter: A drafter, its name, or None.
        **options: As `Session.generate` takes them, where they are not those of the engine.
    """

    def __init__(self, name: str, plain: str, engine: Engine, drafter: DrafterChoice, **options: Any) -> None:
        self.name = name
        self.plain = plain
        self._engine = engine
        self._drafter = drafter
        self._options = options
        self._prompt: Session | None = None

    def prepare(self, task: Task) -> None:
        """Brings the first prompt into a cache, of which every run gets a copy."""
        if not self._engine.model.supports_copy:
            return
        self._prompt = self._engine.session()
        self._prompt.replace(prompt_ids(self._engine, [_message("user", task.turns[0])]))
        self._prompt.prefill()

    def run(self, task: Task) -> list[Generation]:
        """Answers turn by turn, each with the answers before it."""
        session = self._prompt.fork() if self._prompt is not None else self._engine.session()

        def answer(prompt: Sequence[int]) -> Generation:
            session.replace(prompt)
            return session.generate(drafter=self._drafter, **self._options)

        return answer_turns(self._engine, task, answer)


def answer_turns(engine: Engine, task: Task, answer: Callable[[Sequence[int]], Generation]) -> list[Generation]:
    """Has the turns of a task answered, each with the answers before it.

    Args:
        engine: Gives the conversation its ids.
        task: What to answer.
        answer: Goes on from the ids of a prompt.
    """
    conversation: list[dict[str, str]] = []
    generations = []
    for turn in task.turns:
        conversation.append(_message("user", turn))
        generation = answer(prompt_ids(engine, conversation))
        conversation.append(_message("assistant", generation.text))
        generations.append(generation)
    return generations


def prompt_ids(engine: Engine, conversation: Sequence[Mapping[str, str]]) -> list[int]:
    """Returns a conversation as the model wants it; a model without a chat template gets the plain texts."""
    if engine.chat_template is not None:
        return engine.chat_ids(conversation)
    return engine.tokenizer.encode("\n\n".join(message["content"] for message in conversation) + "\n\n")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a task.

    Attributes:
        token_ids: What was answered, all turns.
        seconds: Time from the first choice to the end, prompts not included.
        waited: Share of that time in which a thread waited for a processor; None if the system does not say.
        state: The machine's state before the run, as the backend names it; None if it does not.
    """

    token_ids: tuple[int, ...]
    seconds: float
    waited: float | None
    state: str | None


@dataclass(slots=True)
class Result:
    """What one contestant did on one task.

    Attributes:
        contestant: Its name.
        plain: The name of the contestant it is compared with.
        task: The task.
        samples: One for each turn after the first.
        stats: Counts and times of the last turn.
        rounds: What happened in each round of the last turn, of a contestant that says so.
        equals_plain: Whether every answer was that of the plain contestant.
    """

    contestant: str
    plain: str
    task: Task
    samples: list[Sample] = field(default_factory=list)
    stats: SpecStats = field(default_factory=SpecStats)
    rounds: list[RoundEvent] = field(default_factory=list)
    equals_plain: bool = True

    def add(self, sample: Sample, generations: Sequence[Generation]) -> None:
        """Adds a run; the counts are those of the last one."""
        self.samples.append(sample)
        self.stats = total_stats(generation.stats for generation in generations)
        self.rounds = [event for generation in generations for event in generation.rounds or ()]


def measure(
    contestants: Sequence[Contestant],
    tasks: Sequence[Task],
    *,
    repeats: int,
    machine_state: Callable[[], str | None] = lambda: None,
    on_run: Callable[[str, Task], None] = lambda contestant, task: None,
) -> list[Result]:
    """Runs every task on every contestant, `repeats` times after a first time that does not count.

    Args:
        contestants: Those to compare, each plain one among them.
        tasks: What they answer.
        repeats: Turns that count, at least 1.
        machine_state: Names the state the machine is in.
        on_run: Is told before each run.

    Raises:
        PluginError: There was a warning or a fault of a drafter on the way; what that slowed is no measurement.
    """
    results: list[Result] = []
    for task in tasks:
        of_task = {contestant.name: Result(contestant.name, contestant.plain, task) for contestant in contestants}
        for contestant in contestants:
            contestant.prepare(task)
        for turn in range(repeats + 1):
            for contestant in contestants:
                on_run(contestant.name, task)
                sample, generations = _sampled(contestant, task, machine_state())
                if turn:
                    of_task[contestant.name].add(sample, generations)
        _compare(of_task)
        results += of_task.values()
    return results


def _sampled(contestant: Contestant, task: Task, state: str | None) -> tuple[Sample, Sequence[Generation]]:
    waited_before = seconds_waited()
    with fallbacks_as_errors(f"{contestant.name} on {task.name}"):
        generations = contestant.run(task)
    waited_after = seconds_waited()
    stats = total_stats(generation.stats for generation in generations)
    _check_no_faults(contestant.name, stats)
    waited = None
    if waited_before is not None and waited_after is not None and stats.total_seconds:
        waited = (waited_after - waited_before) / stats.total_seconds
    token_ids = tuple(token_id for generation in generations for token_id in generation.token_ids)
    return Sample(token_ids, stats.total_seconds, waited, state), generations


def _compare(results: Mapping[str, Result]) -> None:
    for result in results.values():
        pairs = zip(result.samples, results[result.plain].samples, strict=True)
        result.equals_plain = all(ours.token_ids == plain.token_ids for ours, plain in pairs)


def _check_no_faults(name: str, stats: SpecStats) -> None:
    for drafter, counts in stats.drafters.items():
        if counts.num_faults:
            faults = ", ".join(f"{kind} ({number})" for kind, number in counts.num_faults.items())
            raise PluginError(
                f"{name}: a measurement must be without faults, and the drafter {drafter!r} had {faults}. Mend the "
                "drafter, or leave it out."
            )


@contextmanager
def fallbacks_as_errors(subject: str) -> Iterator[None]:
    """Raises if cera warns of anything inside.

    Raises:
        PluginError: It did; the message names the subject and the warning.
    """
    heard = _Listener()
    log = logging.getLogger("cera")
    log.addHandler(heard)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CeraWarning)
            yield
    finally:
        log.removeHandler(heard)
    messages = [*heard.messages, *(str(warning.message) for warning in caught)]
    if messages:
        raise PluginError(f"{subject}: a measurement must be without warnings, and there was this: {messages[0]}")


class _Listener(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
