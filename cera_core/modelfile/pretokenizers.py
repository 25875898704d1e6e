r"""How byte-level vocabularies cut text into words before pairs are merged: a table from `tokenizer.ggml.pre`.

The names are llama.cpp's (`src/llama-vocab.cpp`, `convert_hf_to_gguf_update.py`); the regexes are the ones in the
`tokenizer.json` the models were published with, where llama.cpp's differ only in spelling. Regexes are applied one
after the other: the matches of each, and the text between them, are what the next one sees.

No normalisation takes place, though some models were published with one (Qwen's with NFC): a GGUF file says nothing of
it, and text must come back as it was.

This module does not know of vocabularies or merging.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """How text is cut, and what else the name in the file stands for.

    Attributes:
        patterns: Regexes in Oniguruma's syntax, in the order they are applied.
        ignores_merges: A word that is itself a token is that token, whatever the merges say.
        adds_bos: Text begins with the beginning-of-sequence token unless the file says otherwise.
    """

    patterns: tuple[str, ...]
    ignores_merges: bool = False
    adds_bos: bool = False


DEFAULT = "default"

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_DIGIT = r"\p{N}"
_UP_TO_3_DIGITS = r"\p{N}{1,3}"

# https://github.com/openai/gpt-2/blob/master/src/encoder.py
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def _characters(code_points: str) -> str:
    """Returns what stands between the brackets of a character class, from ranges of code points in hexadecimal."""
    return "".join(
        "-".join(rf"\x{{{bound}}}" for bound in code_range.split("-")) for code_range in code_points.split(" ")
    )


def _words(number: str) -> str:
    """Returns the regex of GPT-4's family (cl100k_base), which differ in how digits are grouped."""
    return rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"


def _cased_words(number: str, contractions: str) -> str:
    """Returns the regex of GPT-4o's family (o200k_base): a new word begins where capitals follow small letters."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{upper}*{lower}+{contractions}|{start}{upper}+{lower}*{contractions}"
        rf"|{number}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    )


# The letters deepseek-llm-7b keeps together: those with case, but for the Georgian and mathematical ones.
_DEEPSEEK_LETTERS = _characters(
    "41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376-377 37B-37D 37F 386 388-38A 38C 38E-3A1 "
    "3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A "
    "1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 "
    "1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 "
    "212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183-2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2-2CF3 A640-A66D "
    "A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F "
    "104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943"
)
_DEEPSEEK_PUNCTUATION = _characters("21-2F 3A-7E FF01-FF0F FF1A-FF5E 2018-201F 3000-3002")
_DEEPSEEK_IDEOGRAPHS = rf"[{_characters('4E00-9FA5 800-4E00 AC00-D7FF')}]+"
_IDEOGRAPHS_AND_KANA = rf"[{_characters('4E00-9FA5 3040-309F 30A0-30FF')}]+"
_DEEPSEEK_V3_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
_BLOOM = rf" ?[^(\s|.,!?{_characters('2026 3002 FF0C 3001 964 6D4 60C')})]+"

_GROUPS: tuple[tuple[str, Pretokenizer], ...] = (
    (
        "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        Pretokenizer((_words(_UP_TO_3_DIGITS),), ignores_merges=True, adds_bos=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe glm4", Pretokenizer((_words(_UP_TO_3_DIGITS),))),
    ("qwen2 deepseek-r1-qwen megrez kormo stablelm2 hunyuan grok-2 solar-open", Pretokenizer((_words(_DIGIT),))),
    (
        "qwen35",
        Pretokenizer(
            (
                rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
                rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}",
            )
        ),
    ),
    ("gpt-2 phi-2 mpt olmo jais gigachat a.x-4.0 mellum exaone4 trillion granite-docling", Pretokenizer((_GPT2,))),
    (
        "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2",
        Pretokenizer((_DIGIT, _GPT2)),
    ),
    (
        "deepseek-llm",
        Pretokenizer(
            (
                r"[\r\n]",
                rf"\s?[{_DEEPSEEK_LETTERS}]+",
                rf"\s?[{_DEEPSEEK_PUNCTUATION}]+",
                r"\s+$",
                _DEEPSEEK_IDEOGRAPHS,
                r"\p{N}+",
            )
        ),
    ),
    ("deepseek-coder", Pretokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_IDEOGRAPHS, _DIGIT))),
    ("deepseek-v3 hunyuan-dense", Pretokenizer((_UP_TO_3_DIGITS, _IDEOGRAPHS_AND_KANA, _DEEPSEEK_V3_WORDS))),
    ("falcon", Pretokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]"))),
    ("gpt-4o llama4 kanana2", Pretokenizer((_cased_words(_UP_TO_3_DIGITS, f"{_CONTRACTIONS}?"),))),
    ("tekken", Pretokenizer((_cased_words(_DIGIT, ""),), ignores_merges=True, adds_bos=True)),
    (
        "seed-coder",
        Pretokenizer(
            (rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}",)
        ),
    ),
    (
        "bailingmoe bailingmoe2 llada-moe",
        Pretokenizer(
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
                r"|\s*[\r\n]|\s+(?!\S)|\s+",
            )
        ),
    ),
    ("bloom poro-chat gpt3-finnish", Pretokenizer((_BLOOM,))),
    ("viking", Pretokenizer((_BLOOM, _DIGIT))),
    (DEFAULT, Pretokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
)

PRETOKENIZERS: Mapping[str, Pretokenizer] = {
    name: pretokenizer for names, pretokenizer in _GROUPS for name in names.split(" ")
}
"""What each value of `tokenizer.ggml.pre` stands for."""
