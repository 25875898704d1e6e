"""Whether a cost grows with the length of the history; compares the machine with itself, so load matters little."""

import time

from cera_core.speculation.history import History


def seconds_step_by_step(drafter, tokens, max_k=8):
    """Returns the processor time of drafting after each token of a session."""
    history = History()
    began = time.process_time()
    for token_id in tokens:
        history.append(token_id)
        drafter.draft(history.view(), max_k)
    return time.process_time() - began


def growth(make, text, short=1_500, long=12_000, repeats=2):
    """Returns how much dearer a token is at `long` tokens than at `short`; 8 would be quadratic."""

    def per_token(length):
        return min(seconds_step_by_step(make(), text(length)) for _ in range(repeats)) / length

    return per_token(long) / per_token(short)


def constant_run(length):
    return [7] * length


def broken_run(length):
    return [7] * (length // 2) + [8] + [7] * (length - length // 2 - 1)


def periodic(length):
    return ([1, 2, 3, 4, 2] * length)[:length]
