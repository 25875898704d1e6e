"""A suffix automaton over tokens that grows at its end, and knows where and how often its strings occurred.

The automaton is that of Blumer, Blumer, Haussler, Ehrenfeucht, Chen and Seiferas, "The smallest automaton recognizing
the subwords of a text" (Theoretical Computer Science 40, 1985): a state stands for all substrings that end at the same
positions; its link leads to the state of the longest suffix of those that ends at more positions. Hence the link of the
state of the whole text is the longest suffix that occurred before, and the text never matches itself.

It knows nothing of drafts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from sys import getsizeof

from cera_suffix_automaton.integrity import check_integrity

ROOT = 0
NO_STATE = 0  # as the target of a transition: none leads to the root
STATE_BITS = 32
BYTES_PER_TRANSITION = 70  # in a dictionary, past the first few


class SuffixAutomaton:
    """The substrings of a text, with the number of their occurrences, and the earliest and the latest.

    To add a token costs amortised constant time. Most states have one transition, held in arrays; the others have a
    dictionary for the rest.

    To note that a string occurred again is to note it for each of its suffixes, which on a long run of one token are
    as many as the run is long. So an occurrence is noted for the longest match only, and is passed on, one link after
    another, when `settle` needs it for shorter ones; what has come together in a state is passed on in one go. That is
    about two steps a token on runs, periods and text, though no bound is proven (docs/explanation/drafters.md).

    Args:
        min_match: Occurrences of shorter strings are not counted, which saves most of the work.
    """

    def __init__(self, min_match: int = 1) -> None:
        self.min_match = max(min_match, 1)
        self._num_tokens = 0
        self._last = ROOT  # the state of the whole text
        self._num_states = 0  # those that are there; the columns have room for more
        self._columns = [array("i") for _ in range(8)]
        (
            self._lengths,  # of the longest string of a state
            self._links,
            self._first_tokens,
            self._first_targets,
            self._earliest_ends,
            self._latest_ends,
            self._counts,
            self._unpassed,  # occurrences the state counts and its link does not yet
        ) = self._columns
        self._more_transitions: dict[int, dict[int, int]] = {}
        self._num_more_transitions = 0
        self._unpassed_states: list[int] = []  # a heap of the states with such occurrences, longest strings first
        self._add_state(0, -1, -1, 0)
        self._links[ROOT] = -1

    def __len__(self) -> int:
        """Returns the number of tokens."""
        return self._num_tokens

    @property
    def num_states(self) -> int:
        """Number of states, at most twice that of tokens."""
        return self._num_states

    @property
    def longest_match(self) -> int:
        """The state of the longest suffix of the text that occurred before; the root if none."""
        return max(self._links[self._last], ROOT)

    def extend(self, tokens: Iterable[int]) -> None:
        """Adds tokens at the end."""
        for token in tokens:
            match = self._links[self._last]
            if match > ROOT:
                self._note_occurrence(match, 1, self._num_tokens - 1)
            self._append(token)

    def _append(self, token: int) -> None:
        """Adds one token: Blumer et al.'s construction."""
        first_targets, first_tokens, links = self._first_targets, self._first_tokens, self._links
        state = self._last
        end = self._num_tokens
        new = self._add_state(end + 1, end, end, 1)
        while state >= 0:
            target = first_targets[state]
            if target == NO_STATE:
                first_tokens[state] = token
                first_targets[state] = new
            elif first_tokens[state] == token:
                break
            else:
                more = self._more_transitions.setdefault(state, {})
                target = more.setdefault(token, new)
                if target != new:
                    break
                self._num_more_transitions += 1
            state = links[state]
        if state < 0:
            links[new] = ROOT
        elif self._lengths[target] == self._lengths[state] + 1:
            links[new] = target
        else:
            links[new] = self._split(target, state, token)
        self._last = new
        self._num_tokens = end + 1

    def _split(self, target: int, state: int, token: int) -> int:
        """Gives those strings of `target` that are no longer than `state`'s with `token` added a state of their own."""
        clone = self._add_state(
            self._lengths[state] + 1,
            self._earliest_ends[target],
            self._latest_ends[target],
            self._counts[target] - self._unpassed[target],
        )
        self._links[clone] = self._links[target]
        self._links[target] = clone
        self._first_tokens[clone] = self._first_tokens[target]
        self._first_targets[clone] = self._first_targets[target]
        if target in self._more_transitions:
            more = self._more_transitions[clone] = self._more_transitions[target].copy()
            self._num_more_transitions += len(more)
        while state >= 0 and self._redirect(state, token, target, clone):
            state = self._links[state]
        return clone

    def _redirect(self, state: int, token: int, target: int, clone: int) -> bool:
        """Makes the transition of `state` lead to `clone` if it leads to `target`; returns whether it did."""
        if self._first_tokens[state] == token:  # some transition there is, so this is the first
            if self._first_targets[state] != target:
                return False
            self._first_targets[state] = clone
            return True
        more = self._more_transitions[state]
        if more[token] != target:
            return False
        more[token] = clone
        return True

    def _add_state(self, length: int, earliest_end: int, latest_end: int, count: int) -> int:
        """Adds a state without link and transitions."""
        state = self._num_states
        if state == len(self._lengths):
            for column in self._columns:
                column.extend(array("i", bytes(4 * max(state, 16))))
        self._lengths[state] = length
        self._earliest_ends[state] = earliest_end
        self._latest_ends[state] = latest_end
        self._counts[state] = count
        self._num_states = state + 1
        return state

    def _note_occurrence(self, state: int, count: int, latest_end: int) -> None:
        """Counts occurrences for a state, to be passed on to its link later."""
        length = self._lengths[state]
        if length < self.min_match:
            return
        if not self._unpassed[state]:
            heappush(self._unpassed_states, (-length << STATE_BITS) | state)
        self._unpassed[state] += count
        self._counts[state] += count
        self._latest_ends[state] = max(self._latest_ends[state], latest_end)

    def settle(self, length: int) -> None:
        """Makes `count` and `latest_end` right for strings of at least `length` tokens."""
        heap = self._unpassed_states
        least = -length << STATE_BITS
        while heap and heap[0] < least:
            state = heappop(heap) & ((1 << STATE_BITS) - 1)
            count, self._unpassed[state] = self._unpassed[state], 0
            self._note_occurrence(self._links[state], count, self._latest_ends[state])

    def length(self, state: int) -> int:
        """Returns the length of the longest string of a state."""
        return self._lengths[state]

    def link(self, state: int) -> int:
        """Returns the state of the longest suffix that ends at more positions; -1 for the root."""
        return self._links[state]

    def count(self, state: int) -> int:
        """Returns how often the strings of a state occurred, up to the last token but one; `settle` first."""
        return self._counts[state]

    def latest_end(self, state: int) -> int:
        """Returns the position at which they ended last, up to the last token but one; `settle` first."""
        return self._latest_ends[state]

    def num_unpassed(self, state: int) -> int:
        """Returns how many of them the state's link does not count yet."""
        return self._unpassed[state]

    def earliest_end(self, state: int) -> int:
        """Returns the position at which they ended first."""
        return self._earliest_ends[state]

    def step(self, state: int, token: int) -> int:
        """Returns the state of the strings of `state` with `token` added, or `NO_STATE`."""
        if self._first_targets[state] and self._first_tokens[state] == token:
            return self._first_targets[state]
        return self._more_transitions.get(state, {}).get(token, NO_STATE)

    def transitions(self, state: int) -> Iterator[tuple[int, int]]:
        """Yields the tokens that followed and the states they lead to, in the order of their first occurrence."""
        if self._first_targets[state]:
            yield self._first_tokens[state], self._first_targets[state]
        yield from self._more_transitions.get(state, {}).items()

    def memory_bytes(self) -> int:
        """Returns about the size in bytes, in constant time: the dictionaries' share is an estimate."""
        columns = sum(getsizeof(column) for column in self._columns)
        heap = getsizeof(self._unpassed_states) + len(self._unpassed_states) * getsizeof(1 << STATE_BITS)
        dictionaries = getsizeof(self._more_transitions) + len(self._more_transitions) * getsizeof({0: 0})
        return columns + heap + dictionaries + self._num_more_transitions * BYTES_PER_TRANSITION

    def check_integrity(self) -> None:
        """Checks what must hold between states, in time linear in their number.

        Raises:
            PluginError: Something does not hold.
        """
        check_integrity(self)
