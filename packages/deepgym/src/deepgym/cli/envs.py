"""``deepgym envs``: what there is to grade against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from deepgym.cli import show
from deepgym.cli.options import Env, Json

if TYPE_CHECKING:
    from deepgym.environments import Environment

__all__ = ["app"]

app = typer.Typer(help="List environments, or look into one.", invoke_without_command=True)

SuiteName = Annotated[str, typer.Option(help="Of this suite: builtin, humaneval, a JSONL path, ...")]


@app.callback()
def default(context: typer.Context, suite: SuiteName = "builtin", json: Json = False) -> None:
    """List environments, or look into one."""
    if context.invoked_subcommand is None:
        list_(suite=suite, json=json)


@app.command("list")
def list_(suite: SuiteName = "builtin", json: Json = False) -> None:
    """List the environments of a suite."""
    from deepgym.environments import load_suite

    environments = list(load_suite(suite))
    if json:
        show.document([_summary(environment) for environment in environments])
        return
    width = max((len(environment.name) for environment in environments), default=0)
    for environment in environments:
        tags = show.safe(", ".join(environment.tags))
        typer.echo(f"{environment.name:<{width}}  {environment.difficulty or '-':<8}{tags}".rstrip())


@app.command()
def inspect(
    name: Env,
    reference: Annotated[bool, typer.Option("--reference", help="Show its reference answer too.")] = False,
    json: Json = False,
) -> None:
    """Show one environment: its task, how answers are verified, and its limits."""
    from deepgym.environments import load_environment

    environment = load_environment(name)
    if json:
        show.document(environment)
        return
    for key, value in _summary(environment).items():
        typer.echo(f"{key + ':':<12}{', '.join(value) if isinstance(value, (list, tuple)) else value}")
    limits = environment.limits.model_dump(exclude_none=True)
    typer.echo(f"{'limits:':<12}{', '.join(f'{key} {value}' for key, value in limits.items())}")
    typer.echo(f"\n{show.safe(environment.task.rstrip())}")
    if environment.prefix:
        typer.echo(f"\n--- prefix\n{show.safe(environment.prefix.rstrip())}")
    if reference and environment.reference is not None:
        typer.echo(f"\n--- reference\n{show.safe(environment.reference.rstrip())}")


def _summary(environment: Environment) -> dict[str, object]:
    verify = environment.verify
    kind = "program" if verify.kind == "program" else f"{len(verify.cases)} declared cases"
    drawn = verify.kind == "cases" and verify.draw is not None
    return {
        "name": environment.name,
        "difficulty": environment.difficulty,
        "language": environment.language,
        "tags": list(environment.tags),
        "verify": kind + (", more drawn from a seed" if drawn else ""),
        "files": list(environment.files),
        "digest": environment.digest,
    }
