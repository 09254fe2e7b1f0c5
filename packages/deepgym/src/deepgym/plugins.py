"""Plugins: what other distributions add, found through entry points and loaded when first asked for.

deepgym.providers   name -> a Provider class        DeepGym(mode="docker")
deepgym.cli         name -> a Typer app             deepgym verl ...
deepgym.checks      name -> () -> list[Finding]     deepgym doctor verl (with a parameter: a configuration)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points, version
from typing import TYPE_CHECKING, Literal, cast

from deepgym.exceptions import DeepGymError, UnknownNameError

if TYPE_CHECKING:
    from deepgym.providers.base import Provider

__all__ = [
    "Finding",
    "Group",
    "PluginError",
    "UnknownPluginError",
    "install_line",
    "load",
    "load_provider",
    "names",
]

Group = Literal["deepgym.providers", "deepgym.cli", "deepgym.checks"]

#: Extras of ``deepgym`` that bring a provider: ``mode="docker"`` without it answers with its install line.
PROVIDERS = ("daytona", "docker", "e2b", "modal")
#: All extras of ``deepgym`` that bring a plugin.
EXTRAS = (*PROVIDERS, "axolotl", "console", "harbor", "lm-eval", "openrlhf", "ray", "trl", "verl")
#: Other spellings of a plugin's name.
ALIASES = {"lmeval": "lm-eval"}


class PluginError(DeepGymError):
    """An installed plugin can't be used; the message names the distribution it comes from."""


class UnknownPluginError(PluginError, UnknownNameError):
    """No installed plugin has this name; the message says what to install, or what there is."""


_KINDS = {"deepgym.providers": "provider", "deepgym.cli": "command", "deepgym.checks": "check"}


@dataclass(frozen=True)
class Finding:
    """One line of ``deepgym doctor``: what was looked at, how it stands, and what to do about it."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str = ""
    tier: str = ""
    """Which of several sandboxes it is about; such findings stand side by side in a table."""
    word: str = ""
    """Its cell there."""


def names(group: Group) -> list[str]:
    """Names of the installed plugins of ``group``, sorted. Loads none of them."""
    return sorted({point.name for point in entry_points(group=group)})


def load(group: Group, name: str) -> object:
    """Import the plugin ``name`` of ``group`` and return the object that its entry point names.

    Raises:
        UnknownPluginError: no installed distribution has it.
        PluginError: it can't be imported, or two distributions claim the name.
    """
    name = ALIASES.get(name, name)
    found = [point for point in entry_points(group=group) if point.name == name]
    if not found:
        raise _unknown(group, name)
    if len(found) > 1:
        owners = " and ".join(sorted(_owner(point) for point in found))
        raise PluginError(f"{group} {name!r} is claimed by {owners}; uninstall one of them")
    try:
        loaded: object = found[0].load()
    except Exception as error:  # a plugin's import may raise anything
        raise PluginError(
            f"{group} {name!r} of {_owner(found[0])} can't be loaded: {type(error).__name__}: {error}"
        ) from error
    return loaded


def load_provider(name: str) -> Callable[..., Provider]:
    """Load the provider ``name`` of a plugin: its class, or a function that makes one from options.

    Raises:
        UnknownPluginError: as ``load`` does.
        PluginError: as ``load`` does; also if what the entry point names can't be called.
    """
    loaded = load("deepgym.providers", name)
    if not callable(loaded):
        raise PluginError(f"deepgym.providers {name!r} is no Provider class but {loaded!r}")
    return cast("Callable[..., Provider]", loaded)


def install_line(name: str) -> str:
    """Shell command that installs the plugin ``name`` at the core's own version.

    The version is pinned because other releases under this name belong to another project.
    """
    return f'pip install "deepgym[{name}]=={version("deepgym")}"'


def _owner(point: EntryPoint) -> str:
    if point.dist is None:
        return "an unknown distribution"
    return f"{point.dist.name} {point.dist.version}"


def _unknown(group: Group, name: str) -> UnknownNameError:
    kind = _KINDS[group]
    extras = PROVIDERS if kind == "provider" else EXTRAS
    if name in extras:
        return UnknownPluginError(
            f"{kind} {name!r} isn't installed; to install it: {install_line(name)}", name
        )
    return UnknownPluginError.among(kind, name, ["local", *names(group), *extras])
