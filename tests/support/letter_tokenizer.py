"""A tokenizer with a token for each character, and a drafter context that has it."""

from cera_core.specs import DrafterContext


class LetterTokenizer:
    vocab_size = 1000
    fingerprint = "letters"

    def encode(self, text, add_special=True, parse_special=False):
        assert not add_special
        assert not parse_special
        return [ord(letter) for letter in text]

    def decode(self, token_ids):
        return "".join(map(chr, token_ids))


CONTEXT = DrafterContext(tokenizer=LetterTokenizer(), vocab_size=1000, tokenizer_fingerprint="letters")


def letters(text):
    return [ord(letter) for letter in text]


def drafted_text(drafter, text, max_k=8):
    """Returns, as text, what a drafter drafts after `text`."""
    return CONTEXT.tokenizer.decode(drafter.draft(letters(text), max_k).token_ids)
