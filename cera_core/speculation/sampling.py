"""Logits, prefix and seed to a token: a pure function.

The draw for a position depends on nothing but the row, the tokens before it and the seed, so it is the same whether the
row came from a plain step or from the verification of a draft. That is why one rule serves greedy and sampled decoding:
a draft token is accepted if it is the one chosen for its row.

The order of the processors: logit bias and bans, repetition penalty (Keskar et al. 2019, CTRL: divides a positive
logit, multiplies a negative one), frequency and presence penalties, temperature, top-k, top-p (Holtzman et al. 2019),
min-p (Nguyen et al. 2024). This module knows nothing of models or drafts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cera_core.errors import InvalidInputError, ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cera_core.generation_options import GenerationOptions
    from cera_core.model import Logits

_MASK_64 = 2**64 - 1
_FIRST_GUESS = 256  # how many of the likeliest tokens top-p looks at before it looks at eight times as many


def argmax(row: Logits, accepted: Sequence[int] = ()) -> int:
    """Chooses the token with the largest logit; the lowest id wins a tie, NaN never wins.

    Args:
        row: float32[vocab_size].
        accepted: Not looked at; there because `verify_draft` passes the tokens accepted before this row.

    Raises:
        ModelError: The row has nothing but NaN.
    """
    del accepted
    token_id = int(row.argmax())
    if row[token_id] == row[token_id]:  # NumPy's argmax lets the first NaN win
        return token_id
    numbers = np.flatnonzero(~np.isnan(row))
    if not numbers.size:
        raise ModelError("The model gave a row of logits that holds nothing but NaN.")
    return int(numbers[row[numbers].argmax()])


def sample(
    row: Logits,
    prefix: Sequence[int],
    num_prompt_tokens: int,
    options: GenerationOptions,
    end_ids: Collection[int] = (),
) -> int:
    """Chooses the token after `prefix`: the definition that `Sampler` computes incrementally.

    Args:
        row: float32[vocab_size], the logits after `prefix`.
        prefix: Prompt and output.
        num_prompt_tokens: How many of `prefix` are the prompt.
        options: Its `seed` is set unless the temperature is 0.
        end_ids: Tokens that are banned before `min_tokens` of output.
    """
    sampler = Sampler(options, num_prompt_tokens, end_ids)
    sampler.push_all(prefix)
    return sampler.choose(row)


class Sampler:
    """Chooses tokens for one generation, keeping the counts its penalties need as the prefix grows and shrinks.

    Args:
        options: What to do; a `seed` is required unless the temperature is 0.
        num_prompt_tokens: Tokens pushed before the output begins.
        end_ids: Tokens that are banned before `min_tokens` of output.
    """

    def __init__(self, options: GenerationOptions, num_prompt_tokens: int, end_ids: Collection[int] = ()) -> None:
        self._options = options
        self._num_prompt_tokens = num_prompt_tokens
        self._is_penalised = (options.repetition_penalty, options.presence_penalty, options.frequency_penalty) != (
            1,
            0,
            0,
        )
        self._end_ids = _as_ids(end_ids)
        self._bias_ids = _as_ids(options.logit_bias)
        self._biases = np.array(list(options.logit_bias.values()), np.float64)
        self._takes_largest = options.temperature == 0 and not (
            self._is_penalised or self._bias_ids.size or (self._end_ids.size and options.min_tokens)
        )
        self._tokens: list[int] = []
        self._counts = np.zeros((2, 0), np.int32)  # by id: in prompt and output, in the output
        self._num_pushed = 0

    def push(self, token_id: int) -> None:
        """Appends a token to the prefix; constant time on average."""
        if self._is_penalised:
            self._tokens.append(token_id)
            self._count(token_id, 1)
        self._num_pushed += 1

    def pop(self) -> None:
        """Takes the last token off the prefix; constant time."""
        self._num_pushed -= 1
        if self._is_penalised:
            self._count(self._tokens.pop(), -1)

    def push_all(self, token_ids: Sequence[int]) -> None:
        """Appends tokens to the prefix; free where no penalty looks at them."""
        if self._is_penalised:
            for token_id in token_ids:
                self.push(token_id)
        else:
            self._num_pushed += len(token_ids)

    def choose(self, row: Logits) -> int:
        """Chooses the token after the prefix.

        Args:
            row: float32[vocab_size]; it is not changed.

        Raises:
            ModelError: The row has nothing but NaN.
            InvalidInputError: Every token is banned.
        """
        try:
            if self._takes_largest:
                return argmax(row)
            with np.errstate(all="ignore"):  # a row may hold infinities, and options may make some
                scores = self._processed(row)
                if self._options.temperature == 0:
                    return argmax(scores)
                return _draw(scores, self._options, self._num_pushed)
        except ModelError as error:
            raise ModelError(f"{error} That was for position {self._num_pushed}.") from None

    def _processed(self, row: Logits) -> Logits:
        """Returns the row after bias, bans and penalties; the row itself where none applies."""
        is_too_short = self._num_pushed - self._num_prompt_tokens < self._options.min_tokens and self._end_ids.size > 0
        if not (self._is_penalised or self._bias_ids.size or is_too_short):
            return row
        if np.isnan(row).all():
            return row  # the error names the model, not the bans
        scores = row.astype(np.float32)
        scores[self._bias_ids] += self._biases
        if is_too_short:
            scores[self._end_ids] = -np.inf
        if self._is_penalised:
            self._penalise(scores)
        if not (scores > -np.inf).any():
            raise InvalidInputError(f"At position {self._num_pushed} every token is banned; ban fewer in 'logit_bias'.")
        return scores

    def _penalise(self, scores: Logits) -> None:
        options = self._options
        anywhere, in_output = self._counts
        if options.repetition_penalty != 1:
            seen = np.flatnonzero(anywhere)
            penalty = np.float32(options.repetition_penalty)
            scores[seen] = np.where(scores[seen] > 0, scores[seen] / penalty, scores[seen] * penalty)
        if options.frequency_penalty or options.presence_penalty:
            emitted = np.flatnonzero(in_output)
            counts = in_output[emitted].astype(np.float32)
            scores[emitted] -= options.frequency_penalty * counts + np.float32(options.presence_penalty)

    def _count(self, token_id: int, change: int) -> None:
        """Counts the token at position `_num_pushed`."""
        size = self._counts.shape[1]
        if token_id >= size:
            self._counts = np.pad(self._counts, ((0, 0), (0, max(token_id + 1, 2 * size) - size)))
        self._counts[0, token_id] += change
        if self._num_pushed >= self._num_prompt_tokens:
            self._counts[1, token_id] += change


def uniform(seed: int, position: int) -> float:
    """Returns the random number of a position, in 0 <= u < 1.

    The output function of SplitMix64 (Steele, Lea, Flood 2014), applied to the seed, then to its sum with the position.
    """
    return (_mix(_mix(seed) + position) >> 11) / 2.0**53


def log_softmax(row: Logits) -> NDArray[np.float64]:
    """Returns log-probabilities of a row of logits, computed in float64.

    NaN counts as minus infinity. Where a logit is infinite, the tokens with the largest share all of the probability.
    """
    scores = np.where(np.isnan(row), -np.inf, row).astype(np.float64)
    top = scores.max()
    with np.errstate(all="ignore"):
        scores = np.where(scores == top, 0.0, -np.inf) if np.isinf(top) else scores - top
        log_probabilities: NDArray[np.float64] = scores - np.log(np.exp(scores).sum())
    return log_probabilities


def likeliest(scores: NDArray[Any], num_tokens: int) -> NDArray[Any]:
    """Returns the ids of the largest scores, largest first; the lowest id wins a tie, NaN and -inf are left out."""
    token_ids = _top_k(scores, num_tokens)
    return token_ids[np.argsort(-scores[token_ids], kind="stable")]


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)


def _draw(scores: Logits, options: GenerationOptions, position: int) -> int:
    """Draws from what temperature, top-k, top-p and min-p leave; candidates stand in the order of their ids."""
    if options.seed is None:
        raise InvalidInputError("Sampling needs a 'seed'; none was given.")
    top = scores[argmax(scores)]
    if np.isinf(top):  # only infinities can win: the lowest of them does
        return argmax(scores)
    token_ids = _top_k(scores, options.top_k) if options.top_k else np.flatnonzero(scores > -np.inf)
    weights = np.exp((scores[token_ids].astype(np.float64) - top) / options.temperature)
    if options.top_p < 1:
        kept = _top_p(weights, options.top_p)
        token_ids, weights = token_ids[kept], weights[kept]
    if options.min_p:
        kept = np.flatnonzero(weights >= options.min_p * weights.max())
        token_ids, weights = token_ids[kept], weights[kept]
    cumulative = np.cumsum(weights)
    drawn = uniform(options.seed, position) * cumulative[-1]  # below the total: no u < 1 rounds up to it
    return int(token_ids[np.searchsorted(cumulative, drawn, side="right")])


def _top_k(scores: NDArray[Any], k: int) -> NDArray[Any]:
    """Returns the ids of the k largest scores, ascending; the lowest ids win a tie at the border. NaN is left out."""
    if k <= 0 or k >= len(scores):
        return np.flatnonzero(scores > -np.inf)[: max(k, 0)]
    scores = np.where(np.isnan(scores), -np.inf, scores)
    border = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > border)
    ties = np.flatnonzero((scores == border) & (scores > -np.inf))[: k - len(above)]
    return np.sort(np.concatenate([above, ties]))


def _top_p(weights: NDArray[np.float64], top_p: float) -> NDArray[Any]:
    """Returns the indices, ascending, of the fewest largest weights that reach the share `top_p`.

    Of equal weights the first are taken. Only values are sorted, which takes a tenth of the time of sorting indices,
    and at first only the largest: a model is mostly sure, a vocabulary large.
    """
    target = top_p * weights.sum()
    largest = _sorted_down(weights, _FIRST_GUESS)
    num_short = int(np.searchsorted(np.cumsum(largest), target))  # of so many the sum is below the target
    if num_short == len(largest) < len(weights):
        largest = _sorted_down(weights, len(weights))
        num_short = int(np.searchsorted(np.cumsum(largest), target))
    num_kept = min(num_short + 1, len(weights))
    border = largest[num_kept - 1]
    is_kept = weights > border
    ties = np.flatnonzero(weights == border)
    is_kept[ties[: num_kept - np.count_nonzero(is_kept)]] = True
    return np.flatnonzero(is_kept)


def _sorted_down(values: NDArray[np.float64], num_values: int) -> NDArray[np.float64]:
    """Returns the largest values, largest first."""
    if num_values < len(values):
        values = np.partition(values, len(values) - num_values)[len(values) - num_values :]
    return np.sort(values)[::-1]


def _as_ids(token_ids: Iterable[int]) -> NDArray[np.intp]:
    return np.array(list(token_ids), np.intp)
