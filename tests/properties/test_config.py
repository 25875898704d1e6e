"""Whatever is written in whatever layer: settings, or one paragraph that says what is wrong."""

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cera_core.config import Config, load_config, setting_variables
from cera_core.errors import ConfigError

NOWHERE = Path("/dev/null")  # an empty settings file, so that none is looked for

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)
NAMES = st.text(st.characters(blacklist_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda children: st.lists(children, max_size=3) | st.dictionaries(NAMES, children, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from([*Config.model_fields, "max_tokens", "unknown"]) | NAMES
LINES = NAMES | st.sampled_from(["[generation]", "seed = 1", "a.b = '''", "[[a]]", "= =", "[a]\nb = {c = 1}"])
SEED_LAYERS = st.lists(st.none() | st.integers(0, 9), min_size=3, max_size=3)


def settings_or_paragraph(**layers: Any) -> None:
    try:
        config = load_config(**{"path": NOWHERE, "environ": {}} | layers)
    except ConfigError as error:
        complaint = str(error)
    else:
        assert all(config.origin_of(path) != "default" for path in config.origins())
        return
    assert complaint
    assert "\n" not in complaint


@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_arguments(arguments: dict[str, Any]) -> None:
    settings_or_paragraph(arguments=arguments)


@given(st.dictionaries(st.sampled_from(sorted(setting_variables())) | NAMES.map("CERA_{}".format), TEXT, max_size=3))
def test_any_environment(environ: dict[str, str]) -> None:
    environ.pop("CERA_CONFIG", None)
    settings_or_paragraph(environ=environ)


@given(st.lists(LINES).map("\n".join))
def test_any_file(text: str) -> None:
    with NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        settings_or_paragraph(path=Path(file.name))


@given(SEED_LAYERS)
def test_the_last_layer_that_speaks_is_heard(seeds: list[int | None]) -> None:
    in_environment, in_arguments, in_flags = seeds
    config = load_config(
        NOWHERE,
        environ={} if in_environment is None else {"CERA_SEED": str(in_environment)},
        arguments={} if in_arguments is None else {"generation": {"seed": in_arguments}},
        flags={} if in_flags is None else {"generation": {"seed": in_flags}},
    )
    origins = ("environment variable CERA_SEED", "argument seed", "--seed")
    spoken = [(seed, origin) for seed, origin in zip(seeds, origins, strict=True) if seed is not None]
    assert (config.generation.seed, config.origin_of("generation.seed")) == (spoken or [(None, "default")])[-1]
