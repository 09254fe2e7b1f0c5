"""``axolotl deepgym ...``. Only Axolotl's command line imports this, and with it brings click."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deepgym.exceptions import DeepGymError
from deepgym.plugins import Finding

__all__ = ["deepgym"]

_COLORS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.group()
def deepgym() -> None:
    """Rewards by DeepGym: write a run's file, check one."""


@deepgym.command()
@click.argument("run", type=click.Path(exists=True, dir_okay=False))
@click.option("--quick", is_flag=True, help="Only the file: don't ask the installed trainer.")
def check(run: str, quick: bool) -> None:
    """Check a run's YAML file, and that Axolotl leaves out what has no verdict; exits 1 if not."""
    from .check import findings
    from .checkrun import run_findings

    found = [*run_findings(run), *([] if quick else findings())]
    for finding in found:
        _show(finding)
    if any(finding.status == "fail" for finding in found):
        raise click.exceptions.Exit(1)


@deepgym.command()
@click.argument("run", type=click.Path(dir_okay=False))
@click.option("--model", required=True, help="base_model.")
@click.option("--env", "envs", multiple=True, help="An environment; may be given several times.")
@click.option("--suite", help="A suite instead.")
@click.option("--cpu", is_flag=True, help="Train on the CPU.")
@click.option("--masked", is_flag=True, help="Rows without a verdict leave the loss too.")
@click.option("--dapo", is_flag=True, help="DAPO's arguments and its penalty on overlong answers.")
@click.option("--group-mean", is_flag=True, help="The judged siblings' mean instead of None.")
@click.option("--num-generations", type=click.IntRange(2), default=8, show_default=True)
@click.option("--max-completion-length", type=click.IntRange(1), default=512, show_default=True)
@click.option("--max-steps", type=click.IntRange(1), default=200, show_default=True)
@click.option("--output-dir", default="./out", show_default=True)
def config(run: str, model: str, envs: tuple[str, ...], suite: str | None, **options: Any) -> None:
    """Write a run's YAML file, which `axolotl train` takes as it is."""
    from .judge import grader
    from .runfile import run_file
    from .settings import DeepGymSection, Setup

    try:
        text = run_file(model, envs, suite=suite, **options)
        grader(Setup(section=DeepGymSection(envs=envs or None, suite=suite)))
    except DeepGymError as error:
        raise click.ClickException(str(error)) from error
    try:
        with Path(run).open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.ClickException(f"{run} can't be written: {error}") from error


def _show(finding: Finding) -> None:
    word = click.style(f"{finding.status:<5}", fg=_COLORS[finding.status])
    click.echo(f"{word} {finding.name}: {finding.detail}")
    if finding.remedy and finding.status != "ok":
        click.echo(f"      remedy: {finding.remedy}")
