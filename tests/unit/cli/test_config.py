"""`cera config` shows what is in force and why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cera_core.generation_options import GenerationOptions


def rows(text: str) -> dict[str, list[str]]:
    return {name: rest for name, *rest in (line.split(None, 2) for line in text.splitlines())}


def test_each_setting_is_shown_with_value_and_origin(cera: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("cera.toml").write_text("[generation]\nseed = 7\n[backends.numpy]\nexact = true")
    monkeypatch.setenv("CERA_BACKEND", "numpy")
    shown = rows(cera("config", "--max-tokens", "5", "--no-adaptive").out)
    assert shown["generation.seed"] == ["7", f"{Path.cwd() / 'cera.toml'}, line 2"]
    assert shown["backends.numpy.exact"] == ["true", f"{Path.cwd() / 'cera.toml'}, line 4"]
    assert shown["backend"] == ["numpy", "environment variable CERA_BACKEND"]
    assert shown["generation.max_tokens"] == ["5", "--max-tokens"]
    assert shown["generation.adaptive"][0] == "false"
    assert shown["drafter"] == ["auto", "default"]
    assert shown["context_length"] == ["none", "default"]


def test_every_generation_option_is_a_flag_with_its_description(cera: Callable[..., Any]) -> None:
    text = " ".join(cera("config", "--help").out.split())
    for name, field in GenerationOptions.model_fields.items():
        assert f"--{name.replace('_', '-')} " in text
        assert field.description in text


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        (["--stop", "a", "--stop", "b,c"], "generation.stop", ["a", "b,c"]),
        (["--stop-token-ids", "1,2"], "generation.stop_token_ids", [1, 2]),
        (["--logit-bias", "5=-inf,6=1"], "generation.logit_bias", {"5": "-Infinity", "6": 1.0}),
        (["--seed", "none"], "generation.seed", None),
        (["--ignore-eos"], "generation.ignore_eos", True),
        (["--temperature", "0.5"], "generation.temperature", 0.5),
        (["-m", "x.gguf"], "model", "x.gguf"),
        (["--context-length", "64"], "context_length", 64),
        (["--backend", "numpy", "--backend-option", "exact=true"], "backend_options.exact", "true"),
        (
            ["--drafter", "aho-corasick", "--drafter-option", "files=['a', 'b']"],
            "drafter_options.files",
            ["a", "b"],
        ),
    ],
)
def test_flags_reach_the_settings(cera: Callable[..., Any], flags: list[str], name: str, value: object) -> None:
    shown = {row["name"]: row for row in json.loads(cera("config", "--json", *flags).out)}
    assert shown[name]["value"] == value
    assert shown[name]["origin"].startswith("--")


def test_option_without_a_value_is_refused(cera: Callable[..., Any]) -> None:
    outcome = cera("config", "--backend-option", "exact")
    assert (outcome.status, outcome.err) == (2, "Error: --backend-option must be KEY=VALUE, but is 'exact'.\n")


def test_wrong_value_names_the_flag(cera: Callable[..., Any]) -> None:
    outcome = cera("config", "--top-p", "2")
    assert (outcome.status, outcome.out) == (2, "")
    assert "'generation.top_p' of the settings must be less than or equal to 1, but is '2' (--top-p)." in outcome.err


def test_option_given_twice_is_refused(cera: Callable[..., Any]) -> None:
    outcome = cera("config", "--drafter-option", "files=a", "--drafter-option", "files=b")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--drafter-option must give each KEY once, but 'files' is there twice." in outcome.err


@pytest.mark.parametrize(
    ("toml", "flags", "complaint"),
    [
        (
            "drafter = 'prompt-lookup'\n[drafters.prompt-lookup]\nngram_mx = 4",
            [],
            "'ngram_mx' is not an option of drafter 'prompt-lookup'. Did you mean 'ngram_max'?",
        ),
        ("[drafters.prompt-lookup]\nngram_max = 'x'", [], "'ngram_max' of drafter 'prompt-lookup' must be a valid"),
        ("[drafters.auto]\nprefer = 'x'", [], "'prefer' of drafter 'auto' must be 'best'"),
        ("[backends.auto]\nthread = 1", ["--backend", "numpy"], None),
        ("backend = 'numpy'\n[backends.numpy]\nexact = 3", [], "'exact' of backend 'numpy' must be true or false"),
        ("", ["--backend", "numpy", "--backend-option", "exat=1"], "'exat' is not an option of backend 'numpy'."),
        ("", ["--drafter-option", "drafters=none"], "'drafters' of drafter 'auto' takes drafters to combine"),
        ("drafter = 'nobody'", [], "There is no drafter named 'nobody'."),
    ],
)
def test_what_a_run_would_refuse_of_a_plugins_options_is_said_after_the_settings(
    cera: Callable[..., Any], toml: str, flags: list[str], complaint: str | None
) -> None:
    Path("cera.toml").write_text(toml)
    outcome = cera("config", *flags)
    assert rows(outcome.out)["drafter"]
    assert outcome.status == (2 if complaint else 0)
    assert complaint is None or complaint in outcome.err
