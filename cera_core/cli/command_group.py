"""The commands by name, each imported when it is called, so that listing them costs next to nothing.

Commands of plugins are asked for only when they can matter: a listing loads the plugins that do not come with cera,
a name that is not built in loads all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from cera_core.errors import ConfigError
from cera_core.foreign_errors import error_line, let_interrupt_through

if TYPE_CHECKING:
    from cera_core.discovery import Plugins

BUILT_IN = {
    "run": "Answers one prompt.",
    "chat": "Talks with the model, turn by turn.",
    "bench": "Compares plain decoding with drafters on this machine.",
    "explain": "Answers one prompt and shows what happened in each round.",
    "verify": "Compares texts with and without drafts, token for token.",
    "replay": "Predicts from recorded texts what drafters would have brought.",
    "corpus": "Makes documents ready to be drafted from.",
    "pull": "Fetches a model into the cache of this machine.",
    "models": "Lists the models that can be pulled, and those that are here.",
    "inspect": "Shows what a model file holds, and whether it can be run.",
    "tokenize": "Shows the tokens of a text.",
    "plugins": "Lists drafters, backends and the packages they come from.",
    "new": "Writes a small drafter or backend as a package that works.",
    "check": "Checks an installed drafter or backend against its contract.",
    "doctor": "Shows what this machine and install can do.",
    "config": "Shows the effective settings and where each came from.",
}
"""What each command does. The command itself is `app` of the module of that name beside this one."""


def add_built_in_commands(app: typer.Typer) -> None:
    """Adds a stand-in for each command that comes with cera."""
    for name, summary in BUILT_IN.items():
        app.command(name, cls=_lazy_command(name), help=summary)(lambda: None)


def _lazy_command(name: str) -> type[TyperCommand]:
    """Makes a stand-in that imports the command when it is called, or asked for its own help."""

    class LazyCommand(TyperCommand):
        def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
            app: typer.Typer = import_module(f"cera_core.cli.{name}").app
            app.rich_markup_mode = self.rich_markup_mode
            return get_command(app).make_context(info_name, args, parent=parent, **extra)

    return LazyCommand


class CommandGroup(TyperGroup):
    """The built-in commands and, where they can matter, those of plugins."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names in the order of the help; first-party plugins, which add none, are not imported."""
        if any(_distribution_of(entry_point) != "cera" for entry_point in entry_points(group="cera")):
            try:
                self._add_plugin_commands(strangers_only=True)
            except ConfigError as error:
                _warn(f"The commands of plugins are left out. {error}")
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Returns a command; a name that is not built in is sought among all plugins."""
        if cmd_name not in self.commands and not cmd_name.startswith("-"):
            self._add_plugin_commands(strangers_only=False)
        return super().get_command(ctx, cmd_name)

    def _add_plugin_commands(self, *, strangers_only: bool) -> None:
        from cera_core.config import load_config  # noqa: PLC0415 - costs more than the listing itself
        from cera_core.discovery import discover  # noqa: PLC0415

        plugins = discover(load_config().disabled_plugins, strangers_only=strangers_only)
        for plugin_name, commands in _commands_by_plugin(plugins):
            for name, command in commands.items():
                if name not in BUILT_IN:
                    self.commands.setdefault(name, command)
                else:
                    _warn(f"The plugin {plugin_name!r} adds a command {name!r}, which cera has itself; it is left out.")


def _commands_by_plugin(plugins: Plugins) -> Iterator[tuple[str, dict[str, Any]]]:
    """Asks the plugins one by one for their commands; one that fails costs a warning."""
    everybody = plugins.manager.get_plugins()
    for name, plugin in plugins.manager.list_name_plugin():
        app = typer.Typer()
        app.callback()(lambda: None)  # a group, however few commands come
        try:
            plugins.manager.subset_hook_caller("cera_register_commands", everybody - {plugin})(app=app)
            commands = dict(get_group(app).commands)  # reads the signatures, which may be none that typer understands
        except BaseException as error:
            let_interrupt_through(error)
            _warn(f"The plugin {name!r} cannot add its commands: {error_line(error)}")
        else:
            yield name, commands


def _distribution_of(entry_point: Any) -> str:
    return entry_point.dist.name if entry_point.dist else ""


def _warn(text: str) -> None:
    typer.echo(f"Warning: {text}", err=True)
