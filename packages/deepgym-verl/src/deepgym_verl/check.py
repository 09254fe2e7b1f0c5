"""What ``deepgym doctor verl`` says: whether the installed verl leaves out what has no verdict.

Nothing of verl is imported here. Its loops, reward managers and advantages run in a process of their own
(``probe``), so an answer is about this installation and not about what a version number promises.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from deepgym.integrations.checking import gathered, own_versions, version_of
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding

from . import versions
from .probed import REPORT, error_of, found_in, graded
from .settings import findings_of
from .versions import INSTALL, SUPPORTED

__all__ = ["findings"]

#: Which plugins verl loads: ``auto`` (all), ``none``, or names with commas between.
_POLICY = "VERL_USE_EXTERNAL_PLUGINS"
#: Modules that verl imports whatever that says.
_MODULES = "VERL_USE_EXTERNAL_MODULES"
_PLUGIN = "deepgym_verl.plugin"
_NAME = "deepgym"


def findings(config: Path | None = None) -> list[Finding]:
    """What was looked at and how it stands. Never raises: what fails is a finding, with its remedy.

    Args:
        config: A run's settings to look at too: a configuration of verl's, overrides, or a script.

    Without verl there is a ``warn`` with the line that installs it, and what can be checked without it.
    """
    parts: dict[str, Callable[[], Iterable[Finding]]] = {"packages": _packages, "plugins": _plugins}
    if config is not None:
        parts[config.name] = functools.partial(findings_of, config)
    parts["verl's own code"] = functools.partial(_asked, config is None)
    return gathered(parts, REPORT)


def _packages() -> Iterator[Finding]:
    yield from own_versions("deepgym-verl", "verl")
    verl = versions.installed()
    if verl is None:
        yield Finding("verl", "warn", "verl isn't installed, so nothing of it was tried", INSTALL)
        return
    yield _verl(verl)
    for package in versions.missing():
        detail = f"verl {verl} needs {package}, which it doesn't require and which isn't installed"
        yield Finding(package, "fail", detail, INSTALL)
    trl = version_of("trl")
    if trl is not None and versions.numbers(trl) >= versions.TRL:
        detail = (
            f"trl {trl}: verl imports a class from it that trl 1.13 removed, and fails as it loads a model"
        )
        remedy = 'pip install "trl>=1.6,<1.13", pip uninstall trl, or give verl an environment of its own'
        yield Finding("trl beside verl", "fail", detail, remedy)


def _verl(found: str) -> Finding:
    if versions.supported(found):
        return Finding("verl", "ok", f"{found} ({SUPPORTED})")
    if versions.numbers(found) < (0, 9):
        why = "it loads no plugins and reads other configuration keys"
        return Finding("verl", "fail", f"{found}, not {SUPPORTED}: {why}", INSTALL)
    return Finding("verl", "warn", f"{found}, not {SUPPORTED}: nobody has tried it", INSTALL)


def _plugins() -> Iterator[Finding]:
    """Whether verl finds our entry point, and is allowed to load it."""
    if versions.installed() is None:
        return
    known = {point.value for point in entry_points(group="verl.plugins") if point.name == _NAME}
    if _named_as_module():
        yield Finding("plugins", "ok", f"{_MODULES} names {_PLUGIN}")
    elif known != {_PLUGIN}:
        detail = f"no distribution says that {_PLUGIN} is verl's plugin {_NAME}"
        yield Finding("plugins", "fail", detail, f"reinstall it: {INSTALL}")
    elif not _allowed():
        detail = f"{_POLICY}={os.environ[_POLICY]} keeps {_NAME} out: verl knows neither loops nor estimators"
        yield Finding("plugins", "fail", detail, f"unset {_POLICY}, or add {_NAME} to its names")
    else:
        yield Finding("plugins", "ok", f"verl loads {_NAME}")


def _named_as_module() -> bool:
    return _PLUGIN in os.environ.get(_MODULES, "").split(",")


def _allowed() -> bool:
    policy = os.environ.get(_POLICY, "auto").strip().lower()
    return policy == "auto" or _NAME in (name.strip() for name in policy.split(","))


def _asked(machine: bool) -> Iterator[Finding]:
    """The installed verl; without it, or without what it needs, our function alone.

    Args:
        machine: Look at the machine's processors too; a configuration says how many Ray is to count.
    """
    answers = answers_of("deepgym_verl.probe")
    if isinstance(answers, str):
        yield Finding("verl's own code", "fail", answers, REPORT)
        return
    yield graded(answers.get("graded"))
    if versions.installed() is None or versions.missing():
        return
    yield from found_in(answers, plugins=_named_as_module() or _allowed())
    if machine:
        yield from _processors(answers.get("cpus"))


def _processors(asked: Any) -> Iterator[Finding]:
    """Ray counts the machine's processors, and what asks for one more waits for ever, without a word."""
    found = os.cpu_count() or 1
    if not isinstance(asked, int) or isinstance(asked, bool):
        if error_of(asked) is not None:
            yield Finding("Ray's processors", "warn", f"they can't be looked up: {error_of(asked)}", REPORT)
        return
    detail = f"Ray counts {found} here; the v1 trainer sets {asked} aside, and more for each GPU"
    if found > asked:
        yield Finding("Ray's processors", "ok", detail)
        return
    remedy = (
        "without them it waits for ever: set ray_kwargs.ray_init.num_cpus=32, which only counts them, and "
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1"
    )
    yield Finding("Ray's processors", "warn", detail, remedy)
