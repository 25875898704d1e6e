"""A conversation with a model: committed tokens, the cache behind them, and generation that goes on from there.

Whatever fails on the way, a forward, a consumer of the stream, an observer, the session can be used again: the next
generation brings the cache up to the history. It knows nothing of model files or settings.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import InvalidInputError, SessionBusyError
from cera_core.generation import Generation, Outcome, Token, TokenStream, token_logprobs
from cera_core.generation_options import MAX_SEED, GenerationOptions
from cera_core.specs import GenerationEvent
from cera_core.speculation.budget import Acceptance, DraftBudget, RoundCosts
from cera_core.speculation.context import Context
from cera_core.speculation.decode import DecodeLoop, count_faults
from cera_core.speculation.finish import FinishReason, FinishRules, StopText
from cera_core.speculation.sampling import Sampler
from cera_core.speculation.stats import SpecStats
from cera_core.validation import validated

if TYPE_CHECKING:
    from cera_core.drafter import Drafter
    from cera_core.model import Model
    from cera_core.modelfile.tokenizer import ModelTokenizer
    from cera_core.observers import Observers

    DrafterChoice: TypeAlias = str | Drafter | None

_PREFILL_ROWS = 256
"""Tokens of a prompt in one forward: enough to share each weight among many, few enough to notice a cancel soon."""


class _Unchanged:
    """Stands for an argument that was not given, where None means something."""


UNCHANGED = _Unchanged()


@dataclass(slots=True)
class _Drafting:
    """A drafter of this session, with what was learned of it; the choice is kept, for it is known by its identity."""

    choice: DrafterChoice
    drafter: GuardedDrafter
    acceptance: Acceptance = field(default_factory=Acceptance)


class Session:
    """Committed tokens, their cache, and a drafter.

    Only `cancel` may be called from another thread; anything else at work twice raises `SessionBusyError`.

    Args:
        model: Does the forwards; shared with other sessions.
        tokenizer: Turns text into ids and back; without one the session takes and gives ids only.
        drafter: Guesses: a drafter, of which the session uses a clone, or its name.
        options: What holds where a call says nothing else.
        max_seq_len: The context length, by default the model's.
        costs: What forwards cost, as learned by other sessions of this model.
        observers: Plugins that watch.
        make_drafter: Makes a drafter of a name, for `generate(drafter="...")`.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: ModelTokenizer | None = None,
        drafter: DrafterChoice = None,
        *,
        options: GenerationOptions | None = None,
        max_seq_len: int | None = None,
        costs: RoundCosts | None = None,
        observers: Observers | None = None,
        make_drafter: Callable[[str], Drafter | None] | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._options = options or GenerationOptions()
        self._costs = costs or RoundCosts()
        self._observers = observers
        self._make_drafter = make_drafter
        self._context = Context(model, model.new_state(max_seq_len))
        self._draftings: dict[object, _Drafting] = {}
        self._default_drafter: DrafterChoice = drafter
        self._lock = threading.Lock()
        self._is_cancelled = threading.Event()

    @property
    def position(self) -> int:
        """Number of committed tokens."""
        return len(self._context.history)

    @property
    def token_ids(self) -> list[int]:
        """The committed tokens, as a copy."""
        return self._context.history.view()[:]

    @property
    def max_seq_len(self) -> int:
        """The most tokens the session can hold."""
        return self._context.state.max_seq_len

    def append(self, tokens: str | Sequence[int]) -> None:
        """Commits text or token ids; the next generation feeds them to the model.

        Text gets the beginning-of-sequence token only at position 0 and only if the model file asks for it; control
        tokens in it are text like any other.

        Raises:
            InvalidInputError: An id is outside the vocabulary, or there is no tokenizer for text.
            ContextFullError: They do not fit; nothing was appended.
        """
        with self._at_work():
            self._context.append(self._ids_of(tokens))

    def replace(self, tokens: str | Sequence[int]) -> int:
        """Makes `tokens` the whole history, keeping the cache up to the first difference.

        Returns:
            How many tokens at the start were kept.
        """
        with self._at_work():
            return self._context.replace(self._ids_of(tokens, is_at_start=True))

    def prefill(self) -> None:
        """Brings the cache up to the history now, instead of when a generation begins."""
        with self._at_work():
            self._context.catch_up()

    def truncate(self, length: int) -> None:
        """Keeps the first `length` tokens. A model that cannot go back that far is fed them again.

        Raises:
            InvalidInputError: There are fewer tokens than that.
        """
        with self._at_work():
            self._context.truncate(length)

    def reset(self) -> None:
        """Forgets everything but the options."""
        with self._at_work():
            self._context.truncate(0)
            for drafting in self._draftings.values():
                drafting.drafter.reset()

    def cancel(self) -> None:
        """Ends the generation under way, from any thread, within one round."""
        self._is_cancelled.set()

    def fork(self, *, seed: int | None = None) -> Session:
        """Makes an independent session with the same tokens, sharing the work done so far.

        Args:
            seed: The seed the fork draws with; by default this session's.

        Raises:
            ModelError: The model cannot copy a state.
        """
        with self._at_work():
            self._context.catch_up()
            fork = Session(
                self._model,
                self._tokenizer,
                self._default_drafter,
                options=self._options if seed is None else self._options.model_copy(update={"seed": seed}),
                max_seq_len=self.max_seq_len,
                costs=self._costs,
                observers=self._observers,
                make_drafter=self._make_drafter,
            )
            fork._context = self._context.fork()
            return fork

    def generate(self, *, drafter: DrafterChoice | _Unchanged = UNCHANGED, **options: Any) -> Generation:
        """Generates from the committed tokens, and commits what is emitted.

        Args:
            drafter: A drafter's name or a drafter, for this call; None for none.
            **options: As in `GenerationOptions`, for this call.

        Raises:
            InvalidInputError: There is nothing to go on from, or an option is not usable.
            ModelError: The model failed; the session can be used again.
        """
        stream = self.stream(drafter=drafter, **options)
        for _ in stream:
            pass
        return stream.generation

    def stream(self, *, drafter: DrafterChoice | _Unchanged = UNCHANGED, **options: Any) -> TokenStream:
        """Generates like `generate`, and hands out each token when its text is certain."""
        request = self._request(options)
        drafting = self._drafting(self._default_drafter if isinstance(drafter, _Unchanged) else drafter)
        if not self.position:
            raise InvalidInputError("There is nothing to go on from; 'append' a prompt of at least one token first.")
        is_random = request.temperature > 0
        outcome = Outcome(
            SpecStats(),
            request.seed if is_random else None,
            logprobs=None if request.logprobs is None else [],
        )
        return TokenStream(self._tokens(request, drafting, outcome), outcome)

    def _request(self, options: dict[str, Any]) -> GenerationOptions:
        """Returns the session's options with those of one call over them, and a seed where one is needed."""
        given = self._options.model_dump(exclude_unset=True) | options
        request = validated(GenerationOptions, given, owner="a generation")
        if request.temperature > 0 and request.seed is None:
            request = request.model_copy(update={"seed": secrets.randbelow(MAX_SEED)})
        if request.stop and self._tokenizer is None:
            raise InvalidInputError("'stop' needs a tokenizer, and this session has none; use 'stop_token_ids'.")
        return request

    def _tokens(
        self, request: GenerationOptions, drafting: _Drafting | None, outcome: Outcome
    ) -> Generator[Token, None, None]:
        """Runs the loop and dresses its emissions; the finally clauses leave the session usable whatever happens."""
        reason: FinishReason = "error"
        with self._at_work():
            self._is_cancelled.clear()
            outcome.stats.num_prompt_tokens = self.position
            num_faults = drafting.drafter.num_faults.total() if drafting else 0
            try:
                start = perf_counter()
                is_ready = self._context.catch_up(self._is_cancelled.is_set)
                outcome.stats.prefill_seconds = perf_counter() - start
                if is_ready:
                    reason = yield from self._emitted(request, drafting, outcome)
                else:
                    reason = "cancelled"
            except GeneratorExit:
                reason = "cancelled"
                raise
            finally:
                if drafting and drafting.drafter.num_faults.total() != num_faults:
                    count_faults(outcome.stats, drafting.drafter)
                outcome.finish(reason)
                self._tell_finished(outcome, reason)

    def _emitted(
        self, request: GenerationOptions, drafting: _Drafting | None, outcome: Outcome
    ) -> Generator[Token, None, FinishReason]:
        """Yields tokens; one whose text is not certain yet waits for the next."""
        text = StopText(self._tokenizer.stream_decoder(), request.stop) if self._tokenizer else None
        loop = self._loop(request, drafting, outcome.stats, text)
        paused_seconds = 0.0
        waiting: Token | None = None
        emissions = loop.run()
        try:
            for emission in emissions:
                if waiting:
                    start = perf_counter()
                    yield waiting
                    paused_seconds += perf_counter() - start
                waiting = Token(
                    emission.token_id,
                    text.take() if text else "",
                    emission.drafter is not None,
                    emission.drafter,
                    token_logprobs(emission.row, emission.token_id, request.logprobs),
                )
                outcome.add(waiting)
                if emission.finish_reason or (text and text.is_undecided):
                    continue
                start = perf_counter()
                token, waiting = waiting, None
                yield token
                paused_seconds += perf_counter() - start
        finally:
            emissions.close()
            outcome.stats.total_seconds -= paused_seconds
            rest = text.finish() if text else ""
            outcome.texts.append(rest)
        if waiting:
            yield replace(waiting, text=waiting.text + rest)
        return loop.finish_reason or "error"

    def _loop(
        self, request: GenerationOptions, drafting: _Drafting | None, stats: SpecStats, text: StopText | None
    ) -> DecodeLoop:
        end_ids = self._tokenizer.end_ids if self._tokenizer and not request.ignore_eos else frozenset()
        stop_ids = end_ids | frozenset(request.stop_token_ids)
        sampler = Sampler(request, self.position, stop_ids)
        sampler.push_all(self._context.history.view())
        drafter = drafting.drafter if drafting else None
        return DecodeLoop(
            self._context,
            sampler=sampler,
            rules=FinishRules(stop_ids, request.max_tokens, request.min_tokens, text),
            drafter=drafter,
            budget=DraftBudget(
                request,
                self._costs,
                drafting.acceptance if drafting else Acceptance(),
                drafter.suggested_k if drafter else None,
            ),
            stats=stats,
            is_cancelled=self._is_cancelled.is_set,
            on_round=self._observers.round_finished if self._observers and self._observers.watch_rounds else None,
        )

    def _ids_of(self, tokens: str | Sequence[int], *, is_at_start: bool = False) -> list[int]:
        if isinstance(tokens, str):
            if self._tokenizer is None:
                raise InvalidInputError("Text needs a tokenizer, and this session has none; pass token ids.")
            return self._tokenizer.encode(tokens, add_special=is_at_start or not self.position)
        return [int(token_id) for token_id in tokens]

    def _drafting(self, choice: DrafterChoice) -> _Drafting | None:
        """Returns this session's own instance of a drafter, made when it is first asked for."""
        if choice is None or choice == "none":
            return None
        key = choice if isinstance(choice, str) else id(choice)
        if key not in self._draftings:
            drafter = self._named_drafter(choice) if isinstance(choice, str) else choice
            name = choice if isinstance(choice, str) else type(choice).__name__
            guarded = GuardedDrafter(name, drafter, self._model.config.vocab_size).clone()
            self._draftings[key] = _Drafting(choice, guarded)
        return self._draftings[key]

    def _named_drafter(self, name: str) -> Drafter:
        drafter = self._make_drafter(name) if self._make_drafter else None
        if drafter is None:
            raise InvalidInputError(
                f"The drafter {name!r} can be chosen by its name only in a session made by an engine; pass a Drafter."
            )
        return drafter

    def _tell_finished(self, outcome: Outcome, reason: FinishReason) -> None:
        if self._observers and self._observers.watch_generations:
            self._observers.generation_finished(
                GenerationEvent(token_ids=tuple(outcome.token_ids), finish_reason=reason, stats=outcome.stats)
            )

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise SessionBusyError(
                "A session does one thing at a time, and this one is at work in another thread or an open stream; "
                "wait, or close the stream."
            )
        try:
            yield
        finally:
            self._lock.release()
