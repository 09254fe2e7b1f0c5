"""Commands that other distributions add (entry points ``deepgym.cli``), loaded when first needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command as command_of

from deepgym import plugins
from deepgym.cli.outcome import UsageError

__all__ = ["Commands"]


class Commands(TyperGroup):
    """The core's commands, then the plugins'. A plugin is imported only if it is named or listed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the core's commands and, after them, of the plugins'."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in plugins.names("deepgym.cli") if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; for a plugin that can't be loaded one that says so; ``None`` if there is none."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        cmd_name = plugins.ALIASES.get(cmd_name, cmd_name)
        if cmd_name in plugins.names("deepgym.cli"):
            return _plugin(cmd_name)
        if cmd_name in plugins.EXTRAS:
            return _failing(cmd_name, f"{cmd_name!r} isn't installed; {plugins.install_line(cmd_name)}")
        return None


def _plugin(name: str) -> Any:
    try:
        loaded = plugins.load("deepgym.cli", name)
        if not isinstance(loaded, typer.Typer):
            raise plugins.PluginError(
                f"deepgym.cli {name!r} of {_owner(name)} is {type(loaded).__name__}, not a Typer app"
            )
        command = command_of(loaded)
    except plugins.PluginError as error:
        return _failing(name, str(error))
    except Exception as error:  # noqa: BLE001 (building a foreign app may raise anything)
        return _failing(name, f"command {name!r} of {_owner(name)}: {type(error).__name__}: {error}")
    command.name = name
    return command


def _owner(name: str) -> str:
    dists = [point.dist for point in entry_points(group="deepgym.cli", name=name)]
    return f"{dists[0].name} {dists[0].version}" if dists and dists[0] else "an unknown distribution"


def _failing(name: str, message: str) -> Any:
    app = typer.Typer(add_completion=False)
    app.command(
        name,
        help=f"Not usable: {message}",
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_raising(message))
    return command_of(app)


def _raising(message: str) -> Callable[[], None]:
    def fail() -> None:
        raise UsageError(message)

    return fail
