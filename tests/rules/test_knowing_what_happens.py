"""Rules 25 to 31: whoever drafts is chosen, counted, named and told apart."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core.cli.main import main
from cera_core.discovery import discover
from cera_core.drafting.auto import AutoDrafter
from cera_core.drafting.guard import MANY_SILENT_ROUNDS, GuardedDrafter
from cera_core.errors import UnknownNameError
from cera_core.request import _say_once
from cera_core.testing.drafters import BrokenDrafter, OracleDrafter, RandomDrafter
from cera_core.testing.fakes import ScriptedModel, TableModel
from support.plugin_package import install_plugin
from support.rounds import RoundLog
from support.sessions import PROMPT, plain, session_of
from support.simulated_time import Clock, TimedDrafter, TimedModel
from support.spelling import SpellingTokenizer
from support.tiny_gguf import write_tiny_gguf

TEXT = plain(max_tokens=60).token_ids
FIXED: dict[str, Any] = {"adaptive": False, "max_tokens": 30}


def oracle(wrong_every: int = 0) -> OracleDrafter:
    return OracleDrafter([*PROMPT, *TEXT, *TEXT, *TEXT], 16, wrong_every)


def test_rule_25_each_request_says_whether_which_and_how_much_without_reloading() -> None:
    made: list[str] = []

    def make(name: str) -> RandomDrafter:
        made.append(name)
        return RandomDrafter(16)

    model = TableModel(max_seq_len=512)
    session = session_of(model=model, drafter="default", make_drafter=make)
    choices: list[dict[str, Any]] = [{}, {"drafter": "other"}, {"drafter": RandomDrafter(16)}, {"drafter": None}]
    choices += [{"drafter": "none"}, {}]
    found = [list(session.generate(**choice, **FIXED).stats.drafters) for choice in choices]
    assert found == [["default"], ["other"], ["RandomDrafter"], [], [], ["default"]]
    assert made == ["default", "other"]
    for max_draft_tokens in (3, 1, 0, 7):
        model.forward_sizes.clear()
        session.generate(drafter=BrokenDrafter(lambda _, k: [0] * k), max_draft_tokens=max_draft_tokens, **FIXED)
        assert max(model.forward_sizes) == 1 + max_draft_tokens
    assert session.token_ids == [*PROMPT, *plain(model=TableModel(max_seq_len=512), max_tokens=300).token_ids]


def test_rule_26_counters_of_a_request_are_exact_and_neither_bonus_nor_padding_is_a_draft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right thrice, so a bonus follows; right once of two, so a correction follows; then no guess."""
    clock = Clock()
    clock.replace_everywhere(monkeypatch)
    script = list(range(10, 42))
    answers = {33: script[1:4], 37: [script[5], 0]}
    model = TimedModel(script * 2, clock, float, 64)
    log = RoundLog()
    session = session_of(script, model=model, observers=log.observers)
    guess = BrokenDrafter(lambda tokens, max_k: answers.get(len(tokens), [])[:max_k])
    stats = session.generate(drafter=TimedDrafter(guess, clock, 0.25), adaptive=False, max_tokens=8).stats
    assert (stats.num_prompt_tokens, stats.num_emitted) == (32, 8)
    assert (stats.num_rounds, stats.num_plain_steps) == (2, 2)
    assert (stats.num_drafted, stats.num_accepted, stats.num_emitted_by_rounds) == (5, 4, 6)
    assert stats.skip_reasons == {"the drafter had no guess": 1, "the text ended": 1}
    assert (stats.acceptance_rate, stats.mean_acceptance_length) == (4 / 5, 6 / 2)
    assert (stats.draft_seconds, stats.verify_seconds, stats.plain_seconds) == (0.75, 4 + 3, 2)
    assert stats.total_seconds == 0.75 + 7 + 2
    (counts,) = stats.drafters.values()
    assert (counts.num_drafts, counts.num_drafted, counts.num_accepted) == (2, 5, 4)
    assert (counts.drafted_by_position, counts.accepted_by_position) == ([2, 2, 1], [2, 1, 1])
    assert [(each.num_drafted, each.num_accepted, each.skip_reason) for each in log.rounds] == [
        (3, 3, None),
        (2, 1, None),
        (0, 0, "the drafter had no guess"),
        (0, 0, "the text ended"),
    ]
    assert [(each.draft_seconds, each.verify_seconds) for each in log.rounds] == [
        (0.25, 4),
        (0.25, 3),
        (0.25, 1),
        (0, 1),
    ]
    assert log.generations[0].stats is stats
    assert json.loads(json.dumps(stats.as_dict()))["num_accepted"] == 4


def test_rule_26_counters_begin_anew_with_each_request() -> None:
    session = session_of(drafter=oracle(wrong_every=7))
    for _ in range(2):
        stats = session.generate(**FIXED).stats
        assert stats.num_emitted == 30 == stats.num_plain_steps + stats.num_emitted_by_rounds
        assert stats.num_rounds == stats.num_emitted_by_rounds - stats.num_accepted
        assert sum(stats.skip_reasons.values()) == stats.num_plain_steps


def test_rule_27_a_drafter_that_proposed_nothing_in_many_rounds_is_said_out_loud_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = session_of(model=TableModel(max_seq_len=2000), drafter=BrokenDrafter(lambda tokens, max_k: []))
    with caplog.at_level(logging.WARNING, "cera"):
        stats = session.generate(max_tokens=MANY_SILENT_ROUNDS).stats
        assert caplog.messages == []
        session.generate(max_tokens=3 * MANY_SILENT_ROUNDS)
    (message,) = caplog.messages
    assert message.startswith("The drafter 'BrokenDrafter' had no guess in 256 rounds")
    assert stats.drafters["BrokenDrafter"].num_drafted == 0
    assert stats.skip_reasons["the drafter had no guess"] == MANY_SILENT_ROUNDS - 1


def test_rule_27_an_option_that_had_no_effect_is_said_out_loud_once(caplog: pytest.LogCaptureFixture) -> None:
    _say_once.cache_clear()
    with caplog.at_level(logging.WARNING, "cera"):
        for _ in range(2):
            session_of().generate(max_tokens=1, seed=4, min_p=0.1, max_draft_tokens=4)
    assert sorted(caplog.messages) == [
        "'max_draft_tokens' has no effect without a drafter.",
        "'min_p' has no effect at temperature 0, which is greedy.",
        "'seed' has no effect at temperature 0, which is greedy.",
    ]


@pytest.mark.parametrize("drafts", [True, False])
def test_rule_28_a_stream_yields_one_event_for_each_token_with_its_origin_and_not_a_burst(drafts: bool) -> None:
    """Each token is out before the next is committed; those of one accepted run too."""
    session = session_of(make_drafter=lambda name: oracle(wrong_every=5))
    seen = []
    stream = session.stream(drafter="named" if drafts else None, max_draft_tokens=4, **FIXED)
    for place, token in enumerate(stream, start=1):
        assert session.position == len(PROMPT) + place
        seen.append(token)
    assert [token.token_id for token in seen] == TEXT[:30]
    assert {(token.from_draft, token.drafter) for token in seen} == (
        {(True, "named"), (False, None)} if drafts else {(False, None)}
    )
    assert sum(token.from_draft for token in seen) == stream.generation.stats.num_accepted


LETTERS = SpellingTokenizer([*"abcdefghijklmnopqrstuvwxyz ."])


def test_rule_29_a_text_the_answer_will_resemble_is_drafted_from_also_behind_a_local_difference() -> None:
    answer = "the keeper found a letter. it was old and wet. he dried it by the lamp and read it aloud."
    prediction = answer.replace("old and wet", "new but torn").replace("lamp", "big fire")
    prompt = "write. "
    script = [*LETTERS.encode(prompt), *LETTERS.encode(answer)]

    def generated(**sources: Any) -> Any:
        session = session_of([], model=ScriptedModel(script, 28), tokenizer=LETTERS)
        session.append(prompt)
        return session.generate(max_tokens=len(answer), adaptive=False, max_draft_tokens=5, **sources)

    found = generated(prediction=prediction)
    assert found.text == generated().text == answer
    assert found.stats.drafters["prediction"].num_accepted > 0.6 * len(answer)
    behind = [place for place, token in enumerate(found.token_ids) if place > answer.index("lamp") + 8]
    log = RoundLog()
    session = session_of([], model=ScriptedModel(script, 28), tokenizer=LETTERS, observers=log.observers)
    session.append(prompt)
    session.generate(max_tokens=len(answer), prediction=prediction, adaptive=False, max_draft_tokens=5)
    accepted_behind = sum(
        each.num_accepted for each in log.rounds if each.position - len(LETTERS.encode(prompt)) >= behind[0]
    )
    assert accepted_behind > 0.6 * len(behind)


def test_rule_30_several_drafters_work_together_and_each_accepted_token_names_its_own() -> None:
    record = [3, 1, 4, 1, 5, 9, 2, 6]
    phrase = [7, 7, 8, 10, 11, 12, 13, 14]
    novel = [15, 0, 15, 2, 15, 4, 15, 6]
    script = [*record, *record, *phrase, *novel, *record, *phrase, *novel, *novel]
    members = {
        "lookup": cera_core.create_drafter("prompt-lookup"),
        "phrases": cera_core.create_drafter("aho-corasick", phrases=[phrase]),
    }
    combined = AutoDrafter([GuardedDrafter(name, member, 16) for name, member in members.items()])
    log = RoundLog()
    session = session_of(script[:16], model=ScriptedModel(script, 16), observers=log.observers)
    stream = session.stream(
        drafter=combined, prediction=novel, adaptive=False, max_draft_tokens=5, max_tokens=len(script) - 16
    )
    tokens = list(stream)
    stats = stream.generation.stats
    by_drafter = Counter(token.drafter for token in tokens if token.from_draft)
    assert set(by_drafter) == {"lookup", "phrases", "prediction"}
    assert {name: counts.num_accepted for name, counts in stats.drafters.items() if counts.num_accepted} == by_drafter
    assert sum(counts.num_drafted for counts in stats.drafters.values()) == stats.num_drafted
    in_rounds: Counter[str | None] = Counter()
    for each in log.rounds:
        in_rounds[each.drafter] += each.num_accepted
    assert +in_rounds == by_drafter


PLUGIN = """
from cera_core.drafter import Draft, Drafter
from cera_core.hookspecs import hookimpl
from cera_core.specs import DrafterSpec, ModelSpec

class Pond(Drafter):
    def draft(self, tokens, max_k):
        return Draft([tokens[-1]] * max_k)
    def clone(self):
        return Pond()

@hookimpl
def cera_register_drafters(register):
    register(DrafterSpec(name="pond-skater", summary="Skates.", create=lambda options, context: Pond()))

@hookimpl
def cera_register_models(register):
    register(ModelSpec(name="pond-engine", summary="Bubbles.", load=lambda file, options: None,
                       availability=lambda: "dried up"))
"""


@pytest.fixture
def plugin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    install_plugin(tmp_path, "pond", PLUGIN)
    return tmp_path


def completed(folder: Path, words: str) -> set[str]:
    """Returns what a shell offers after some words."""
    environment = {"_CERA_COMPLETE": "complete_bash", "COMP_WORDS": f"{words} ", "COMP_CWORD": str(len(words.split()))}
    process = subprocess.run(
        [sys.executable, "-m", "cera_core.cli.main"],
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return set(process.stdout.split())


def test_rule_31_names_of_plugins_are_choices_on_the_command_line_from_the_registry_alone(plugin_folder: Path) -> None:
    plugins = discover()
    drafters, backends = completed(plugin_folder, "cera run --drafter"), completed(plugin_folder, "cera run --backend")
    assert drafters == {*plugins.drafters, "auto", "none"}
    assert backends == {*plugins.backends, "auto"}
    assert "pond-skater" in drafters
    assert "pond-engine" in backends


def test_rule_31_names_of_plugins_are_in_errors_as_near_matches(
    plugin_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'pond-skater'\?"):
        cera_core.create_drafter("pond_skator")
    path = write_tiny_gguf(plugin_folder / "tiny.gguf")
    assert main(["run", "--model", str(path), "--drafter", "pond-skaters", "hello"]) != 0
    assert "Did you mean 'pond-skater'?" in " ".join(capsys.readouterr().err.split())
    assert main(["run", "--model", str(path), "--backend", "pond-engin", "hello"]) != 0
    assert "Did you mean 'pond-engine'?" in " ".join(capsys.readouterr().err.split())


def test_rule_31_names_of_plugins_are_in_the_listing(plugin_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "--json"]) == 0
    listing = capsys.readouterr().out
    for name in ("pond-skater", "pond-engine", "dried up", *discover().drafters, *discover().backends):
        assert name in listing
