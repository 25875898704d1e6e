"""What `import cera_core` offers, and what it costs."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import cera_core
from cera_core import errors

HEAVY = ("numpy", "pydantic", "pluggy", "tokenizers", "gguf", "jinja2", "rich", "typer", "cera_numpy", "cera_native")
MAX_IMPORT_SECONDS = 0.15

SIGNATURES = {
    "load": "(model: 'str | os.PathLike[str] | None' = None, backend: 'str' = 'auto', "
    "drafter: 'str | Drafter | None' = 'auto', config: 'Config | str | os.PathLike[str] | None' = None, "
    "backend_options: 'Mapping[str, Any] | None' = None, drafter_options: 'Mapping[str, Any] | None' = None, "
    "**options: 'Any') -> 'Engine'",
    "load_model": "(path: 'str | os.PathLike[str]', backend: 'str' = 'auto', **backend_options: 'Any') -> 'Model'",
    "create_drafter": "(name: 'str', **options: 'Any') -> 'Drafter'",
    "greedy_generate_spec": "(model: 'Model', state: 'InferenceState', prompt_ids: 'Sequence[int]', "
    "max_new_tokens: 'int', stop_ids: 'Collection[int]', drafter: 'Drafter | None', k: 'int') "
    "-> 'tuple[list[int], SpecStats]'",
    "verify_draft": "(model: 'Model', state: 'InferenceState', guaranteed: 'int', draft: 'Sequence[int]', "
    "choose: 'Choose' = <argmax>) -> 'VerifyResult'",
    "argmax": "(row: 'Logits', accepted: 'Sequence[int]' = ()) -> 'int'",
    "Engine.generate": "(self, prompt: 'str | Sequence[int]', **options: 'Any') -> 'Generation'",
    "Engine.stream": "(self, prompt: 'str | Sequence[int]', **options: 'Any') -> 'TokenStream'",
    "Engine.chat": "(self, messages: 'Messages', *, session: 'Session | None' = None, **options: 'Any') "
    "-> 'Generation'",
    "Engine.session": "(self, **options: 'Any') -> 'Session'",
    "Session.append": "(self, tokens: 'str | Sequence[int]') -> 'None'",
    "Session.truncate": "(self, length: 'int') -> 'None'",
    "Session.reset": "(self) -> 'None'",
    "Session.cancel": "(self) -> 'None'",
    "Session.fork": "(self, *, seed: 'int | None' = None) -> 'Session'",
    "Drafter.draft": "(self, tokens: 'Sequence[int]', max_k: 'int') -> 'Draft | Sequence[int]'",
    "Drafter.clone": "(self) -> 'Drafter'",
    "Drafter.reset": "(self) -> 'None'",
    "Drafter.accept": "(self, draft: 'Draft', num_accepted: 'int') -> 'None'",
    "Model.forward": "(self, token_ids: 'Sequence[int]', state: 'InferenceState') -> 'Logits'",
    "Model.forward_all": "(self, token_ids: 'Sequence[int]', state: 'InferenceState') -> 'Logits'",
    "Model.truncate": "(self, state: 'InferenceState', length: 'int') -> 'None'",
}
"""What others' code calls; a change here is a change for them, and belongs in CHANGELOG.md."""


def public(name: str) -> Any:
    value: Any = cera_core
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_names_are_sorted_and_come_once() -> None:
    assert cera_core.__all__ == sorted(set(cera_core.__all__), key=lambda name: (not name.isupper(), name))


def test_dir_lists_the_public_names() -> None:
    assert set(dir(cera_core)) == {*cera_core.__all__, "__version__"}


def test_type_checkers_see_the_same_names_from_the_same_homes() -> None:
    tree = ast.parse(Path(cera_core.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert set(imported) == set(cera_core.__all__)
    assert imported == {name: cera_core._HOME_OF[name] for name in cera_core.__all__}


@pytest.mark.parametrize("name", cera_core.__all__)
def test_every_name_is_there_and_documented(name: str) -> None:
    value = public(name)
    if name in {"hookimpl", "PLUGIN_API"}:
        return  # a marker of pluggy's, and a number
    assert value.__doc__
    assert value.__module__ == cera_core._HOME_OF[name]
    if inspect.isclass(value):
        for attribute, member in vars(value).items():
            if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                assert inspect.getdoc(getattr(value, attribute)), f"{name}.{attribute}"


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_stay(name: str) -> None:
    found = str(inspect.signature(public(name))).replace(str(cera_core.argmax), "<argmax>")
    assert found == SIGNATURES[name]


def test_all_errors_are_public() -> None:
    defined = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and value.__module__ == errors.__name__
    }
    assert defined <= set(cera_core.__all__)
    assert all(issubclass(public(name), errors.CeraError) for name in defined - {"CeraWarning"})


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'cera_core' has no attribute 'lod'"):
        cera_core.lod  # noqa: B018


def test_version_is_that_of_the_distribution() -> None:
    assert cera_core.__version__ == version("cera")


@pytest.mark.alone
def test_import_is_cheap_and_brings_nothing_heavy() -> None:
    code = (
        "import json, sys, time; start = time.perf_counter(); import cera_core; "
        f"print(json.dumps([time.perf_counter() - start, [name for name in {HEAVY} if name in sys.modules]]))"
    )
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert [modules for _, modules in runs] == [[], [], []]
    assert min(seconds for seconds, _ in runs) < MAX_IMPORT_SECONDS


def modules_imported_by(module: str, file: Path) -> set[str]:
    """Returns the modules of cera that a module imports while it is imported itself."""
    imported: set[str] = set()

    def walk(body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.ImportFrom) and node.module:
                imported.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
            elif isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
                walk([*node.body, *node.orelse])
            elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
                walk(node.body)

    walk(ast.parse(file.read_text(encoding="utf-8")).body)
    return imported


def test_modules_can_be_imported_in_any_order() -> None:
    """Each module can be the first where no module needs, through others, itself."""
    root = Path(cera_core.__file__).parent
    files = {
        ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in root.rglob("*.py")
    }
    graph = {module: modules_imported_by(module, file) & files.keys() - {module} for module, file in files.items()}
    assert graph["cera_core"] == set()
    assert "cera_core.session" in graph["cera_core.engine"]
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert len(order) == len(files) > 50
    for module in files:
        import_module(module)
