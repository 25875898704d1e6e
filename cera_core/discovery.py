"""Finds plugins through entry points and loads them one by one, each in isolation.

A plugin that cannot be imported, implements a hook nobody knows or takes a name that is taken is recorded with the
reason and left out; it harms nobody else, and is an error only for the one who asks for it by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from cera_core import hookspecs
from cera_core.errors import PluginError
from cera_core.near_match import did_you_mean
from cera_core.registry import Registry
from cera_core.specs import DrafterSpec, ModelSpec

ENTRY_POINT_GROUP = "cera"
OWN_DISTRIBUTION = "cera"
KEBAB_CASE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRecord:
    """What became of one entry point.

    Attributes:
        name: The entry point's name.
        distribution: The package it comes from.
        version: That package's version.
        status: `loaded`, `broken` or `disabled`.
        reason: Why it is not loaded; None if it is.
        drafters: Names of the drafters it brought.
        backends: Names of the backends it brought.
    """

    name: str
    distribution: str
    version: str
    status: str
    reason: str | None = None
    drafters: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()


class Plugins:
    """All plugins of this process.

    Attributes:
        manager: The pluggy manager, for observers and commands.
        drafters: The drafters that can be chosen by name.
        backends: The backends that can be chosen by name.
        records: What became of each entry point.
    """

    def __init__(self) -> None:
        self.manager = _new_manager()
        self.drafters: Registry[DrafterSpec] = Registry("drafter")
        self.backends: Registry[ModelSpec] = Registry("backend")
        self.records: list[PluginRecord] = []

    def drafter(self, name: str) -> DrafterSpec:
        """Returns the drafter of that name.

        Raises:
            PluginError: Its plugin is broken or disabled.
            UnknownNameError: Nobody brought it.
        """
        if name in self.drafters:
            return self.drafters[name]
        self._raise_if_left_out(name)
        raise self.drafters.unknown(name, also=("auto", "none"))

    def backend(self, name: str) -> ModelSpec:
        """Returns the backend of that name.

        Raises:
            PluginError: It cannot run here, or its plugin is broken or disabled.
            UnknownNameError: Nobody brought it.
        """
        if name in self.backends:
            spec = self.backends[name]
            if reason := unavailable_because(spec):
                raise PluginError(f"The backend {name!r} is not available: {reason}")
            return spec
        self._raise_if_left_out(name)
        raise self.backends.unknown(name, also=("auto",))

    def load(self, entry_point: EntryPoint) -> None:
        """Loads one plugin and records what became of it; an exception in the plugin stays here."""
        record = _record(entry_point, "broken")
        plugin = None
        try:
            plugin = entry_point.load()
            self._register(plugin, entry_point.name)
            drafters, models = self._collect(plugin)
        except (Exception, SystemExit) as error:
            if plugin is not None and self.manager.is_registered(plugin):
                self.manager.unregister(plugin)
            self.records.append(replace(record, reason=_one_line(error)))
            return
        self.drafters.add(drafters)
        self.backends.add(models)
        self.records.append(
            replace(
                record,
                status="loaded",
                drafters=tuple(spec.name for spec in drafters),
                backends=tuple(spec.name for spec in models),
            )
        )

    def _register(self, plugin: Any, name: str) -> None:
        """Hands a plugin to pluggy after a look at its hooks."""
        own_hooks = [attribute for attribute in dir(plugin) if self.manager.parse_hookimpl_opts(plugin, attribute)]
        known_hooks = list(vars(self.manager.hook))
        for hook in own_hooks:
            if hook not in known_hooks:
                raise PluginError(f"It implements an unknown hook {hook!r}.{did_you_mean(hook, known_hooks)}")
        if not own_hooks:
            raise PluginError("It implements no hook of cera (functions marked with '@hookimpl').")
        self.manager.register(plugin, name)

    def _collect(self, plugin: Any) -> tuple[list[DrafterSpec], list[ModelSpec]]:
        """Asks one plugin for its specs and checks them, before any of them counts."""
        drafters: list[DrafterSpec] = []
        models: list[ModelSpec] = []
        others = [other for other in self.manager.get_plugins() if other is not plugin]
        self.manager.subset_hook_caller("cera_register_drafters", others)(register=drafters.append)
        self.manager.subset_hook_caller("cera_register_models", others)(register=models.append)
        _check_specs(drafters, DrafterSpec, self.drafters, reserved=("auto", "none"))
        _check_specs(models, ModelSpec, self.backends, reserved=("auto",))
        return drafters, models

    def available_backends(self) -> list[ModelSpec]:
        """Returns the backends that can run here, the one that `auto` means first.

        Raises:
            PluginError: There is none.
        """
        reasons = {spec.name: unavailable_because(spec) for spec in self.backends.values()}
        available = [spec for spec in self.backends.values() if reasons[spec.name] is None]
        if not available:
            left_out = {record.name: record.reason for record in self.records if record.status != "loaded"}
            why = " ".join(f"{name}: {reason}" for name, reason in (reasons | left_out).items())
            raise PluginError(f"No backend is available. {why or 'None is installed; reinstall cera.'}")
        return sorted(available, key=lambda spec: -spec.priority)

    def _raise_if_left_out(self, name: str) -> None:
        for record in self.records:
            if record.name == name and record.status != "loaded":
                raise PluginError(
                    f"The plugin {name!r} of {record.distribution} {record.version} is {record.status}: {record.reason}"
                )


def discover(disabled: Collection[str] = (), *, strangers_only: bool = False) -> Plugins:
    """Loads all plugins.

    Args:
        disabled: Names of entry points or distributions that are not to be loaded.
        strangers_only: Leave out the plugins that come with cera itself, which costs no import of theirs.

    Returns:
        What was found, the first-party plugins first, so that nobody displaces them, then by distribution and name.
    """
    plugins = Plugins()
    for entry_point in _sorted_entry_points():
        record = _record(entry_point, "disabled")
        if strangers_only and record.distribution == OWN_DISTRIBUTION:
            continue
        if entry_point.name in disabled or record.distribution in disabled:
            plugins.records.append(replace(record, reason="It is named in 'disabled_plugins'."))
        else:
            plugins.load(entry_point)
    return plugins


def unavailable_because(spec: ModelSpec) -> str | None:
    """Returns why a backend cannot run here, or None; one that cannot even tell is not available."""
    try:
        return spec.availability()
    except Exception as error:
        return f"asking it failed with {_one_line(error)}"


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT_NAME)
    for specifications in (
        hookspecs.DrafterHooks,
        hookspecs.ModelHooks,
        hookspecs.ObserverHooks,
        hookspecs.CommandHooks,
    ):
        manager.add_hookspecs(specifications)
    return manager


def _sorted_entry_points() -> Iterator[EntryPoint]:
    def first_party_first(entry_point: EntryPoint) -> tuple[bool, str, str]:
        distribution = _record(entry_point, "").distribution
        return distribution != OWN_DISTRIBUTION, distribution, entry_point.name

    return iter(sorted(entry_points(group=ENTRY_POINT_GROUP), key=first_party_first))


def _record(entry_point: EntryPoint, status: str) -> PluginRecord:
    distribution = entry_point.dist
    return PluginRecord(
        name=entry_point.name,
        distribution=distribution.name if distribution else "unknown",
        version=distribution.version if distribution else "unknown",
        status=status,
    )


def _check_specs(specs: list[Any], kind: type[Any], registry: Registry[Any], reserved: tuple[str, ...]) -> None:
    """Raises if a spec is no spec, or its name is taken."""
    names: set[str] = set(reserved)
    for spec in specs:
        if not isinstance(spec, kind):
            raise PluginError(f"It registered {spec!r:.80} where a {kind.__name__} is required.")
        if not (isinstance(spec.name, str) and KEBAB_CASE.fullmatch(spec.name)):
            raise PluginError(f"It registers a {registry.kind} named {spec.name!r:.80}; a name is in kebab-case.")
        if spec.name in registry or spec.name in names:
            raise PluginError(f"It registers the {registry.kind} {spec.name!r}, a name that is already taken.")
        names.add(spec.name)


def _one_line(error: BaseException) -> str:
    """Returns an error of a plugin on one line; our own errors need no class name."""
    text = " ".join(str(error).split())
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}".rstrip(": ")
