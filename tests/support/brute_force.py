"""What a drafter that looks for the longest earlier match must answer, by plain search."""


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


def continuation(text, ends, occurrence, max_k):
    """Returns what follows one of the occurrences that end at `ends`; a negative token ends it."""
    if occurrence == "most-frequent":
        return most_frequent(text, ends, max_k)
    end = max(ends) if occurrence == "most-recent" else min(ends)
    draft = text[end + 1 : end + 1 + max_k]
    return draft[: next((place for place, token in enumerate(draft) if token < 0), len(draft))]


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
