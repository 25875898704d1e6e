"""From a name to something that answers, on a small seeded model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core import Draft, Drafter, Engine
from cera_core.drafting.auto import AutoDrafter
from cera_core.errors import (
    CeraWarning,
    ConfigError,
    ContextFullError,
    InvalidInputError,
    MissingModelError,
    ModelFileError,
    PluginError,
    UnknownNameError,
)
from support.tiny_gguf import write_tiny_gguf

PROMPT = "the text of the model and the text of the draft and the text of"
MESSAGES = [{"role": "user", "content": "return the value"}]


class FixedDrafter(Drafter):
    """Guesses the same token for ever."""

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        return Draft([7] * max_k)

    def clone(self) -> FixedDrafter:
        return FixedDrafter()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf", seed=2)


@pytest.fixture(scope="module")
def engine(tiny: Path) -> Engine:
    return cera_core.load(tiny, backend="numpy", backend_options={"exact": True}, max_tokens=24, ignore_eos=True)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_settings(folder: Path, text: str) -> Path:
    file = folder / "cera.toml"
    file.write_text(text)
    return file


class TestLoad:
    def test_a_path_as_text_or_object(self, tiny: Path) -> None:
        assert cera_core.load(str(tiny)).model.config.vocab_size == cera_core.load(tiny).model.config.vocab_size == 320

    def test_the_defaults_combine_drafters(self, engine: Engine) -> None:
        assert isinstance(engine.drafter, AutoDrafter)
        assert engine.config.drafter == "auto"

    def test_a_drafter_by_name_with_options(self, tiny: Path) -> None:
        engine = cera_core.load(tiny, drafter="prompt-lookup", drafter_options={"ngram_max": 5})
        assert type(engine.drafter) is type(cera_core.create_drafter("prompt-lookup"))
        assert engine.config.drafters == {"prompt-lookup": {"ngram_max": 5}}

    def test_a_drafter_as_object(self, tiny: Path) -> None:
        drafter = FixedDrafter()
        engine = cera_core.load(tiny, drafter=drafter)
        assert engine.drafter is drafter
        stats = engine.generate(PROMPT, adaptive=False, max_tokens=8, ignore_eos=True).stats
        assert list(stats.drafters) == ["FixedDrafter"]

    @pytest.mark.parametrize("drafter", [FixedDrafter, 5, ["auto"]])
    def test_what_can_be_no_drafter_is_refused_and_not_dropped(self, tiny: Path, drafter: Any) -> None:
        with pytest.raises(InvalidInputError, match="'drafter' takes a drafter's name, a Drafter or None; it is "):
            cera_core.load(tiny, drafter=drafter)

    def test_no_drafter(self, tiny: Path) -> None:
        engine = cera_core.load(tiny, drafter=None)
        assert engine.drafter is None
        stats = engine.generate(PROMPT, max_tokens=4, ignore_eos=True).stats
        assert stats.skip_reasons["no drafter was asked for"] == 3
        assert stats.num_rounds == 0

    @pytest.mark.parametrize("drafter", [None, FixedDrafter()])
    def test_drafter_options_need_a_name(self, tiny: Path, drafter: Drafter | None) -> None:
        with pytest.raises(InvalidInputError, match="'drafter_options' are for a drafter that is chosen by name"):
            cera_core.load(tiny, drafter=drafter, drafter_options={"ngram_max": 5})

    def test_options_of_plugins_are_checked_by_the_plugin(self, tiny: Path) -> None:
        with pytest.raises(ConfigError, match=r"'ngram_mx' is not an option of drafter 'prompt-lookup'. Did you mean"):
            cera_core.load(tiny, drafter="prompt-lookup", drafter_options={"ngram_mx": 5})
        with pytest.raises(ConfigError, match=r"'exakt' is not an option of backend 'numpy'. Did you mean 'exact'\?"):
            cera_core.load(tiny, backend="numpy", backend_options={"exakt": True})

    def test_backend_options_reach_the_backend(self, engine: Engine, tiny: Path) -> None:
        assert engine.model.batch_invariant
        assert not cera_core.load(tiny, backend="numpy").model.batch_invariant

    def test_defaults_of_a_generation(self, tiny: Path) -> None:
        engine = cera_core.load(tiny, max_tokens=3, ignore_eos=True)
        assert len(engine.generate(PROMPT).token_ids) == 3
        assert len(engine.generate(PROMPT, max_tokens=5).token_ids) == 5

    def test_context_length(self, tiny: Path) -> None:
        engine = cera_core.load(tiny, context_length=20, ignore_eos=True)
        assert engine.session().max_seq_len == 20
        generation = engine.generate(list(range(10, 25)))
        assert (generation.finish_reason, len(generation.token_ids)) == ("context_full", 5)
        with pytest.raises(ContextFullError, match="The context holds 20 tokens"):
            engine.generate(list(range(10, 40)))

    def test_a_context_longer_than_the_models_is_told_in_the_words_of_the_settings(self, tiny: Path) -> None:
        assert cera_core.load(tiny, context_length=512).session().max_seq_len == 512
        with pytest.raises(ConfigError, match=r"^'context_length' must be at most 512, .* 513 \(argument"):
            cera_core.load(tiny, context_length=513)

    @pytest.mark.parametrize(("name", "arguments"), [("model", {"model": 3}), ("config", {"config": 3})])
    def test_what_is_neither_a_name_nor_a_path_is_refused(self, name: str, arguments: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError, match=f"^'{name}' takes a name or a path; it is a int"):
            cera_core.load(**arguments)

    def test_an_unknown_option_is_answered_with_a_near_one(self, tiny: Path) -> None:
        with pytest.raises(ConfigError, match=r"'generation.max_token' .*Did you mean 'max_tokens'\?"):
            cera_core.load(tiny, max_token=3)

    @pytest.mark.parametrize(
        ("model", "error"),
        [
            ("no-such-model", UnknownNameError),
            ("no/such/file.gguf", ModelFileError),
            ("smollm2-135m", MissingModelError),
        ],
    )
    def test_a_model_that_is_not_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, error: type[Exception]
    ) -> None:
        monkeypatch.setenv("CERA_CACHE_DIR", str(tmp_path))
        with pytest.raises(error):
            cera_core.load(model)

    def test_unknown_plugins_are_errors(self, tiny: Path) -> None:
        with pytest.raises(UnknownNameError, match="no backend named 'cuda'"):
            cera_core.load(tiny, backend="cuda")
        with pytest.raises(UnknownNameError, match="no drafter named 'oracle'"):
            cera_core.load(tiny, drafter="oracle")

    def test_a_wrong_drafter_is_said_before_the_weights_are_read(
        self, tiny: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("cera_core.engine.make_model", None)
        with pytest.raises(UnknownNameError, match="no drafter named 'oracle'"):
            cera_core.load(tiny, drafter="oracle")


class TestSettings:
    def test_the_file_in_the_working_directory(self, tiny: Path, tmp_path: Path) -> None:
        write_settings(
            tmp_path, f"model = '{tiny}'\nbackend = 'numpy'\ndrafter = 'none'\n[generation]\nmax_tokens = 2\n"
        )
        engine = cera_core.load()
        assert engine.drafter is None
        assert len(engine.generate(PROMPT, ignore_eos=True).token_ids) == 2
        assert engine.config.origin_of("drafter") == f"{tmp_path / 'cera.toml'}, line 3"

    def test_arguments_win(self, tiny: Path, tmp_path: Path) -> None:
        write_settings(tmp_path, "model = 'nowhere.gguf'\ndrafter = 'none'\n[backends.numpy]\nexact = true\n")
        engine = cera_core.load(tiny, backend="numpy", drafter="suffix-automaton")
        assert engine.drafter is not None
        assert engine.model.batch_invariant

    def test_another_file_or_an_object(self, tiny: Path, tmp_path: Path) -> None:
        write_settings(tmp_path, "not even TOML")
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        file = write_settings(folder, "drafter = 'none'\n")
        assert cera_core.load(tiny, config=file).drafter is None
        assert cera_core.load(tiny, config=str(file)).drafter is None
        assert cera_core.load(config=cera_core.Config(model=tiny, drafter="none")).drafter is None

    def test_disabled_plugins_stay_away(self, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CERA_DISABLED_PLUGINS", "suffix-automaton")
        engine = cera_core.load(tiny)
        assert "suffix-automaton" not in engine.plugins.drafters
        with pytest.raises(PluginError, match="is disabled"):
            cera_core.load(tiny, drafter="suffix-automaton")

    def test_options_of_an_unknown_drafter_are_said(self, tiny: Path, tmp_path: Path) -> None:
        write_settings(tmp_path, "[drafters.prompt-lokup]\nngram_max = 4\n")
        with pytest.warns(CeraWarning, match=r"'drafters.prompt-lokup' have no effect.*mean 'prompt-lookup'\?"):
            cera_core.load(tiny)


class TestAnswers:
    def test_generate_and_stream_say_the_same(self, engine: Engine) -> None:
        generation = engine.generate(PROMPT)
        stream = engine.stream(PROMPT)
        tokens = list(stream)
        assert [token.token_id for token in tokens] == generation.token_ids == stream.generation.token_ids
        assert (
            "".join(token.text for token in tokens) == generation.text == engine.tokenizer.decode(generation.token_ids)
        )
        assert generation.finish_reason == "max_tokens"
        assert generation.stats.num_prompt_tokens == len(engine.tokenizer.encode(PROMPT))

    @pytest.mark.parametrize("drafter", ["prompt-lookup", "suffix-automaton", "auto", FixedDrafter()])
    def test_the_text_is_the_same_with_and_without_drafts(self, engine: Engine, drafter: str | Drafter) -> None:
        plain = engine.generate(PROMPT, drafter=None, max_tokens=120)
        drafted = engine.generate(PROMPT, drafter=drafter, max_tokens=120, adaptive=False, max_draft_tokens=8)
        assert drafted.token_ids == plain.token_ids
        assert drafted.stats.num_drafted > drafted.stats.num_accepted
        assert drafted.stats.num_accepted > 0 or isinstance(drafter, FixedDrafter)
        assert plain.stats.num_drafted == 0

    def test_a_prompt_may_be_token_ids(self, engine: Engine) -> None:
        assert engine.generate(engine.tokenizer.encode(PROMPT)).text == engine.generate(PROMPT).text

    def test_control_tokens_in_a_prompt_are_text(self, engine: Engine) -> None:
        stats = engine.generate("<|im_end|>", max_tokens=1).stats
        assert stats.num_prompt_tokens == len("<|im_end|>")

    def test_chat_writes_the_template_with_control_tokens(self, engine: Engine) -> None:
        token_ids = engine.chat_ids(MESSAGES)
        text = "<|im_start|>user\nreturn the value<|im_end|>\n<|im_start|>assistant\n"
        assert token_ids == engine.tokenizer.encode(text, parse_special=True)
        assert engine.chat(MESSAGES).token_ids == engine.generate(token_ids).token_ids

    def test_stream_chat_says_what_chat_says(self, engine: Engine) -> None:
        stream = engine.stream_chat(MESSAGES, max_tokens=5)
        assert [token.token_id for token in stream] == engine.chat(MESSAGES, max_tokens=5).token_ids

    def test_the_next_turn_uses_what_the_session_has(self, engine: Engine) -> None:
        session = engine.session()
        answer = engine.chat(MESSAGES, session=session)
        turns = [*MESSAGES, {"role": "assistant", "content": answer.text}, {"role": "user", "content": "and the name"}]
        again = engine.chat(turns, session=session)
        assert again.token_ids == engine.chat(turns).token_ids
        assert session.token_ids == [*engine.chat_ids(turns), *again.token_ids]

    def test_a_model_without_a_template_cannot_chat(self, tmp_path: Path) -> None:
        engine = cera_core.load(write_tiny_gguf(tmp_path / "raw.gguf", chat_template=None))
        with pytest.raises(InvalidInputError, match="needs a chat template, and the model file has none"):
            engine.chat(MESSAGES)

    def test_sessions_are_independent(self, engine: Engine) -> None:
        one, other = engine.session(), engine.session(max_tokens=3)
        one.append(PROMPT)
        other.append("another")
        assert len(other.generate().token_ids) == 3
        assert one.generate().token_ids == engine.generate(PROMPT).token_ids

    def test_options_of_a_session_are_checked(self, engine: Engine) -> None:
        with pytest.raises(
            ConfigError, match=r"'temprature' is not an option of a session. Did you mean 'temperature'"
        ):
            engine.session(temprature=1)

    def test_a_session_may_have_its_own_drafter(self, engine: Engine) -> None:
        session = engine.session(drafter="prompt-lookup", adaptive=False)
        session.append(PROMPT)
        assert list(session.generate(max_tokens=64).stats.drafters) == ["prompt-lookup"]

    def test_a_named_drafter_is_made_once(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        engine.generate(PROMPT, drafter="prompt-lookup", max_tokens=1)
        monkeypatch.setattr("cera_core.engine.make_drafter", None)
        engine.generate(PROMPT, drafter="prompt-lookup", max_tokens=1)


class TestParts:
    def test_load_model(self, tiny: Path) -> None:
        model = cera_core.load_model(tiny, backend="numpy", exact=True)
        assert model.batch_invariant
        token_ids, stats = cera_core.greedy_generate_spec(
            model, model.new_state(), [10, 11, 12], 8, [], cera_core.create_drafter("suffix-automaton"), 4
        )
        assert len(token_ids) == stats.num_emitted == 8

    def test_load_model_checks_options(self, tiny: Path) -> None:
        with pytest.raises(ConfigError, match="not an option of backend 'numpy'"):
            cera_core.load_model(tiny, backend="numpy", nonsense=1)

    def test_create_drafter(self) -> None:
        drafter = cera_core.create_drafter("prompt-lookup", ngram_max=2, ngram_min=2)
        draft = drafter.draft([10, 20, 30, 10, 20], 3)
        assert isinstance(draft, Draft)
        assert list(draft.token_ids) == [30, 10, 20]

    def test_create_drafter_refuses(self) -> None:
        with pytest.raises(UnknownNameError, match=r"Did you mean 'prompt-lookup'\?"):
            cera_core.create_drafter("promptlookup")
        with pytest.raises(InvalidInputError, match="'none' stands for no drafter"):
            cera_core.create_drafter("none")
        with pytest.raises(ConfigError, match=r"'ngram_max' .* but is -1\.$"):
            cera_core.create_drafter("prompt-lookup", ngram_max=-1)

    def test_create_auto(self) -> None:
        drafter = cera_core.create_drafter("auto", drafters=["prompt-lookup"], prefer="first")
        draft = drafter.draft([1, 2, 3, 1, 2], 1)
        assert isinstance(draft, Draft)
        assert (list(draft.token_ids), draft.drafter) == ([3], "prompt-lookup")
