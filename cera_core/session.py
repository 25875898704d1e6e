"""A conversation with a model: committed tokens, the cache behind them, and generation that goes on from there.

Whatever fails on the way, a forward, a consumer of the stream, an observer, the session can be used again: the next
generation brings the cache up to the history. It knows nothing of model files or settings.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from cera_core.drafter import Drafter
from cera_core.drafting.acceptance import Acceptance
from cera_core.drafting.memory import NGRAM, Memory
from cera_core.drafting.prediction import PredictionDrafter
from cera_core.errors import InvalidInputError, SessionBusyError
from cera_core.generation import Generation, Outcome, Token, TokenStream, collected, handed_out
from cera_core.generation_options import GenerationOptions
from cera_core.request import make_request, say_what_is_idle
from cera_core.session_drafters import DrafterChoice, Drafting, SessionDrafters
from cera_core.specs import GenerationEvent, RoundEvent
from cera_core.speculation.budget import DraftBudget
from cera_core.speculation.context import Context, checked_ids
from cera_core.speculation.costs import RoundCosts
from cera_core.speculation.decode import DecodeLoop, count_faults
from cera_core.speculation.finish import FinishRules, StopText
from cera_core.speculation.model_guard import new_state
from cera_core.speculation.sampling import Sampler
from cera_core.speculation.stats import SpecStats

if TYPE_CHECKING:
    from cera_core.model import Model
    from cera_core.modelfile.tokenizer import ModelTokenizer
    from cera_core.observers import Observers


class _Unchanged:
    """Stands for an argument that was not given, where None means something."""


UNCHANGED = _Unchanged()


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
        memory: Of earlier answers: is drafted from, and takes what is generated here.
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
        memory: Memory | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._options = options or GenerationOptions()
        self._costs = costs or RoundCosts()
        self._observers = observers
        self._context = Context(model, new_state(model, max_seq_len))
        self._memory = memory
        self._drafters = SessionDrafters(model.config.vocab_size, make_drafter, memory)
        self._default_drafter = drafter
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
            self._context.append(self._ids_of(tokens, add_special=not self.position))

    def replace(self, tokens: str | Sequence[int]) -> int:
        """Makes `tokens` the whole history, keeping the cache up to the first difference.

        Returns:
            How many tokens at the start were kept.
        """
        with self._at_work():
            return self._context.replace(self._ids_of(tokens, add_special=True))

    def prefill(self) -> bool:
        """Brings the cache up to the history now, instead of when a generation begins.

        Returns:
            Whether it was finished; False after a `cancel`.
        """
        with self._at_work():
            self._is_cancelled.clear()
            return self._context.catch_up(self._is_cancelled.is_set)

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
            self._drafters.reset()

    def cancel(self) -> None:
        """Ends the generation or prefill under way, from any thread, within one forward."""
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
            fork = copy.copy(self)
            fork._options = self._options if seed is None else self._options.updated({"seed": seed})
            fork._context = self._context.fork()
            fork._drafters = self._drafters.fresh()
            fork._lock = threading.Lock()
            fork._is_cancelled = threading.Event()
            return fork

    def generate(
        self,
        *,
        drafter: DrafterChoice | _Unchanged = UNCHANGED,
        prediction: str | Sequence[int] | None = None,
        explain: bool = False,
        **options: Any,
    ) -> Generation:
        """Generates from the committed tokens, and commits what is emitted.

        Args:
            drafter: A drafter's name or a drafter, for this call; None for none.
            prediction: What the answer will resemble, text or token ids, for instance the file that is being edited;
                it is drafted from, also behind a local difference.
            explain: Keep in the result what was guessed, decided and spent in each round.
            **options: As in `GenerationOptions`, for this call.

        Raises:
            InvalidInputError: The prompt is empty, or an option or the drafter is not usable.
            ModelError: The model failed; the session can be used again.
        """
        return collected(self.stream(drafter=drafter, prediction=prediction, explain=explain, **options))

    def stream(
        self,
        *,
        drafter: DrafterChoice | _Unchanged = UNCHANGED,
        prediction: str | Sequence[int] | None = None,
        explain: bool = False,
        **options: Any,
    ) -> TokenStream:
        """Generates like `generate`, and hands out each token when its text is certain."""
        request = make_request(
            self._options, options, vocab_size=self._model.config.vocab_size, has_tokenizer=self._tokenizer is not None
        )
        drafting = self._drafters.chosen(self._default_drafter if isinstance(drafter, _Unchanged) else drafter)
        if prediction is not None:
            drafting = self._drafters.with_prediction(drafting, self._prediction(prediction))
        say_what_is_idle(request, options, drafts=drafting is not None)
        self._check_not_empty()
        is_random = request.temperature > 0
        outcome = Outcome(
            SpecStats(),
            request.seed if is_random else None,
            logprobs=None if request.logprobs is None else [],
            rounds=[] if explain else None,
        )
        return TokenStream(self._tokens(request, drafting, outcome), outcome)

    def _tokens(
        self, request: GenerationOptions, drafting: Drafting | None, outcome: Outcome
    ) -> Generator[Token, None, None]:
        """Runs the loop and dresses its emissions; the finally clauses leave the session usable whatever happens."""
        with self._at_work():
            self._check_not_empty()  # again: the session may have been emptied since the stream was made
            self._is_cancelled.clear()
            num_prompt_tokens = outcome.stats.num_prompt_tokens = self.position
            try:
                start = perf_counter()
                is_ready = self._context.catch_up(self._is_cancelled.is_set)
                outcome.stats.prefill_seconds = perf_counter() - start
                if is_ready:
                    text = StopText(self._tokenizer.stream_decoder(), request.stop) if self._tokenizer else None
                    loop = self._loop(request, drafting, outcome, text)
                    yield from handed_out(loop, text, request.logprobs, outcome)
                else:
                    outcome.finish_reason = "cancelled"
            except (GeneratorExit, KeyboardInterrupt):
                if outcome.finish_reason == "error":  # else it had ended, and only its last token was being handed out
                    outcome.finish_reason = "cancelled"
                raise
            finally:
                self._context.truncate(num_prompt_tokens + len(outcome.token_ids))  # what was not handed out
                if outcome.finish_reason == "error":
                    self._context.next_row = None  # it may be what failed: the next generation asks the model again
                if self._memory is not None:
                    self._memory.add(self._context.history.view()[max(num_prompt_tokens - NGRAM, 0) :])
                if drafting:
                    count_faults(outcome.stats, drafting.drafter)
                outcome.finish()
                self._tell_finished(outcome)

    def _loop(
        self, request: GenerationOptions, drafting: Drafting | None, outcome: Outcome, text: StopText | None
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
            stats=outcome.stats,
            is_cancelled=self._is_cancelled.is_set,
            on_round=self._round_listener(outcome.rounds),
        )

    def _round_listener(self, rounds: list[RoundEvent] | None) -> Callable[[RoundEvent], None] | None:
        """Returns who is told of a round: an explanation, the observers, both or nobody."""
        tell = self._observers.round_finished if self._observers and self._observers.watch_rounds else None
        if rounds is None:
            return tell

        def keep(event: RoundEvent) -> None:
            rounds.append(event)
            if tell:
                tell(event)

        return keep

    def _check_not_empty(self) -> None:
        if not self.position:
            raise InvalidInputError(
                "A prompt of at least one token is required, and there is none: nothing, or an empty text, was given."
            )

    def _prediction(self, prediction: str | Sequence[int]) -> PredictionDrafter:
        """Makes the drafter of a prediction of the next answer."""
        token_ids = self._ids_of(prediction, add_special=False, subject="A 'prediction' of text")
        return PredictionDrafter(checked_ids(token_ids, self._model.config.vocab_size), self.position)

    def _ids_of(self, tokens: str | Sequence[int], *, add_special: bool, subject: str = "Text") -> Sequence[int]:
        if not isinstance(tokens, str):
            return tokens
        if self._tokenizer is None:
            raise InvalidInputError(f"{subject} needs a tokenizer, and this session has none; pass token ids.")
        return self._tokenizer.encode(tokens, add_special=add_special)

    def _tell_finished(self, outcome: Outcome) -> None:
        if self._observers and self._observers.watch_generations:
            self._observers.generation_finished(
                GenerationEvent(
                    token_ids=tuple(outcome.token_ids), finish_reason=outcome.finish_reason, stats=outcome.stats
                )
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
