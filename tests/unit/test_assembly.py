"""Names and options become drafters and models; what a plugin does wrong is said with its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pydantic import Field, field_validator

from cera_core.assembly import make_drafter, make_model, warn_of_unused
from cera_core.config import Config
from cera_core.discovery import PluginRecord, Plugins
from cera_core.drafter import Draft, Drafter
from cera_core.drafting.auto import AutoDrafter
from cera_core.errors import (
    CeraWarning,
    ConfigError,
    InvalidInputError,
    PluginError,
    UnknownNameError,
    UnsupportedModelError,
)
from cera_core.modelfile.gguf import ModelFile, open_model_file
from cera_core.specs import DrafterContext, DrafterSpec, ModelSpec, PluginOptions
from cera_core.testing.fakes import TableModel
from support.tiny_gguf import write_tiny_gguf

NO_CONTEXT = DrafterContext()


class Options(PluginOptions):
    size: int = Field(default=3, ge=1)


class FragileOptions(PluginOptions):
    """Options whose own check has a defect."""

    size: int = 3

    @field_validator("size")
    @classmethod
    def _check(cls, value: int) -> int:
        raise KeyError(value)


class Panic(BaseException):
    """What a Rust extension raises that panics: no `Exception`."""


class SizedDrafter(Drafter):
    """Guesses its size as often as it may."""

    def __init__(self, size: int, context: DrafterContext = NO_CONTEXT) -> None:
        self.size = size
        self.context = context

    def draft(self, tokens: Sequence[int], max_k: int) -> Draft:
        return Draft([self.size] * max_k, match_length=self.size)

    def clone(self) -> SizedDrafter:
        return SizedDrafter(self.size, self.context)


class SizedModel(TableModel):
    """A model that remembers what loaded it."""

    def __init__(self, loaded_by: str, size: int) -> None:
        super().__init__()
        self.loaded_by = loaded_by
        self.size = size


def add_drafter(
    plugins: Plugins, name: str, create: Callable[..., Any] = lambda options, context: SizedDrafter(options.size)
) -> None:
    plugins.drafters.add([DrafterSpec(name=name, summary="Guesses.", create=create, options=Options)], "test")


def add_backend(
    plugins: Plugins, name: str, priority: int, load: Callable[..., Any] | None = None, **settings: Any
) -> None:
    load = load or (lambda file, options: SizedModel(name, options.size))
    spec = ModelSpec(name=name, summary="Computes.", load=load, options=Options, priority=priority, **settings)
    plugins.backends.add([spec], "test")


def does_not_support(file: ModelFile, options: Options) -> SizedModel:
    raise UnsupportedModelError("It has no such architecture.")


@pytest.fixture
def plugins() -> Plugins:
    return Plugins()


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelFile]:
    return open_model_file(write_tiny_gguf(tmp_path_factory.mktemp("models") / "tiny.gguf"))


class TestDrafter:
    def test_is_made_from_its_own_options_and_the_context(self, plugins: Plugins) -> None:
        add_drafter(plugins, "sized", lambda options, context: SizedDrafter(options.size, context))
        context = DrafterContext(vocab_size=9)
        drafter = make_drafter("sized", plugins, {"sized": {"size": 5}, "other": {"unknown": 1}}, context)
        assert isinstance(drafter, SizedDrafter)
        assert (drafter.size, drafter.context) == (5, context)

    def test_none_is_no_drafter(self, plugins: Plugins) -> None:
        assert make_drafter("none", plugins, {}, NO_CONTEXT) is None

    def test_an_unknown_option_is_answered_with_a_near_one(self, plugins: Plugins) -> None:
        add_drafter(plugins, "sized")
        with pytest.raises(ConfigError, match=r"'sise' is not an option of drafter 'sized'. Did you mean 'size'\?"):
            make_drafter("sized", plugins, {"sized": {"sise": 5}}, NO_CONTEXT)

    def test_a_wrong_value_is_refused(self, plugins: Plugins) -> None:
        add_drafter(plugins, "sized")
        with pytest.raises(ConfigError, match="'size' of drafter 'sized' must be greater than or equal to 1, but is 0"):
            make_drafter("sized", plugins, {"sized": {"size": 0}}, NO_CONTEXT)

    @pytest.mark.parametrize("error", [ValueError("bad\nvalue"), SystemExit("bad value"), Panic("bad value")])
    def test_an_exception_of_the_plugin_becomes_a_chained_plugin_error(
        self, plugins: Plugins, error: BaseException
    ) -> None:
        def create(options: Options, context: DrafterContext) -> Drafter:
            raise error

        add_drafter(plugins, "sized", create)
        with pytest.raises(
            PluginError, match=r"The drafter 'sized' failed with .*: bad value. Its plugin is at"
        ) as caught:
            make_drafter("sized", plugins, {}, NO_CONTEXT)
        assert caught.value.__cause__ is error

    def test_a_defect_in_the_check_of_its_options_is_the_plugin_s(self, plugins: Plugins) -> None:
        create: Callable[..., Any] = lambda options, context: SizedDrafter(options.size)  # noqa: E731
        plugins.drafters.add(
            [DrafterSpec(name="sized", summary="Guesses.", create=create, options=FragileOptions)], "test"
        )
        with pytest.raises(PluginError, match=r"The drafter 'sized' failed with KeyError: 5\. Its plugin is at fault"):
            make_drafter("sized", plugins, {"sized": {"size": 5}}, NO_CONTEXT)

    def test_an_error_of_cera_s_own_kind_stays_as_it_is(self, plugins: Plugins) -> None:
        error = InvalidInputError("The phrase file is empty.")

        def create(options: Options, context: DrafterContext) -> Drafter:
            raise error

        add_drafter(plugins, "sized", create)
        with pytest.raises(InvalidInputError) as caught:
            make_drafter("sized", plugins, {}, NO_CONTEXT)
        assert caught.value is error

    def test_what_is_no_drafter_is_refused(self, plugins: Plugins) -> None:
        add_drafter(plugins, "sized", lambda options, context: [1, 2])
        with pytest.raises(PluginError, match="The drafter 'sized' must be a Drafter; its plugin made a list"):
            make_drafter("sized", plugins, {}, NO_CONTEXT)


class TestAuto:
    @pytest.fixture
    def made(self, plugins: Plugins) -> list[str]:
        """Installs three drafters, and lists the names of those that are made."""
        made: list[str] = []

        def create(name: str, options: Options) -> SizedDrafter:
            made.append(name)
            return SizedDrafter(options.size)

        for name in ("prompt-lookup", "suffix-automaton", "sized"):
            add_drafter(plugins, name, lambda options, context, name=name: create(name, options))
        return made

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            ({}, ["suffix-automaton"]),
            ({"auto": {}, "sized": {}}, ["suffix-automaton", "sized"]),
            ({"auto": {"drafters": ["sized", "prompt-lookup", "sized"]}}, ["sized", "prompt-lookup"]),
        ],
        ids=["what suits", "and what has options", "what it is told, each once"],
    )
    def test_combines(
        self, plugins: Plugins, made: list[str], options: dict[str, dict[str, Any]], names: list[str]
    ) -> None:
        assert isinstance(make_drafter("auto", plugins, options, NO_CONTEXT), AutoDrafter)
        assert made == names

    @pytest.mark.usefixtures("made")
    def test_each_drafter_has_its_own_options(self, plugins: Plugins) -> None:
        drafter = make_drafter("auto", plugins, {"sized": {"size": 8}}, NO_CONTEXT)
        assert drafter is not None
        draft = drafter.draft([], 2)
        assert isinstance(draft, Draft)
        assert (list(draft.token_ids), draft.drafter) == ([8, 8], "sized")

    @pytest.mark.usefixtures("made")
    def test_a_drafter_it_is_told_to_take_must_be_there(self, plugins: Plugins) -> None:
        with pytest.raises(UnknownNameError, match=r"no drafter named 'sizes'. Did you mean 'sized'\?"):
            make_drafter("auto", plugins, {"auto": {"drafters": ["sizes"]}}, NO_CONTEXT)

    @pytest.mark.parametrize("name", ["auto", "none"])
    def test_it_does_not_take_itself_or_nothing(self, plugins: Plugins, name: str) -> None:
        with pytest.raises(InvalidInputError, match=f"{name!r} is none"):
            make_drafter("auto", plugins, {"auto": {"drafters": [name]}}, NO_CONTEXT)

    def test_its_own_options_are_checked(self, plugins: Plugins) -> None:
        with pytest.raises(ConfigError, match=r"'perfer' is not an option of drafter 'auto'. Did you mean 'prefer'\?"):
            make_drafter("auto", plugins, {"auto": {"perfer": "first"}}, NO_CONTEXT)


class TestModel:
    def test_the_backend_asked_for_loads_with_its_own_options(self, plugins: Plugins, model_file: ModelFile) -> None:
        add_backend(plugins, "fast", 10)
        add_backend(plugins, "slow", 1)
        model = make_model(model_file, "slow", plugins, {"slow": {"size": 7}, "fast": {"size": 9}})
        assert isinstance(model, SizedModel)
        assert (model.loaded_by, model.size) == ("slow", 7)

    def test_auto_takes_the_best_that_is_available(self, plugins: Plugins, model_file: ModelFile) -> None:
        add_backend(plugins, "best", 20, availability=lambda: "no device")
        add_backend(plugins, "slow", 1)
        add_backend(plugins, "fast", 10)
        model = make_model(model_file, "auto", plugins, {"auto": {"size": 4}, "slow": {"size": 9}})
        assert isinstance(model, SizedModel)
        assert (model.loaded_by, model.size) == ("fast", 4)

    def test_auto_goes_on_to_the_next_where_the_model_is_not_supported_and_says_so(
        self, plugins: Plugins, model_file: ModelFile, caplog: pytest.LogCaptureFixture
    ) -> None:
        add_backend(plugins, "fast", 10, does_not_support)
        add_backend(plugins, "slow", 1)
        with caplog.at_level(logging.WARNING, "cera"):
            model = make_model(model_file, "auto", plugins, {"auto": {"size": 4}})
        assert isinstance(model, SizedModel)
        assert (model.loaded_by, model.size) == ("slow", 4)
        assert caplog.messages == [
            "The backend 'fast' cannot run this model, so the next is tried: It has no such architecture."
        ]

    def test_auto_gives_the_last_ones_error_where_none_supports_it(
        self, plugins: Plugins, model_file: ModelFile
    ) -> None:
        add_backend(plugins, "fast", 10, does_not_support)
        with pytest.raises(UnsupportedModelError, match="no such architecture"):
            make_model(model_file, "auto", plugins, {})

    def test_auto_does_not_hide_a_failure(self, plugins: Plugins, model_file: ModelFile) -> None:
        def fail(file: ModelFile, options: Options) -> SizedModel:
            raise MemoryError("too big")

        add_backend(plugins, "fast", 10, fail)
        add_backend(plugins, "slow", 1)
        with pytest.raises(PluginError, match="The backend 'fast' failed with MemoryError: too big") as caught:
            make_model(model_file, "auto", plugins, {})
        assert isinstance(caught.value.__cause__, MemoryError)

    def test_a_backend_asked_for_is_not_replaced(self, plugins: Plugins, model_file: ModelFile) -> None:
        add_backend(plugins, "fast", 10, does_not_support)
        add_backend(plugins, "slow", 1)
        with pytest.raises(UnsupportedModelError):
            make_model(model_file, "fast", plugins, {})

    def test_an_unknown_option_is_answered_with_a_near_one(self, plugins: Plugins, model_file: ModelFile) -> None:
        add_backend(plugins, "fast", 10)
        with pytest.raises(ConfigError, match=r"'siez' is not an option of backend 'fast'. Did you mean 'size'\?"):
            make_model(model_file, "fast", plugins, {"fast": {"siez": 1}})

    def test_what_is_no_model_is_refused(self, plugins: Plugins, model_file: ModelFile) -> None:
        add_backend(plugins, "fast", 10, lambda file, options: None)
        with pytest.raises(PluginError, match="The backend 'fast' must load a Model; its plugin made a NoneType"):
            make_model(model_file, "fast", plugins, {})


class TestUnused:
    def test_options_of_what_is_not_installed_are_said(self, plugins: Plugins) -> None:
        add_drafter(plugins, "sized")
        expected = r"'drafters.siezd' have no effect. There is no drafter named 'siezd'. Did you mean 'sized'\?"
        with pytest.warns(CeraWarning, match=expected):
            warn_of_unused(Config(drafters={"siezd": {"size": 2}}), plugins)
        with pytest.warns(CeraWarning, match="'backends.gpu' have no effect. There is no backend named 'gpu'"):
            warn_of_unused(Config(backends={"gpu": {}}), plugins)

    def test_options_that_have_or_could_have_an_effect_are_not(self, plugins: Plugins) -> None:
        add_drafter(plugins, "sized")
        add_backend(plugins, "fast", 1)
        record = PluginRecord(name="left-out", distribution="d", version="1", status="disabled", reason="")
        plugins.records.append(record)
        tables = {"sized": {}, "auto": {}, "left-out": {}}
        warn_of_unused(Config(drafters=tables, backends={"auto": {}, "fast": {}}), plugins)
