"""Names and options to drafters and models: what the settings say becomes objects."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel

from cera_core.config import Config
from cera_core.discovery import Plugins, unavailable_because
from cera_core.drafter import Drafter
from cera_core.drafting.auto import AutoDrafter, AutoOptions
from cera_core.drafting.guard import GuardedDrafter
from cera_core.errors import (
    CeraError,
    CeraWarning,
    InvalidInputError,
    PluginError,
    UnsupportedModelError,
)
from cera_core.foreign_errors import error_line, let_interrupt_through
from cera_core.model import Model
from cera_core.modelfile.gguf import ModelFile
from cera_core.registry import AUTO, NONE, Registry
from cera_core.specs import MAX_VOCAB_SIZE, DrafterContext, DrafterSpec, ModelSpec
from cera_core.speculation.model_guard import check_model
from cera_core.validation import validated

_AUTO_DRAFTERS = ("suffix-automaton", "prompt-lookup")  # the first that is there: it finds all that the next does
_log = logging.getLogger("cera")


def options_with(
    options: Mapping[str, Mapping[str, Any]], name: str, more: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Returns the options of all drafters or all backends, those of one with more over them."""
    return {**options, name: {**options.get(name, {}), **more}}


def make_drafter(
    name: str, plugins: Plugins, options: Mapping[str, Mapping[str, Any]], context: DrafterContext
) -> Drafter | None:
    """Makes the drafter of a name, with its options among those of all drafters; None for `none`."""
    if name == NONE:
        return None
    own_options = options.get(name, {})
    if name == AUTO:
        return _make_auto(validated(AutoOptions, own_options, owner="drafter 'auto'"), plugins, options, context)
    spec = plugins.drafter(name)
    owner = f"drafter {name!r}"
    checked = _checked_options(spec, own_options, owner)
    drafter = _call_plugin(owner, spec.create, checked, context)
    if not isinstance(drafter, Drafter):
        raise PluginError(f"The drafter {name!r} must be a Drafter; its plugin made a {type(drafter).__name__}.")
    return drafter


def _make_auto(
    auto: AutoOptions, plugins: Plugins, options: Mapping[str, Mapping[str, Any]], context: DrafterContext
) -> AutoDrafter:
    """Combines the drafters named, all of which must be there, or those that suit."""
    members = []
    for name in _combined_names(auto, plugins, options):
        drafter = make_drafter(name, plugins, options, context)
        if drafter is not None:
            members.append(GuardedDrafter(name, drafter, context.vocab_size or MAX_VOCAB_SIZE))
    return AutoDrafter(members, auto.prefer)


def _combined_names(auto: AutoOptions, plugins: Plugins, options: Mapping[str, Any]) -> list[str]:
    for name in auto.drafters:
        if name in (AUTO, NONE):
            raise InvalidInputError(f"'drafters' of drafter 'auto' takes drafters to combine; {name!r} is none.")
    return list(dict.fromkeys(auto.drafters)) or _suitable_drafters(plugins, options)


def check_options(config: Config, plugins: Plugins) -> None:
    """Raises what a run would for the names and options of drafter and backend; makes nothing, and reads no file.

    Raises:
        CeraError: A name is unknown, a backend cannot run here, or an option is not usable.
    """
    names = [config.drafter]
    if config.drafter == AUTO:
        auto = validated(AutoOptions, config.drafters.get(AUTO, {}), owner="drafter 'auto'")
        names = _combined_names(auto, plugins, config.drafters)
    for name in names:
        if name != NONE:
            _checked_options(plugins.drafter(name), config.drafters.get(name, {}), f"drafter {name!r}")
    is_auto = config.backend == AUTO
    backend = plugins.available_backends()[0] if is_auto else plugins.backend(config.backend)
    options = {**(config.backends.get(AUTO, {}) if is_auto else {}), **config.backends.get(backend.name, {})}
    _checked_options(backend, options, f"backend {backend.name!r}")


def _suitable_drafters(plugins: Plugins, options: Mapping[str, Any]) -> list[str]:
    for_any_text = [name for name in _AUTO_DRAFTERS if name in plugins.drafters][:1]
    with_options = [name for name in options if name != AUTO and name in plugins.drafters]
    return list(dict.fromkeys([*for_any_text, *with_options]))


def make_model(model_file: ModelFile, name: str, plugins: Plugins, options: Mapping[str, Mapping[str, Any]]) -> Model:
    """Loads the weights with the backend of a name; with `auto` the next best where the best does not support them."""
    if name != AUTO:
        return _load_with(plugins.backend(name), model_file, options.get(name, {}))
    *preferred, last = plugins.available_backends()
    for spec in preferred:
        try:
            return _load_with(spec, model_file, {**options.get(AUTO, {}), **options.get(spec.name, {})})
        except UnsupportedModelError as error:
            _log.warning("The backend %r cannot run this model, so the next is tried: %s", spec.name, error)
    return _load_with(last, model_file, {**options.get(AUTO, {}), **options.get(last.name, {})})


def why_not_run(model_file: ModelFile, plugins: Plugins) -> dict[str, str | None]:
    """Returns for each backend, the one `auto` prefers first, why it cannot run a model file; None if it can."""
    reasons: dict[str, str | None] = {}
    for spec in sorted(plugins.backends.values(), key=lambda spec: -spec.priority):
        try:
            _call_plugin(f"backend {spec.name!r}", spec.check_file, model_file)
            reasons[spec.name] = unavailable_because(spec)
        except CeraError as error:
            reasons[spec.name] = str(error)
    return reasons


def _load_with(spec: ModelSpec, model_file: ModelFile, options: Mapping[str, Any]) -> Model:
    owner = f"backend {spec.name!r}"
    checked = _checked_options(spec, options, owner)
    model = _call_plugin(owner, spec.load, model_file, checked)
    if not isinstance(model, Model):
        raise PluginError(f"The {owner} must load a Model; its plugin made a {type(model).__name__}.")
    check_model(model)
    return model


def _checked_options(spec: DrafterSpec | ModelSpec, options: Mapping[str, Any], owner: str) -> BaseModel:
    """Checks options with the plugin's own model, whose validators may fail like any other part of the plugin."""
    checked: BaseModel = _call_plugin(owner, partial(validated, owner=owner), spec.options, options)
    return checked


def _call_plugin(owner: str, function: Any, *arguments: Any) -> Any:
    """Calls a plugin; its own kind of error becomes ours, with the first one as the cause."""
    try:
        return function(*arguments)
    except CeraError:
        raise
    except BaseException as error:
        let_interrupt_through(error)
        raise PluginError(f"The {owner} failed with {error_line(error)}. Its plugin is at fault.") from error


def warn_of_unused(config: Config, plugins: Plugins) -> None:
    """Says which options belong to a drafter or backend that is not there, and so have no effect."""
    left_out = {record.name for record in plugins.records if record.status != "loaded"}
    tables: tuple[tuple[str, Iterable[str], Registry[Any]], ...] = (
        ("drafters", config.drafters, plugins.drafters),
        ("backends", config.backends, plugins.backends),
    )
    for table, names, registry in tables:
        for name in names:
            if not (name in registry or name in registry.reserved or name in left_out):
                warnings.warn(
                    f"The options in '{table}.{name}' have no effect. {registry.unknown(name)}",
                    CeraWarning,
                    stacklevel=3,
                )
