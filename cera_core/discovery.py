"""Finds plugins through entry points and loads them one by one, each in isolation.

A plugin that cannot be imported, implements a hook nobody knows or takes a name that is taken is recorded with the
reason and left out; it harms nobody else, and is an error only for the one who asks for it by name.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from cera_core import hookspecs
from cera_core.errors import CeraWarning, PluginError, UnknownNameError
from cera_core.foreign_errors import error_line, let_interrupt_through
from cera_core.near_match import did_you_mean
from cera_core.origins import ENTRY_POINT_GROUP
from cera_core.plugin_trace import trace_hook_calls
from cera_core.registry import AUTO, NONE, Registry
from cera_core.specs import DrafterSpec, ModelSpec

OWN_DISTRIBUTION = "cera"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginRecord:
    """What became of one entry point.

    Attributes:
        name: The entry point's name.
        distribution: The package it comes from.
        version: That package's version.
        status: `loaded`, `broken`, `incompatible` or `disabled`.
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
        self.drafters = Registry("drafter", DrafterSpec, reserved=(AUTO, NONE))
        self.backends = Registry("backend", ModelSpec, reserved=(AUTO,))
        self.records: list[PluginRecord] = []

    def drafter(self, name: str) -> DrafterSpec:
        """Returns the drafter of that name.

        Raises:
            PluginError: Its plugin is broken, incompatible or disabled.
            UnknownNameError: Nobody brought it.
        """
        if name in self.drafters:
            return self.drafters[name]
        self._raise_if_left_out(name)
        raise self._unknown(self.drafters, name)

    def backend(self, name: str) -> ModelSpec:
        """Returns the backend of that name.

        Raises:
            PluginError: It cannot run here, or its plugin is broken, incompatible or disabled.
            UnknownNameError: Nobody brought it.
        """
        if name in self.backends:
            spec = self.backends[name]
            if reason := unavailable_because(spec):
                raise PluginError(f"The backend {name!r} is not available: {reason}")
            return spec
        self._raise_if_left_out(name)
        raise self._unknown(self.backends, name)

    def available_backends(self) -> list[ModelSpec]:
        """Returns the backends that can run here, the one that `auto` means first.

        Raises:
            PluginError: There is none.
        """
        reasons = {spec.name: unavailable_because(spec) for spec in self.backends.values()}
        available = [spec for spec in self.backends.values() if reasons[spec.name] is None]
        if not available:
            why = " ".join(f"{name}: {reason}" for name, reason in reasons.items())
            raise PluginError(f"No backend is available. {why or 'None is installed; reinstall cera.'}")
        return sorted(available, key=lambda spec: -spec.priority)

    def load(self, entry_point: EntryPoint) -> None:
        """Loads one plugin and records what became of it; an exception in the plugin stays here."""
        record = _record(entry_point, "broken")
        try:
            plugin = entry_point.load()
            if reason := _incompatible_because(plugin, record):
                self.records.append(replace(record, status="incompatible", reason=reason))
                return
            drafters, models = self._register(plugin, record)
        except BaseException as error:
            let_interrupt_through(error)
            self.records.append(replace(record, reason=error_line(error)))
            return
        self.drafters.add(drafters, record.distribution)
        self.backends.add(models, record.distribution)
        self.records.append(
            replace(
                record,
                status="loaded",
                drafters=tuple(spec.name for spec in drafters),
                backends=tuple(spec.name for spec in models),
            )
        )

    def _register(self, plugin: Any, record: PluginRecord) -> tuple[list[DrafterSpec], list[ModelSpec]]:
        """Hands a sound plugin to pluggy and returns its specs; one with a flaw leaves no trace."""
        self._check_hooks(plugin)
        if self.manager.is_registered(plugin):
            raise PluginError(f"It is the same object as the plugin {self.manager.get_name(plugin)!r}.")
        is_free = self.manager.get_plugin(record.name) is None
        try:
            self.manager.register(plugin, record.name if is_free else f"{record.name} of {record.distribution}")
            return self._collect(plugin)
        except BaseException:
            if self.manager.is_registered(plugin):
                self.manager.unregister(plugin)
            raise

    def _check_hooks(self, plugin: Any) -> None:
        """Raises if a plugin has no hooks, or one that would never be called as its author thinks."""
        known = list(vars(self.manager.hook))
        num_hooks = 0
        for attribute in dir(plugin):
            options: Any = self.manager.parse_hookimpl_opts(plugin, attribute)
            if options is None:
                if attribute in known:
                    raise PluginError(f"Its {attribute!r} is not marked with '@hookimpl'.")
                continue
            hook = options.get("specname") or attribute
            if hook not in known and not options.get("optionalhook"):
                raise PluginError(f"It implements an unknown hook {hook!r}.{did_you_mean(hook, known)}")
            if options.get("wrapper") or options.get("hookwrapper"):
                raise PluginError(f"Its {attribute!r} is a wrapper; the hooks of cera are plain functions.")
            num_hooks += 1
        if not num_hooks:
            raise PluginError("It implements no hook of cera (functions marked with '@hookimpl').")

    def _collect(self, plugin: Any) -> tuple[list[DrafterSpec], list[ModelSpec]]:
        """Asks one plugin for its specs and checks them, before any of them counts."""
        drafters: list[DrafterSpec] = []
        models: list[ModelSpec] = []
        others = [other for other in self.manager.get_plugins() if other is not plugin]
        for hook, register in (("cera_register_drafters", drafters.append), ("cera_register_models", models.append)):
            if self.manager.subset_hook_caller(hook, others)(register=register):
                raise PluginError(f"Its {hook!r} returns something; it must call 'register' with each spec instead.")
        self.drafters.check(drafters)
        self.backends.check(models)
        return drafters, models

    def _raise_if_left_out(self, name: str) -> None:
        for record in self.records:
            if record.name == name and record.status != "loaded":
                raise PluginError(
                    f"The plugin {name!r} of {record.distribution} {record.version} is {record.status}: {record.reason}"
                )

    def _unknown(self, registry: Registry[Any], name: str) -> UnknownNameError:
        """Makes the error for a name nobody brought; a plugin that is left out may be the one that has it."""
        error = registry.unknown(name)
        left_out = ", ".join(repr(record.name) for record in self.records if record.status != "loaded")
        return UnknownNameError(f"{error} Not loaded: {left_out}; `cera plugins` says why.") if left_out else error


def discover(disabled: Collection[str] = (), *, strangers_only: bool = False) -> Plugins:
    """Loads all plugins.

    Args:
        disabled: Names of entry points or distributions that are not to be loaded.
        strangers_only: Leave out the plugins that come with cera itself, which costs no import of theirs.

    Returns:
        What was found, the first-party plugins first, so that nobody displaces them, then by distribution and name.
    """
    plugins = Plugins()
    if os.environ.get("CERA_TRACE_PLUGINS"):
        trace_hook_calls(plugins.manager)
    unwanted = {_canonical(name): name for name in disabled}
    found: set[str] = set()
    for entry_point in _sorted_entry_points():
        record = _record(entry_point, "disabled")
        names = {_canonical(record.name), _canonical(record.distribution)}
        found |= names
        if strangers_only and record.distribution == OWN_DISTRIBUTION:
            continue
        if names & unwanted.keys():
            plugins.records.append(replace(record, reason="It is named in 'disabled_plugins'."))
        else:
            plugins.load(entry_point)
    for canonical_name in unwanted.keys() - found:
        name = unwanted[canonical_name]
        warnings.warn(
            f"'disabled_plugins' names {name!r}, and no plugin or package of that name is installed."
            f"{did_you_mean(name, found)}",
            CeraWarning,
            stacklevel=2,
        )
    return plugins


def unavailable_because(spec: ModelSpec) -> str | None:
    """Returns why a backend cannot run here, or None; one that cannot even tell is not available."""
    try:
        return spec.availability() or None
    except BaseException as error:
        let_interrupt_through(error)
        return f"asking it failed with {error_line(error)}"


def _incompatible_because(plugin: Any, record: PluginRecord) -> str | None:
    """Returns why a plugin that says what it is written for cannot be used; one that does not say is tried."""
    wanted = getattr(plugin, "CERA_PLUGIN_API", hookspecs.PLUGIN_API)
    if wanted == hookspecs.PLUGIN_API:
        return None
    own = hookspecs.PLUGIN_API
    return (
        f"It is written for version {wanted!r:.20} of the plugin API, and this cera has {own}. Install a release of "
        f"{record.distribution!r} for {own}, or of cera with {wanted!r:.20}."
    )


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


def _sorted_entry_points() -> list[EntryPoint]:
    def first_party_first(entry_point: EntryPoint) -> tuple[bool, str, str]:
        distribution = _record(entry_point, "").distribution
        return distribution != OWN_DISTRIBUTION, distribution, entry_point.name

    return sorted(entry_points(group=ENTRY_POINT_GROUP), key=first_party_first)


def _record(entry_point: EntryPoint, status: str) -> PluginRecord:
    distribution = entry_point.dist
    return PluginRecord(
        name=entry_point.name,
        distribution=distribution.name if distribution else "unknown",
        version=distribution.version if distribution else "unknown",
        status=status,
    )


def _canonical(name: str) -> str:
    """Makes spellings of a package name the same: https://peps.python.org/pep-0503/#normalized-names."""
    return re.sub(r"[-_.]+", "-", name).lower()
