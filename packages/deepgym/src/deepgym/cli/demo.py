"""``deepgym demo``: HumanEval's own answers graded, then one group's rewards with an outage in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from deepgym.cli import show
from deepgym.cli.grade import client, stoppable
from deepgym.cli.group import COMPLETIONS, graded_group
from deepgym.cli.options import Json, Parallel
from deepgym.cli.outcome import ExitCode, of_batch
from deepgym.cli.progress import progress
from deepgym.contract.groups import group_advantages

if TYPE_CHECKING:
    from deepgym.environments import Suite
    from deepgym.models import BatchResult, EvalResult

__all__ = ["demo"]

_SHOWN = 10


def demo(max_parallel: Parallel = None, json: Json = False) -> None:
    """Grade HumanEval's 164 reference answers, then a group of eight answers with an outage.

    Exits 0 if every reference passed, 1 if one failed, 3 if one has no verdict.
    """
    suite = _suite()
    with client("local") as dg:
        references, interrupted = _references(dg, suite, max_parallel)
    if not json:
        typer.echo(f"{suite.name}: reference answers to {len(suite)} tasks")
        _unusual(references)
        show.totals(references)
    group = None
    if not interrupted:
        group, interrupted = stoppable(graded_group)
    advantages = None if group is None else group_advantages(group.rewards)
    if json:
        graded = {"references": references, "group": group}
        shown = {name: part and part.model_dump(mode="json") for name, part in graded.items()}
        show.document({**shown, "advantages": advantages})
    elif group is not None and advantages is not None:
        _table(group, advantages)
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else of_batch(references))


def _suite() -> Suite:
    from deepgym.environments import load_suite
    from deepgym.exceptions import DeepGymError

    try:
        return load_suite("humaneval")
    except DeepGymError as error:
        typer.echo(f"HumanEval isn't here, so the built-in tasks stand in for it: {error}", err=True)
        return load_suite("builtin")


def _references(dg: Any, suite: Suite, max_parallel: int | None) -> tuple[EvalResult, bool]:
    answers = [task.reference or "" for task in suite]
    with progress(suite.name, len(suite)) as observer:
        return stoppable(lambda: dg.eval(suite, answers, max_parallel=max_parallel, observers=[observer]))


def _unusual(references: EvalResult) -> None:
    named = zip(references.env_names, references.results, strict=True)
    unusual = [(name, result) for name, result in named if not result.passed]
    for name, result in unusual[:_SHOWN]:
        typer.echo(f"{name}  {show.line(result)}")
    if len(unusual) > _SHOWN:
        typer.echo(f"and {len(unusual) - _SHOWN} more")


def _table(group: BatchResult, advantages: list[float | None]) -> None:
    typer.echo("\ncoin_change: one group of eight answers, one of them hit by a simulated outage")
    typer.echo(f"{'answer':<34}{'reward':>8}{'advantage':>11}  verdict")
    for label, result, advantage in zip(COMPLETIONS, group.results, advantages, strict=True):
        typer.echo(f"{label:<34}{_number(result.reward):>8}{_number(advantage):>11}  {show.line(result)}")
    typer.echo("None is left out: the mean and the deviation come from the judged answers alone.")
    show.totals(group)


def _number(value: float | None) -> str:
    return "None" if value is None else f"{value:.2f}"
