"""``deepgym envs``: what there is to grade against."""

from __future__ import annotations

import json as json_
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from deepgym.cli import show
from deepgym.cli.options import Env, Json

if TYPE_CHECKING:
    from deepgym.environments import Environment, MultiTurnEnvironment, ToolCall

__all__ = ["app"]

app = typer.Typer(help="List environments, or look into one.", invoke_without_command=True)

SuiteName = Annotated[
    str | None,
    typer.Option(
        help="Only of this suite: builtin, easy, humaneval, a JSONL path, ...; default: all built in."
    ),
]


@app.callback()
def default(context: typer.Context, suite: SuiteName = None, json: Json = False) -> None:
    """List environments, or look into one."""
    if context.invoked_subcommand is None:
        list_(suite=suite, json=json)


@app.command("list")
def list_(suite: SuiteName = None, json: Json = False) -> None:
    """List the environments: those that are answered at once, then the multi-turn ones."""
    summaries = [_summary(environment) for environment in _chosen(suite)]
    if json:
        show.document(summaries)
        return
    width = max((len(str(summary["name"])) for summary in summaries), default=0)
    for summary in summaries:
        mark = "multi-turn: " if summary["kind"] == "multi_turn" else ""
        line = f"{summary['name']:<{width}}  {summary['difficulty'] or '-':<8}{mark}{_shown(summary['tags'])}"
        typer.echo(line.rstrip())


@app.command()
def inspect(
    name: Env,
    reference: Annotated[bool, typer.Option("--reference", help="Show its reference answer too.")] = False,
    json: Json = False,
) -> None:
    """Show one environment: its task, how answers are verified, and its limits."""
    from deepgym.environments.registry import load_task

    environment = load_task(name)
    if json:
        show.document(environment)
        return
    for key, value in _summary(environment).items():
        typer.echo(f"{key + ':':<12}{_shown(value)}".rstrip())
    limits = environment.limits.model_dump(exclude_none=True)
    typer.echo(f"{'limits:':<12}{', '.join(f'{key} {value}' for key, value in limits.items())}")
    typer.echo(f"\n{show.safe(environment.task.rstrip())}")
    for title, text in _parts(environment, reference):
        typer.echo(f"\n--- {show.safe(title)}\n{show.safe(text.rstrip())}")


def _chosen(suite: str | None) -> Iterator[Environment | MultiTurnEnvironment]:
    from deepgym.environments import list_multi_turn_environments, load_multi_turn_environment, load_suite

    yield from load_suite(suite or "builtin")
    if suite is None:
        yield from map(load_multi_turn_environment, list_multi_turn_environments())


def _shown(value: object) -> str:
    return show.safe(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))


def _summary(environment: Environment | MultiTurnEnvironment) -> dict[str, object]:
    from deepgym.environments import MultiTurnEnvironment

    about: dict[str, object] = {"name": environment.name}
    if isinstance(environment, MultiTurnEnvironment):
        verify = "program" + (", and one after each step" if environment.step_verify else "")
        about |= {
            "kind": "multi_turn",
            "tools": list(environment.tools),
            "requires": list(environment.requires),
        }
    else:
        verify = _how(environment)
        about |= {"kind": "single_turn", "language": environment.language}
    return about | {
        "difficulty": environment.difficulty,
        "tags": list(environment.tags),
        "verify": verify,
        "files": list(environment.files),
        "digest": environment.digest,
    }


def _how(environment: Environment) -> str:
    verify = environment.verify
    if verify.kind == "program":
        return "program"
    return f"{len(verify.cases)} declared cases" + (
        ", more drawn from a seed" if verify.draw is not None else ""
    )


def _parts(environment: Environment | MultiTurnEnvironment, reference: bool) -> Iterator[tuple[str, str]]:
    """Titles and texts of what stands below the task."""
    from deepgym.environments import MultiTurnEnvironment

    if isinstance(environment, MultiTurnEnvironment):
        calls = (environment.reference or ()) if reference else ()
        for number, call in enumerate(calls, start=1):
            yield f"reference, step {number}: {call.name}", _call_text(call)
        return
    if environment.prefix:
        yield "prefix", environment.prefix
    if reference and environment.reference is not None:
        yield "reference", environment.reference


def _call_text(call: ToolCall) -> str:
    values = list(call.arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return values[0]
    return json_.dumps(call.arguments) if values else ""
