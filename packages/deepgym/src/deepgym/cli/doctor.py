"""``deepgym doctor``: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from deepgym import plugins
from deepgym.cli import show, table
from deepgym.cli.options import Json
from deepgym.cli.outcome import ExitCode, UsageError
from deepgym.plugins import Finding

__all__ = ["doctor", "findings"]

#: The local sandbox's own check, which needs no plugin.
LOCAL = "local"
_COLORS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


def doctor(
    name: Annotated[str | None, typer.Argument(help="One check: local, or a plugin's. Default: all.")] = None,
    config: Annotated[
        Path | None,
        typer.Argument(help="A configuration for that check to look at too, where it knows one (verl)."),
    ] = None,
    json: Json = False,
) -> None:
    """Check what this machine enforces, and the installed plugins. Exits 1 if a check fails."""
    found: list[tuple[str, Finding]] = []
    for check, group in groupby(findings(name, config), key=lambda pair: pair[0]):
        ours = [finding for _, finding in group]
        found += [(check, finding) for finding in ours]
        if not json:
            _show_all(check, ours)
    if json:
        show.document([{"check": check, **asdict(finding)} for check, finding in found])
    failed = any(finding.status == "fail" for _, finding in found)
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.PASSED)


def findings(name: str | None = None, config: Path | None = None) -> Iterator[tuple[str, Finding]]:
    """Each finding with its check's name; the local sandbox first, then the plugins in order.

    A check that raises is itself a failed finding, so the others still run. ``config`` is given to a check
    that takes it.

    Raises:
        UnknownPluginError: there is no check of that name.
        UsageError: that check looks at no configuration, or there is no such file.
    """
    if config is not None and not config.is_file():
        raise UsageError(f"there is no file {str(config)!r}")
    if name is None:
        chosen = [LOCAL, *(known for known in plugins.names("deepgym.checks") if known != LOCAL)]
    else:
        name = plugins.ALIASES.get(name, name)
        if name != LOCAL and name not in plugins.names("deepgym.checks"):
            plugins.load("deepgym.checks", name)
        chosen = [name]
    for check in chosen:
        for finding in _run(check, config):
            yield check, finding


def _run(check: str, config: Path | None) -> list[Finding]:
    try:
        if check == LOCAL:
            from deepgym.checks import local_sandbox

            run: Any = local_sandbox
        else:
            run = plugins.load("deepgym.checks", check)
        if config is not None and not inspect.signature(run).parameters:
            raise UsageError(f"the check {check} looks at no configuration: deepgym doctor {check}")
        found = list(run() if config is None else run(config))
        wrong = [item for item in found if not isinstance(item, Finding)]
        if wrong:
            raise TypeError(f"it returned {type(wrong[0]).__name__}, not Finding")
        return found
    except UsageError:
        raise
    except plugins.PluginError as error:
        return [Finding(check, "fail", str(error), "reinstall or remove that distribution")]
    except Exception as error:  # noqa: BLE001 (whatever a check raises is what it found)
        detail = f"the check itself failed: {type(error).__name__}: {error}"
        return [Finding(check, "fail", detail, f"report it to whoever maintains the {check} check")]


def _show_all(check: str, found: list[Finding]) -> None:
    """Findings about tiers side by side, those among them that need words below, and the others by line."""
    tiered = [finding for finding in found if finding.tier]
    if tiered:
        table.of_tiers(tiered)
    said: set[str] = set()
    for finding in found:
        if not finding.tier or finding.status != "ok":
            _show(check, finding, finding.remedy in said)
            said.add(finding.remedy)


def _show(check: str, finding: Finding, again: bool) -> None:
    word = typer.style(f"{finding.status:<5}", fg=_COLORS.get(finding.status))
    name = f"{finding.tier}: {finding.name}" if finding.tier else finding.name
    typer.echo(f"{word} {check}: {name}: {show.safe(finding.detail)}")
    if finding.remedy and finding.status != "ok":
        typer.echo(f"      remedy: {'as above' if again else show.safe(finding.remedy)}")
