"""What must hold between the states of a suffix automaton, checked from their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from cera_core.errors import PluginError

if TYPE_CHECKING:
    from cera_suffix_automaton.automaton import SuffixAutomaton


def check_integrity(automaton: SuffixAutomaton) -> None:
    """Checks links, transitions and occurrences of every state.

    Raises:
        PluginError: Something does not hold.
    """
    num_states, num_tokens = automaton.num_states, len(automaton)
    if num_states > max(2 * num_tokens, 1):
        _fail(f"{num_tokens} tokens need at most {2 * num_tokens} states, found {num_states}")
    for state in range(1, num_states):
        _check_link(automaton, state)
        _check_ends(automaton, state)
    for state in range(num_states):
        _check_transitions(automaton, state)
    _check_counts(automaton)


def _check_link(automaton: SuffixAutomaton, state: int) -> None:
    link = automaton.link(state)
    if not 0 <= link < automaton.num_states or automaton.length(link) >= automaton.length(state):
        _fail(f"the link of state {state} must lead to shorter strings, found state {link}")


def _check_ends(automaton: SuffixAutomaton, state: int) -> None:
    earliest, latest = automaton.earliest_end(state), automaton.latest_end(state)
    if not automaton.length(state) - 1 <= earliest <= latest < len(automaton):
        _fail(f"the ends of state {state} must lie in order inside the text, found {earliest} and {latest}")
    if automaton.earliest_end(automaton.link(state)) > earliest:
        _fail(f"the suffixes of state {state} must end no later than it does")


def _check_transitions(automaton: SuffixAutomaton, state: int) -> None:
    seen = set()
    for token, target in automaton.transitions(state):
        if token in seen:
            _fail(f"state {state} must have one transition for token {token}, found more")
        seen.add(token)
        if not 0 < target < automaton.num_states or automaton.length(target) <= automaton.length(state):
            _fail(f"token {token} must lead from state {state} to longer strings, found state {target}")


def _check_counts(automaton: SuffixAutomaton) -> None:
    """Checks that a state counts its own end, if it has one, and what the states that link to it passed on."""
    passed_on = [0] * automaton.num_states
    for state in range(1, automaton.num_states):
        if automaton.length(state) == len(automaton):  # the whole text; the next token will note its end
            continue
        passed_on[automaton.link(state)] += automaton.count(state) - automaton.num_unpassed(state)
    for state in range(1, automaton.num_states):
        is_prefix = automaton.earliest_end(state) + 1 == automaton.length(state)
        expected = passed_on[state] + is_prefix
        if automaton.length(state) >= automaton.min_match and automaton.count(state) != expected:
            _fail(f"state {state} must count {expected} occurrences, found {automaton.count(state)}")


def _fail(what: str) -> NoReturn:
    raise PluginError(f"Damaged suffix automaton: {what}. Reset the drafter.")
