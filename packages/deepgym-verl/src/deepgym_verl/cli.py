"""``deepgym verl``: rows for verl, its configuration, and the file of the agent loops."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deepgym.cli import show
from deepgym.cli.options import Json
from deepgym.cli.outcome import UsageError

__all__ = ["app"]

_PREFIX = "deepgym verl:"

app = typer.Typer(
    help="Rewards for verl: rows, configuration, agent loops.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Envs = Annotated[
    list[str],
    typer.Argument(
        metavar="ENV", help="Environments by name or folder, suites, JSONL files.", show_default=False
    ),
]


@app.command()
def agent_loops() -> None:
    """Print the path of the agent-loop file, for where verl loads no plugins, and on stderr its key."""
    path = str(Path(__file__).with_name("agent_loops.yaml"))
    typer.echo(f"actor_rollout_ref.rollout.agent.agent_loop_config_path={path}", err=True)
    typer.echo(path)


@app.command()
def rows(
    env: Envs,
    out: Annotated[Path, typer.Option(help="The file to write; its name ends in .parquet.")],
    system: Annotated[str | None, typer.Option(help="A system message.")] = None,
    instruction: Annotated[
        str | None,
        typer.Option(help="How to answer, said after the task; default: in one fenced code block."),
    ] = None,
    split: Annotated[str, typer.Option(help="Noted in each row.")] = "train",
    repeat: Annotated[int, typer.Option(min=1, help="Rows of each environment.")] = 1,
    data_source: Annotated[
        str | None,
        typer.Option(help="By which validation groups its metrics; default: deepgym/ and the suite's name."),
    ] = None,
    agent_name: Annotated[
        str,
        typer.Option(
            help="The agent loop: auto (by the kind of environment), none (no such column, for "
            "compute_score), or a name."
        ),
    ] = "auto",
    json: Json = False,
) -> None:
    """Write a Parquet file with a row for each environment: its prompt and its name."""
    from .rows import verl_rows, write_parquet

    made = verl_rows(
        env,
        system=system,
        instruction=instruction,
        split=split,
        repeat=repeat,
        data_source=data_source,
        agent_name=None if agent_name == "none" else agent_name,
    )
    try:
        count = write_parquet(out, made)
    except OSError as error:
        raise UsageError(f"{out} can't be written: {error}") from error
    loops = sorted({str(row["agent_name"]) for row in made if "agent_name" in row})
    if json:
        show.document({"path": str(out), "rows": count, "agent_names": loops})
    else:
        named = f" for {' and '.join(loops)}" if loops else ", without an agent loop"
        typer.echo(f"{count} row{'s' * (count != 1)}{named} in {show.safe(str(out))}")


@app.command()
def config(
    env: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV",
            help="What grades, as for rows; default: each row names a built-in environment.",
            show_default=False,
        ),
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(help="Parquet file to train on; may be repeated.")
    ] = None,
    val: Annotated[list[str] | None, typer.Option(help="Parquet file to validate on.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Name or path; with it the rest that a first run needs is said too."),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Samples of a prompt.")] = 8,
    gpus: Annotated[int, typer.Option(min=1, help="Of one node; with --model.")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="Prompts of a step; with --model.")] = 32,
    prompt_length: Annotated[int | None, typer.Option(min=1, help="In tokens; verl's default: 512.")] = None,
    response_length: Annotated[int | None, typer.Option(min=1, help="The same of a response.")] = None,
    estimator: Annotated[
        str, typer.Option(help="deepgym_grpo, deepgym_rloo, or one of verl's.")
    ] = "deepgym_grpo",
    trainer_mode: Annotated[
        str, typer.Option(help="Of verl's v1 trainer: sync, colocate_async, separate_async.")
    ] = "sync",
    legacy: Annotated[bool, typer.Option("--legacy", help="verl's legacy trainer.")] = False,
    agent: Annotated[
        bool, typer.Option("--agent", help="There are rows for agents; needed only if no ENV says so.")
    ] = False,
    tool_format: Annotated[str, typer.Option(help="How the model writes calls of tools.")] = "hermes",
    function: Annotated[
        bool, typer.Option("--function", help="Grade with compute_score; rows with --agent-name none.")
    ] = False,
    dapo: Annotated[bool, typer.Option("--dapo", help="Clip higher, and replace groups that agree.")] = False,
    metric: Annotated[
        str, typer.Option(help="In which they agree: acc, score or reward; with --dapo.")
    ] = "acc",
    overlong: Annotated[
        int | None,
        typer.Option(min=1, help="Last tokens of --response-length that cost reward; implies --function."),
    ] = None,
    mode: Annotated[
        str | None, typer.Option(help="Where answers run: local, or a provider plugin's name.")
    ] = None,
    max_parallel: Annotated[
        int | None, typer.Option(min=1, help="Runs that a worker starts at once.")
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option(min=1, help="Episodes that one has open at once.")
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help="Seconds in which a run must be able to start and end; default: 3600."),
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(help="What a v1 agent loop does without a verdict: auto, raise, empty, mask."),
    ] = None,
    yaml: Annotated[bool, typer.Option("--yaml", help="A configuration file instead of a command.")] = False,
    json: Json = False,
) -> None:
    """Print verl's command with all that DeepGym needs said, to run or to take from. Starts nothing.

    Files of rows that are there already are looked at: they must name what grades here.
    """
    from .agreement import disagreements
    from .recipe import settings
    from .spelling import config_file, override, shell_command

    if yaml and json:
        raise UsageError("--yaml and --json are two forms of one output; drop one")
    given: dict[str, Any] = {
        **{"train": train or None, "val": val or None, "model": model, "n": n, "gpus": gpus, "batch": batch},
        **{"prompt_length": prompt_length, "response_length": response_length, "estimator": estimator},
        **{
            "trainer_mode": trainer_mode,
            "legacy": legacy,
            "agent": agent or None,
            "tool_format": tool_format,
        },
        **{"function": function, "dapo": dapo, "metric": metric, "overlong": overlong, "mode": mode},
        **{"max_parallel": max_parallel, "max_sessions": max_sessions, "deadline": deadline, "lost": lost},
    }
    chosen = settings(env or None, **{name: value for name, value in given.items() if value is not None})
    wrong = disagreements(chosen)
    if wrong:
        raise UsageError("the rows don't agree with this:" + "".join(f"\n  {line}" for line in wrong[:10]))
    overrides = [override(key, value) for key, value in chosen.items()]
    if json:
        show.document(list(overrides))
        return
    typer.echo(config_file(chosen) if yaml else shell_command(overrides), nl=not yaml)
    if model is None:
        _say("without --model: add the model, the engine, batch sizes and GPUs")
    if function or overlong is not None:
        _say("compute_score grades only rows without agent_name: deepgym verl rows ... --agent-name none")


def _say(text: str) -> None:
    typer.echo(f"{_PREFIX} {text}", err=True)
