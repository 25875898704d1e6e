"""What a drafter that looks for the longest earlier match must answer, by plain search."""

from itertools import cycle, islice

from cera_core.drafting.confidence import copy_confidence, num_worth_drafting


def ends_of(pattern, text):
    """Returns the positions at which `pattern` ends in `text`."""
    size = len(pattern)
    return [end for end in range(size - 1, len(text)) if text[end - size + 1 : end + 1] == pattern]


def longest_match(tokens, text=None):
    """Returns length and ends of the longest suffix of `tokens` that occurs in `text`, or earlier in `tokens`."""
    for size in range(len(tokens), 0, -1):
        suffix = tokens[-size:]
        ends = ends_of(suffix, tokens[:-1] if text is None else text)
        if ends:
            return size, ends
    return 0, []


def continuation(text, ends, occurrence, max_k, size):
    """Returns what follows one of the occurrences of `size` tokens that end at `ends`, as far as it is worth drafting.

    A negative token ends a part of the text, and its end is where the copy begins again.
    """
    max_k = min(max_k, size + 1)
    if occurrence == "most-frequent":
        draft = most_frequent(text, ends, max_k)
    else:
        end = max(ends) if occurrence == "most-recent" else min(ends)
        rest = text[end + 1 :]
        place = next((place for place, token in enumerate(rest) if token < 0), None)
        draft = list(islice(cycle(rest) if place is None else rest[:place], max_k))
    return draft[: num_worth_drafting(confidences(text, ends, draft, size))]


def confidences(text, ends, draft, size):
    """Returns how sure each token is; an occurrence that ends with the text counts only where it is the only one."""
    result = []
    count = len(ends)
    for match_length, token in enumerate(draft, start=size):
        ends = [end + 1 for end in ends if end + 1 < len(text) and text[end + 1] == token]
        agreeing = len([end for end in ends if end < len(text) - 1]) or 1
        result.append(copy_confidence(match_length, agreeing / count, count))
        count = agreeing
    return result


def most_frequent(text, ends, max_k):
    """Returns the continuation that, token by token, followed most often; on ties the one that came first."""
    draft = []
    while len(draft) < max_k:
        following = [end + 1 for end in ends if end + 1 < len(text) and text[end + 1] >= 0]
        if not following:
            break
        counts = {}
        for end in following:  # in order, so the first seen comes first
            counts.setdefault(text[end], []).append(end)
        token = max(counts, key=lambda token: len(counts[token]))
        draft.append(token)
        ends = counts[token]
    return draft
