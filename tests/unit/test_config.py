"""Settings come in layers, the later ones win, and each keeps where it came from."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cera_core.config import Config, load_config, setting_variables, user_config_file
from cera_core.config_layers import RESERVED_VARIABLES
from cera_core.errors import ConfigError
from cera_core.generation_options import GenerationOptions

Write = Callable[[str], Path]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without any settings above it but the test's own, and a user directory beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.setattr("cera_core.config.user_config_file", lambda: tmp_path / "user" / "cera.toml")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def write_project(project: Path) -> Write:
    return lambda text: _written(project / "cera.toml", text)


@pytest.fixture
def write_user(project: Path) -> Write:
    return lambda text: _written(project.parent / "user" / "cera.toml", text)


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.usefixtures("project")
def test_nothing_set_gives_the_defaults_and_says_so() -> None:
    config = load_config(environ={})
    assert config == Config()
    assert (config.model, config.backend, config.drafter) == ("smollm2-135m", "auto", "auto")
    assert config.generation == GenerationOptions()
    assert config.origin_of("generation.max_tokens") == "default"
    assert config.origins() == {}


def test_each_layer_covers_the_one_before(write_user: Write, write_project: Write) -> None:
    user = write_user("[generation]\nmax_tokens = 1\ntop_k = 1\nseed = 1\nmin_tokens = 1\nlogprobs = 1")
    project = write_project("[generation]\nmax_tokens = 2\ntop_k = 2\nseed = 2\nmin_tokens = 2")
    config = load_config(
        environ={"CERA_MAX_TOKENS": "3", "CERA_TOP_K": "3", "CERA_SEED": "3"},
        arguments={"generation": {"max_tokens": 4, "top_k": 4}},
        flags={"generation": {"max_tokens": 5}},
    )
    names = ("max_tokens", "top_k", "seed", "min_tokens", "logprobs")
    assert [getattr(config.generation, name) for name in names] == [5, 4, 3, 2, 1]
    assert [config.origin_of(f"generation.{name}") for name in names] == [
        "--max-tokens",
        "argument top_k",
        "environment variable CERA_SEED",
        f"{project}, line 5",
        f"{user}, line 6",
    ]


def test_plugin_options_are_merged_one_by_one(write_user: Write, write_project: Write) -> None:
    write_user("[drafters.prompt-lookup]\nngram_max = 3\nngram_min = 1\n[backends.numpy]\nexact = true")
    write_project("drafters = {prompt-lookup = {ngram_max = 4}}")
    config = load_config(
        environ={"CERA_DRAFTERS__PROMPT_LOOKUP__NGRAM_MIN": "2", "CERA_BACKENDS__NUMPY__EXACT": "false"}
    )
    assert config.drafters == {"prompt-lookup": {"ngram_max": 4, "ngram_min": "2"}}
    assert config.backends == {"numpy": {"exact": "false"}}
    assert config.origin_of("backends.numpy.exact") == "environment variable CERA_BACKENDS__NUMPY__EXACT"


def test_a_list_or_a_bias_table_is_replaced_as_a_whole(write_user: Write, write_project: Write) -> None:
    write_user('[generation]\nstop = ["a", "b"]\nlogit_bias = {5 = 1.0}')
    write_project('[generation]\nstop = ["c"]\nlogit_bias = {6 = -inf}')
    generation = load_config(environ={}).generation
    assert generation.stop == ("c",)
    assert generation.logit_bias == {6: float("-inf")}


def test_the_nearest_file_upwards_is_taken(
    write_project: Write, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project('backend = "outer"')
    inner = project / "a"
    _written(inner / "cera.toml", 'drafter = "inner"')
    (inner / "b").mkdir()
    monkeypatch.chdir(inner / "b")
    config = load_config(environ={})
    assert (config.backend, config.drafter) == ("auto", "inner")


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_an_explicit_file_takes_the_place_of_the_nearest(write_project: Write, tmp_path: Path, how: str) -> None:
    write_project('backend = "nearest"')
    explicit = _written(tmp_path / "other.toml", 'drafter = "explicit"')
    if how == "argument":
        config = load_config(explicit, environ={"CERA_CONFIG": "not-this.toml"})
    else:
        config = load_config(environ={"CERA_CONFIG": str(explicit)})
    assert (config.backend, config.drafter) == ("auto", "explicit")


def test_an_empty_variable_names_no_file(write_project: Write) -> None:
    write_project('backend = "nearest"')
    assert load_config(environ={"CERA_CONFIG": ""}).backend == "nearest"


@pytest.mark.usefixtures("project")
def test_an_explicit_file_must_exist() -> None:
    with pytest.raises(ConfigError, match=r"'missing.toml' cannot be read: No such file"):
        load_config("missing.toml", environ={})


@pytest.mark.parametrize("make", [Path.mkdir, lambda file: file.symlink_to("nowhere")], ids=["folder", "dead link"])
def test_settings_that_are_no_file_are_refused_and_not_overlooked(project: Path, make: Callable[[Path], None]) -> None:
    make(project / "cera.toml")
    with pytest.raises(ConfigError, match=r"cera.toml' (must be a file, but|cannot be read: No such file)"):
        load_config(environ={})


def test_settings_that_are_no_utf_8_are_refused_with_line_and_byte(project: Path) -> None:
    (project / "cera.toml").write_bytes("backend = 'a'\ndrafter = 'é'".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"cera.toml' must be UTF-8, but line 2 has the byte 0xe9. Save it as UTF-8"):
        load_config(environ={})


def test_a_byte_order_mark_and_line_ends_of_windows_are_read_over(project: Path) -> None:
    (project / "cera.toml").write_bytes(b"\xef\xbb\xbfbackend = 'a'\r\ndrafter = 'b'\r\n")
    config = load_config(environ={})
    assert (config.backend, config.drafter) == ("a", "b")
    assert config.origin_of("drafter").endswith("cera.toml, line 2")


def test_bad_toml_is_refused_with_file_and_line(write_project: Write) -> None:
    file = write_project('model = "a"\nbackend = \n')
    with pytest.raises(ConfigError, match=rf"'{file}' is not valid TOML: .*line 2"):
        load_config(environ={})


def test_toml_nested_without_end_is_refused(project: Path) -> None:
    (project / "cera.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigError, match="is nested too deeply"):
        load_config(environ={})
    (project / "cera.toml").unlink()
    with pytest.raises(ConfigError, match="max_tokens"):
        load_config(environ={"CERA_MAX_TOKENS": "[" * 100_000})


def test_working_directory_that_is_gone_has_no_file(project: Path) -> None:
    gone = project / "gone"
    gone.mkdir()
    os.chdir(gone)  # the fixture changed the directory, and changes it back
    gone.rmdir()
    assert load_config(environ={}).model == Config().model


def test_unknown_key_is_refused_with_file_line_and_suggestion(write_project: Write) -> None:
    file = write_project("\n[generation]\nmax_tokns = 3")
    with pytest.raises(ConfigError) as caught:
        load_config(environ={})
    assert str(caught.value) == (
        f"'generation.max_tokns' ({file}, line 3) is not an option of the settings. Did you mean 'max_tokens'?"
    )


def test_wrong_value_is_refused_with_its_origin() -> None:
    with pytest.raises(ConfigError, match=r"'generation.top_k' .* but is '-3' \(environment variable CERA_TOP_K\)\."):
        load_config(environ={"CERA_TOP_K": "-3"})


def test_a_wrong_value_that_a_later_layer_covers_has_no_effect(write_project: Write) -> None:
    write_project("[generation]\nmax_tokens = -1")
    assert load_config(environ={"CERA_MAX_TOKENS": "5"}).generation.max_tokens == 5


def test_a_value_where_a_table_belongs_is_refused(write_project: Write) -> None:
    file = write_project("generation = 3")
    with pytest.raises(ConfigError, match=rf"'generation' must be a table, but is 3 \({file}, line 1\)"):
        load_config(environ={}, flags={"generation": {"seed": 3}})


@pytest.mark.usefixtures("project")
def test_unknown_variable_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"'CERA_MAX_TOKNS' is not a setting. Did you mean 'CERA_MAX_TOKENS'\?"):
        load_config(environ={"CERA_MAX_TOKNS": "3"})


@pytest.mark.usefixtures("project")
def test_reserved_foreign_and_empty_variables_are_let_be() -> None:
    reserved = dict.fromkeys(RESERVED_VARIABLES - {"CERA_CONFIG"}, "x")
    assert load_config(environ={**reserved, "PATH": "x", "CERA_SEED": "", "CERAMIC": "x"}).origins() == {}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("variable", ["CERA_BACKENDS__NUMPY", "CERA_BACKENDS____EXACT", "CERA_BACKENDS__A__B__C"])
def test_variable_of_a_plugin_option_must_name_plugin_and_option(variable: str) -> None:
    with pytest.raises(ConfigError, match=f"'{variable}' is not a setting"):
        load_config(environ={variable: "1"})


@pytest.mark.usefixtures("project")
def test_lists_in_the_environment() -> None:
    config = load_config(
        environ={
            "CERA_DISABLED_PLUGINS": "numpy, aho-corasick",
            "CERA_STOP": '["a", "b"]',
            "CERA_STOP_TOKEN_IDS": "1,2",
            "CERA_LOGIT_BIAS": "5=-1",
        }
    )
    assert config.disabled_plugins == ("numpy", "aho-corasick")
    assert config.generation.stop == ("a", "b")
    assert config.generation.stop_token_ids == (1, 2)
    assert config.generation.logit_bias == {5: -1.0}


@pytest.mark.usefixtures("project")
def test_stop_text_that_only_looks_like_a_list_is_text() -> None:
    assert load_config(environ={"CERA_STOP": "[INST]"}).generation.stop == ("[INST]",)


def test_a_models_path_is_relative_to_the_file_that_names_it(
    write_project: Write, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project('model = "small.gguf"')
    (project / "small.gguf").touch()
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    assert load_config(environ={}).model == str(project / "small.gguf")


@pytest.mark.usefixtures("project")
def test_every_setting_but_the_tables_has_a_variable_of_its_own() -> None:
    variables = setting_variables()
    assert len(variables) == len(Config.model_fields) - 3 + len(GenerationOptions.model_fields)
    assert variables["CERA_CONTEXT_LENGTH"] == ("context_length",)
    assert variables["CERA_MIN_P"] == ("generation", "min_p")
    assert not variables.keys() & RESERVED_VARIABLES


def test_line_of_a_key_is_found_in_every_way_to_write_it(write_project: Write) -> None:
    file = write_project(
        'generation.seed = 1\n"backend" = "b"\n[ drafters . "prompt-lookup" ] # comment\nngram_max = 2\n'
        "[drafters]\nauto = {first = 1}\n"
    )
    config = load_config(environ={})
    assert {path: origin.removeprefix(f"{file}, ") for path, origin in config.origins().items()} == {
        "generation.seed": "line 1",
        "backend": "line 2",
        "drafters.prompt-lookup.ngram_max": "line 4",
        "drafters.auto.first": "line 6",
    }


def test_line_is_left_out_where_text_looks_like_a_second_key(write_project: Write) -> None:
    file = write_project('[generation]\nstop = ["""\nseed = 5\n"""]\nseed = 6')
    assert load_config(environ={}).origin_of("generation.seed") == str(file)


@pytest.mark.usefixtures("project")
def test_update_keeps_values_and_origins_and_adds_its_own() -> None:
    config = load_config(environ={"CERA_SEED": "3"}).updated({"generation": {"top_k": 4}, "backend": "numpy"})
    assert (config.generation.seed, config.generation.top_k, config.backend) == (3, 4, "numpy")
    assert config.origins() == {
        "generation.seed": "environment variable CERA_SEED",
        "generation.top_k": "argument top_k",
        "backend": "argument backend",
    }


def test_settings_made_by_hand_come_from_arguments() -> None:
    config = Config(model=Path("a.gguf"), generation=GenerationOptions(seed=1))  # type: ignore[arg-type]
    assert config.model == "a.gguf"
    assert config.origins() == {"model": "argument model", "generation.seed": "argument seed"}


def test_the_users_file_stands_where_the_platform_keeps_settings() -> None:
    assert user_config_file().name == "cera.toml"
    assert user_config_file().parent.name == "cera"


def test_an_option_of_a_table_at_the_top_is_told_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "cera.toml").write_text("max_tokens = 7\n")
    with pytest.raises(ConfigError, match=r"'max_tokens' .* It belongs under \[generation\]\."):
        load_config(tmp_path / "cera.toml", environ={})
