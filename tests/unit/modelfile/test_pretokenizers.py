from __future__ import annotations

import pytest
from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

from cera_core.modelfile.pretokenizers import PRETOKENIZERS


def words(name: str, text: str) -> list[str]:
    splits = Sequence([Split(Regex(pattern), "isolated") for pattern in PRETOKENIZERS[name].patterns])
    return [word for word, _ in splits.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", PRETOKENIZERS)
def test_cutting_loses_nothing(name: str) -> None:
    text = "I'LL pay $1234.50,\n\n  d'accord? «Ça» 日本語が\t \r\nPARSEJson 🙂 e\u0301 \u3000x"
    assert "".join(words(name, text)) == text


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("gpt-2", "It's 2024,  ok", ["It", "'s", " 2024", ",", " ", " ok"]),
        ("gpt-2", "IT'S", ["IT", "'", "S"]),
        ("smollm", "It's 2024", ["It", "'s", " ", "2", "0", "2", "4"]),
        ("qwen2", "IT'S 2024\n\nx", ["IT", "'S", " ", "2", "0", "2", "4", "\n\n", "x"]),
        ("llama-bpe", "12345 (x", ["123", "45", " (", "x"]),
        ("qwen35", "क्षे", ["क्षे"]),
        ("qwen2", "क्षे", ["क", "्ष", "े"]),
        ("gpt-4o", "parseJSONValue's", ["parse", "JSONValue's"]),
        ("gpt-4o", "!\n/", ["!\n/"]),
        ("qwen2", "!\n/", ["!\n", "/"]),
        ("tekken", "fooBar 123", ["foo", "Bar", " ", "1", "2", "3"]),
        ("deepseek-coder", "x =12\n", ["x", " =", "1", "2", "\n"]),
        ("deepseek-llm", "Ωμ va 123", ["Ωμ", " va", " ", "123"]),
        ("deepseek-v3", ".map 日本", [".map", " ", "日本"]),
        ("falcon", "a+=12345", ["a", "+=", "123", "45"]),
        ("bloom", "one, two", ["one", ",", " two"]),
        ("default", "a+b", ["a", "+", "b"]),
    ],
)
def test_where_text_is_cut(name: str, text: str, expected: list[str]) -> None:
    assert words(name, text) == expected


def test_only_some_ignore_merges_or_begin_with_bos() -> None:
    assert PRETOKENIZERS["llama-bpe"].ignores_merges
    assert PRETOKENIZERS["llama-bpe"].adds_bos
    assert not PRETOKENIZERS["qwen2"].ignores_merges
    assert not PRETOKENIZERS["smollm"].adds_bos
