"""``run``, ``batch`` and ``eval``: the commands that grade answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from deepgym.cli import show
from deepgym.cli.answers import read_answer, read_answers, read_rows
from deepgym.cli.matching import in_order
from deepgym.cli.options import Env, Isolation, Json, Mode, Parallel, Reference, Seed
from deepgym.cli.outcome import ExitCode, UsageError, of_batch
from deepgym.cli.progress import progress
from deepgym.exceptions import Interrupted

if TYPE_CHECKING:
    from deepgym.environments import Environment
    from deepgym.models import BatchResult

__all__ = ["batch", "client", "evaluate", "run", "stoppable"]

_Batch = TypeVar("_Batch", bound="BatchResult")


def run(
    env: Env,
    answer: Annotated[
        str | None,
        typer.Argument(help="A file: .py runs as it is, .md and .txt are completions; - is stdin."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="A file with a model's completion; - is stdin.")] = None,
    reference: Reference = False,
    seed: Seed = None,
    mode: Mode = "local",
    isolation: Isolation = None,
    json: Json = False,
) -> None:
    """Grade one answer. Exits 0 if it passed, 1 if it failed, 3 if there is no verdict."""
    environment = _environment(env)
    if sum((answer is not None, text is not None, reference)) != 1:
        raise UsageError("give one of ANSWER (a file, or - for stdin), --text FILE and --reference")
    if reference:
        code = _reference(environment)
    else:
        code = read_answer(answer or text or "", text=text is not None).code
    with client(mode, isolation) as dg:
        batch, interrupted = stoppable(lambda: dg.run_batch(environment, [code], seed=seed))
    for result in batch.results:
        if json:
            show.document(result)
        else:
            show.run(result)
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else of_batch(batch))


def batch(
    env: Env,
    files: Annotated[list[str], typer.Argument(help="Files, or JSONL with completion or code; - is JSONL.")],
    seed: Seed = None,
    max_parallel: Parallel = None,
    mode: Mode = "local",
    isolation: Isolation = None,
    json: Json = False,
) -> None:
    """Grade many answers. A row's env, where it has one, comes before ENV.

    Exits 3 if any run has no verdict, else 1 if any failed.
    """
    answers = read_answers(files)
    names = [answer.env or env for answer in answers]
    known = {name: _environment(name) for name in dict.fromkeys([env, *names])}
    environments = [known[name] for name in names]
    codes = [answer.code for answer in answers]
    with client(mode, isolation) as dg, progress(env, len(answers)) as observer:
        graded, interrupted = stoppable(
            lambda: dg.run_batch(
                environments, codes, max_parallel=max_parallel, seed=seed, observers=[observer]
            )
        )
    _finish(graded, [answer.label for answer in answers], interrupted=interrupted, json=json)


def evaluate(
    suite: Annotated[str, typer.Argument(help="humaneval, builtin, easy, medium, hard, or a JSONL file.")],
    outputs: Annotated[str | None, typer.Argument(help="JSONL: a row for each task; - is stdin.")] = None,
    reference: Reference = False,
    seed: Seed = None,
    max_parallel: Parallel = None,
    mode: Mode = "local",
    isolation: Isolation = None,
    json: Json = False,
) -> None:
    """Grade one answer to each task of a suite.

    Exits 3 if any run has no verdict, else 1 if any failed.
    """
    from deepgym.environments import load_suite

    tasks = load_suite(suite)
    if (outputs is None) == (not reference):
        raise UsageError("give either OUTPUTS (a JSONL file, or - for stdin) or --reference")
    if tasks.skipped:
        typer.echo(f"{len(tasks.skipped)} rows of {suite} are no tasks: {tasks.skipped[0].reason}", err=True)
    codes = [_reference(task) for task in tasks] if outputs is None else in_order(tasks, read_rows(outputs))
    with client(mode, isolation) as dg, progress(tasks.name, len(tasks)) as observer:
        graded, interrupted = stoppable(
            lambda: dg.eval(tasks, codes, max_parallel=max_parallel, seed=seed, observers=[observer])
        )
    _finish(graded, [task.name for task in tasks], interrupted=interrupted, json=json)


def client(mode: str, isolation: str | None = None) -> Any:
    """The client of ``mode``, to use in a ``with`` block. Raises ``UsageError`` for walls there aren't."""
    from deepgym.client import DeepGym

    if isolation is None:
        return DeepGym(mode)
    if mode != "local":
        raise UsageError(f"--isolation {isolation} is for the local sandbox, and --mode is {mode}; drop one")
    try:
        return DeepGym(mode, isolation=isolation)
    except ValueError as error:
        raise UsageError(str(error)) from error


def stoppable(grade: Callable[[], _Batch]) -> tuple[_Batch, bool]:
    """What ``grade`` returns, or what it had when Ctrl-C stopped it; and whether it was stopped."""
    try:
        return grade(), False
    except Interrupted as stop:
        if stop.batch is None:
            raise
        return stop.batch, True  # type: ignore[return-value]


def _finish(graded: BatchResult, labels: list[str], *, interrupted: bool, json: bool) -> None:
    if json:
        show.document(graded)
    else:
        show.batch(labels, graded)
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else of_batch(graded))


def _environment(name: str) -> Environment:
    from deepgym.environments import load_environment

    return load_environment(name)


def _reference(environment: Environment) -> str:
    if environment.reference is None:
        raise UsageError(f"{environment.name} has no reference answer")
    return environment.reference
