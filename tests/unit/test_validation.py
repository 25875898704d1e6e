"""Wrong values become one paragraph: what, required, found, where."""

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cera_core.errors import ConfigError
from cera_core.validation import list_of_one, names_from_text, validated


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = Field(1, ge=0)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    inner: Inner = Inner()

    @field_validator("name")
    @classmethod
    def _lower(cls, value: str) -> str:
        if value != value.lower():
            raise ValueError("must be in lower case, as all names are")
        return value


def complaint(values: dict[str, object], origins: dict[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        validated(Outer, values, owner="backend 'x'", origin_of=(origins or {}).get)
    assert isinstance(caught.value.__cause__, ValidationError)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_usable_values_make_the_model() -> None:
    assert validated(Outer, {"name": "a", "inner": {"count": "3"}}, owner="it").inner.count == 3


def test_a_bound_is_named_with_value_and_origin() -> None:
    assert complaint({"name": "a", "inner": {"count": -1}}, {"inner.count": "a file, line 2"}) == (
        "'inner.count' of backend 'x' must be greater than or equal to 0, but is -1 (a file, line 2)."
    )


def test_an_unknown_key_is_answered_with_a_near_one() -> None:
    assert complaint({"name": "a", "inner": {"cuont": 1}}) == (
        "'inner.cuont' is not an option of backend 'x'. Did you mean 'count'?"
    )


def test_an_unknown_key_like_no_other_is_answered_with_all() -> None:
    assert complaint({"name": "a", "zzz": 1}).endswith(" The options are name, inner.")


def test_a_validators_own_words_are_kept() -> None:
    assert complaint({"name": "A"}) == "'name' of backend 'x' must be in lower case, as all names are, but is 'A'."


def test_a_missing_value_is_asked_for() -> None:
    assert complaint({}) == "'name' of backend 'x' must be given, but is {}."


def test_every_wrong_value_is_named() -> None:
    text = complaint({"name": 3, "inner": {"count": "many"}})
    assert "'name'" in text
    assert "'inner.count' of backend 'x' must be a valid integer, but is 'many'." in text


def test_a_long_value_is_shortened() -> None:
    assert len(complaint({"name": "X" * 10_000})) < 200


def test_a_default_that_depends_on_a_wrong_value_is_no_second_complaint() -> None:
    class Range(BaseModel):
        high: int = Field(1, ge=0)
        low: int = Field(default_factory=lambda values: values["high"])

    with pytest.raises(ConfigError, match=r"^'high' of it must be greater than or equal to 0, but is -1\.$"):
        validated(Range, {"high": -1}, owner="it")


def test_a_text_of_another_form_is_told_the_whole_pattern() -> None:
    class Named(BaseModel):
        name: str = Field(pattern="^[a-z]{1,3}$")
        other: str = Field(default="x", min_length=1)

    with pytest.raises(ConfigError, match=r"'name' of a test must match \^\[a-z\]\{1,3\}\$, but is 'UP'\."):
        validated(Named, {"name": "UP"}, owner="a test")
    with pytest.raises(ConfigError, match=r"'other' of a test must have at least 1 character, but is ''\."):
        validated(Named, {"name": "a", "other": ""}, owner="a test")


class Kinds(BaseModel):
    names: tuple[str, ...] = ()
    table: dict[str, int] = {}
    switch: bool = False
    path: Path = Path()
    text: str = ""


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"names": "x"}, """'names' of it must be a list, like names=["x"], but is 'x' (a file)."""),
        ({"names": 3}, "'names' of it must be a list, but is 3 (a file)."),
        ({"names": [3]}, "'names.0' of it must be a text, but is 3 (a file)."),
        ({"table": [3]}, "'table' of it must be a table, but is [3]."),
        ({"switch": "perhaps"}, "'switch' of it must be true or false, but is 'perhaps'."),
        ({"path": 3}, "'path' of it must be a path, but is 3."),
    ],
)
def test_kinds_are_said_in_the_words_of_a_settings_file(values: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validated(Kinds, values, owner="it", origin_of=lambda path: "a file" if path == "names" else None)
    assert str(caught.value) == complaint


def test_one_text_or_path_can_stand_for_a_list() -> None:
    assert list_of_one("a, b") == ("a, b",)
    assert list_of_one(Path("a")) == (Path("a"),)
    assert list_of_one(["a"]) == ["a"]


def test_names_in_text_have_commas_between_them() -> None:
    assert names_from_text("a, b,") == ["a", "b"]
    assert names_from_text(["a, b"]) == ["a, b"]
