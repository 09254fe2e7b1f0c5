"""``deepgym lm-eval``: lm-eval's own ``run`` with our tasks, their list, and stored runs judged again."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from deepgym.cli import show
from deepgym.cli.grade import client
from deepgym.cli.options import Isolation, Json, Mode
from deepgym.cli.outcome import ExitCode, UsageError
from deepgym.exceptions import DeepGymError

if TYPE_CHECKING:
    from .regrading import Metric, Regraded

__all__ = ["app"]


class _Commands(TyperGroup):
    """The commands; of lm-eval's options in front of them it says where they belong."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            raise UsageError(f"lm-eval's options come after run: deepgym lm-eval run {args[0]} ...")
        return super().parse_args(ctx, args)


class _Harness(TyperCommand):
    """A command whose arguments are all another's, ``--help`` and ``--`` too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, [])
        ctx.args = list(args)
        return rest


app = typer.Typer(
    cls=_Commands,
    help="Code benchmarks in lm-evaluation-harness, with the share that was judged.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command(cls=_Harness, options_metavar="[OPTIONS OF lm-eval run]")
def run(context: typer.Context) -> None:
    """Run lm-eval: `lm-eval run` with all its options, and DeepGym's tasks are known to it."""
    from .running import run as harness

    try:
        harness(context.args)
    except DeepGymError:
        raise
    except Exception as error:  # lm-eval's, and what its models raise
        # Shown here, because Typer takes an EOFError or a broken pipe for a terminal that was closed and says
        # nothing of where it comes from, and because a dozen of its own frames would stand above any other.
        traceback.print_exception(type(error), error, error.__traceback__)
        raise typer.Exit(1) from error


@app.command("ls")
def list_(json: Json = False) -> None:
    """List the names that --tasks takes, without loading lm-eval."""
    from .names import listing

    found = listing()
    if json:
        show.document([{"name": name, "about": about} for name, about in found])
        return
    width = max(len(name) for name, _ in found)
    for name, about in found:
        typer.echo(f"{name:<{width}}  {about}")


@app.command()
def path() -> None:
    """Print the folder of the tasks, for lm_eval --include_path."""
    from .names import folder

    typer.echo(folder())


@app.command()
def regrade(
    samples: Annotated[list[Path], typer.Argument(help="Files samples_<task>_<date>.jsonl of lm-eval.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the logs with the new grades: a file, or a folder for several.")
    ] = None,
    suite: Annotated[
        str | None, typer.Option(help="What the tasks are of, if it isn't built in, as mbpp.jsonl.")
    ] = None,
    only_missing: Annotated[
        bool, typer.Option("--only-missing", help="Judge only what had no verdict.")
    ] = False,
    mode: Mode = "local",
    isolation: Isolation = None,
    json: Json = False,
) -> None:
    """Judge stored generations again, without a model. Exits 3 if any run has no verdict, else 0; 1 if a log
    couldn't be written.
    """
    from .regrading import regrade as judge

    for file in samples:
        _file(file)
    with client(mode, isolation) as dg:
        logs = judge(samples, suite=suite, only_missing=only_missing, out=out, dg=dg)
    if json:
        show.document([_plain(log) for log in logs])
    else:
        _table(logs)
    if out is not None and any(log.out is None for log in logs):
        raise typer.Exit(ExitCode.FAILED)
    missing = any(log.judged < log.runs for log in logs)
    raise typer.Exit(ExitCode.NO_VERDICT if missing else ExitCode.PASSED)


def _file(path: Path) -> None:
    """Raise ``UsageError`` for what is no file, before a sandbox is opened."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the files in it: {path}/samples_*.jsonl")
    if not path.exists():
        raise UsageError(f"{path} doesn't exist; lm-eval writes samples_*.jsonl with --log_samples")


def _plain(log: Regraded) -> dict[str, Any]:
    metrics = {name: {"value": metric.value, "stderr": metric.stderr} for name, metric in log.metrics.items()}
    counts = ("documents", "runs", "judged", "anew", "gained", "lost", "moved", "ungraded")
    return {
        "path": str(log.path),
        "task": log.task,
        **{name: getattr(log, name) for name in counts},
        "no_verdict": log.no_verdict,
        "metrics": metrics,
        "out": None if log.out is None else str(log.out),
    }


def _table(logs: Sequence[Regraded]) -> None:
    """A line for each metric, and below a task's metrics what was judged and what is new."""
    rows = [(log.task, name, *_cells(metric)) for log in logs for name, metric in log.metrics.items()]
    titles = ("task", "metric", "value", "stderr")
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(4)]
    _row(titles, widths)
    for log in logs:
        for name, metric in log.metrics.items():
            _row((log.task, name, *_cells(metric)), widths)
    for log in logs:
        typer.echo(show.safe(f"{log.task}: {_counts(log)}"))


def _row(cells: tuple[str, str, str, str], widths: list[int]) -> None:
    task, metric, value, stderr = (show.safe(cell) for cell in cells)
    typer.echo(f"{task:<{widths[0]}}  {metric:<{widths[1]}}  {value:>{widths[2]}}  {stderr:>{widths[3]}}")


def _cells(metric: Metric) -> tuple[str, str]:
    value = "-" if metric.value is None else f"{metric.value:.4f}"
    return value, "-" if metric.stderr is None else f"{metric.stderr:.4f}"


def _counts(log: Regraded) -> str:
    said = [f"{log.judged} of {log.runs} runs of {log.documents} documents have a verdict"]
    if log.no_verdict:
        causes = ", ".join(f"{count} {cause}" for cause, count in log.no_verdict.items())
        said.append(f"without one: {causes}")
    if log.anew < log.runs:
        said.append(f"{log.anew} were judged now")
    if log.ungraded < log.runs:
        said.append(f"against the log {log.gained} gained a verdict, {log.lost} lost it, {log.moved} changed")
    if log.out is not None:
        said.append(f"written to {log.out}")
    return "; ".join(said)
