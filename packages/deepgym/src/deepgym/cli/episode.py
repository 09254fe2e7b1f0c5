"""``deepgym episode``: a model, or the reference, plays an environment in a sandbox."""

from __future__ import annotations

import json as json_
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepgym.cli import show
from deepgym.cli.grade import client
from deepgym.cli.options import Env, Isolation, Json, Mode
from deepgym.cli.outcome import ExitCode, UsageError, of_batch
from deepgym.cli.progress import progress

if TYPE_CHECKING:
    from deepgym.cli.progress import Tally
    from deepgym.environments.multi_turn import MultiTurnEnvironment
    from deepgym.environments.tools import ToolCall
    from deepgym.models import BatchResult
    from deepgym.session.agents import Agent
    from deepgym.session.records import Trajectory

__all__ = ["episode"]

#: Of what one step showed, in the transcript of a single episode.
_LINES, _CHARACTERS = 12, 1500


def episode(
    env: Env,
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server, such as http://localhost:8000/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model's name on that server.")] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Play the environment's reference; needs no model.")
    ] = False,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Episodes to play.")] = 1,
    parallel: Annotated[int | None, typer.Option("--parallel", "-j", min=1, help="Episodes at once.")] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=(1 << 63) - 1, help="Of all episodes, instead of the environment's."),
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Append each trajectory to this JSONL file as its episode ends.")
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="DEEPGYM_API_KEY", show_envvar=True, help="The server's key.")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="Default: the server's.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of one reply.")] = 4096,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds of one reply.")] = 600.0,
    tools: Annotated[
        str, typer.Option(help="How the model calls tools: native, text (fenced blocks), or auto.")
    ] = "auto",
    mode: Mode = "local",
    isolation: Isolation = None,
    json: Json = False,
) -> None:
    """Let a model, or the reference, work on a multi-turn environment, and grade what it leaves.

    Exits 3 if any episode has no verdict, else 1 if any failed.
    """
    from deepgym.environments import load_multi_turn_environment
    from deepgym.session.agents import ScriptedAgent

    environment = load_multi_turn_environment(env)
    agent: Agent
    if reference:
        if base_url or model:
            raise UsageError("--reference plays without a model; drop --base-url and --model")
        if environment.reference is None:
            raise UsageError(f"{environment.name} has no reference")
        agent, label = ScriptedAgent(environment.reference), "reference"
    else:
        options = {"api_key": api_key, "temperature": temperature, "max_tokens": max_tokens}
        agent, label = _model(base_url, model, {**options, "timeout": timeout, "tools": tools}), str(model)
    with progress(environment.name, number) as tally, client(mode, isolation) as dg:
        desk = _Desk(environment, number, tally, out)
        plan = {"n": number, "seed": seed, "max_parallel": parallel, "metadata": {"agent": label}}
        interrupted = desk.play(dg, agent, plan)
    graded = desk.graded()
    if json:
        show.document(desk.document(graded))
    else:
        desk.show(graded)
    if desk.unwritten:
        typer.echo(f"{desk.unwritten} trajectories aren't in {out}: {desk.why}", err=True)
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else of_batch(graded))


def _model(base_url: str | None, model: str | None, options: dict[str, Any]) -> Agent:
    from deepgym.session.chat import ChatAgent

    if not base_url or not model:
        raise UsageError("give --base-url and --model, or --reference")
    try:
        return ChatAgent(base_url, model, **options)
    except ValueError as error:
        raise UsageError(str(error)) from error


class _Desk:
    """Where episodes are handed in as they end."""

    def __init__(self, env: MultiTurnEnvironment, number: int, tally: Tally, out: str | None) -> None:
        from deepgym.session.journal import Journal

        self._env = env
        self._tally = tally
        self._found: list[Trajectory | None] = [None] * number
        self._journal = None if out is None else Journal(out)
        self.unwritten = 0
        self.why = ""
        if out is not None:
            try:
                with open(out, "ab"):
                    pass
            except OSError as error:
                raise UsageError(f"can't write {out!r}: {error.strerror or error}") from None

    def play(self, dg: Any, agent: Agent, plan: dict[str, Any]) -> bool:
        """Whether Ctrl-C stopped it."""
        try:
            dg.run_episodes(self._env, agent, on_episode=self._take, **plan)
        except KeyboardInterrupt:
            return True
        return False

    def _take(self, index: int, trajectory: Trajectory) -> None:
        self._found[index] = trajectory
        if trajectory.result is not None:
            self._tally.on_result(index, trajectory.result)
        try:
            if self._journal is not None:
                self._journal.append(trajectory)
        except OSError as error:
            self.unwritten += 1
            self.why = str(error)

    def graded(self) -> BatchResult:
        """The results in order; an episode that was stopped has none that is a verdict."""
        from deepgym.models import BatchResult, RunResult

        message = "stopped before the episode was over"
        stopped = RunResult(score=0.0, error_type="cancelled", error=message, env_name=self._env.name)
        results = [one.result if one is not None else None for one in self._found]
        return BatchResult(results=tuple(result or stopped for result in results))

    def document(self, graded: BatchResult) -> dict[str, Any]:
        """Totals and trajectories as JSON."""
        totals = graded.model_dump(mode="json", exclude={"results"})
        played = [one.model_dump(mode="json") for one in self._found if one is not None]
        return {"env_name": self._env.name, "totals": totals, "episodes": played}

    def show(self, graded: BatchResult) -> None:
        """A single episode step by step, or a line for each of several; then the totals."""
        first = self._found[0]
        if len(self._found) == 1 and first is not None:
            _transcript(first)
        for index, trajectory in enumerate(self._found):
            if trajectory is not None:
                typer.echo(f"{index + 1:>3}  {_facts(trajectory)}  {show.line(graded.results[index])}")
        show.totals(graded)


def _facts(trajectory: Trajectory) -> str:
    steps = sum(len(turn.calls) for turn in trajectory.turns)
    counted = f"{steps} step{'' if steps == 1 else 's'}"
    return f"{trajectory.ended or '-':<9}  {counted:>9}  {trajectory.session_seconds:>7.1f} s"


def _transcript(trajectory: Trajectory) -> None:
    typer.echo(f"{show.safe(trajectory.task.rstrip())}\n")
    for turn in trajectory.turns:
        said = (turn.message or {}).get("content")
        if isinstance(said, str) and said.strip():
            typer.echo(typer.style(_brief(said), dim=True))
        for index, call in enumerate(turn.calls):
            typer.echo(typer.style(f"> {_brief(_called(call))}", bold=True))
            if index < len(turn.observations):
                typer.echo(_brief(turn.observations[index].text))
    typer.echo("")


def _called(call: ToolCall) -> str:
    values = list(call.arguments.values())
    if len(values) == 1 and isinstance(values[0], str):
        return f"{call.name}: {values[0]}"
    return f"{call.name} {json_.dumps(call.arguments)}" if values else call.name


def _brief(text: str) -> str:
    """The beginning of a text that somebody else wrote."""
    lines = text.strip("\n")[:_CHARACTERS].split("\n")
    short = "\n".join(lines[:_LINES])
    return show.safe(short if len(short) == len(text.strip("\n")) else f"{short}\n[...]")
