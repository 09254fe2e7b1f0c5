"""The command line, put together."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from deepgym.cli import demo, doctor, envs, episode, grade, show
from deepgym.cli.extensions import Commands
from deepgym.cli.outcome import ExitCode, of_error
from deepgym.exceptions import DeepGymError

__all__ = ["app", "run"]

app = typer.Typer(
    name="deepgym",
    cls=Commands,
    help="Grade answers in isolated processes. A run has a verdict, or it has none.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(grade.run)
app.command("batch")(grade.batch)
app.command("eval")(grade.evaluate)
app.command("episode")(episode.episode)
app.add_typer(envs.app, name="envs")
app.command("demo")(demo.demo)
app.command("doctor")(doctor.doctor)


def _version(wanted: bool) -> None:
    if wanted:
        import deepgym

        typer.echo(f"deepgym {deepgym.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Grade answers in isolated processes. A run has a verdict, or it has none."""


def run(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit; see ``deepgym.cli.main``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that can't show a character must not cost the user the result.
            stream.reconfigure(errors="backslashreplace")
    try:
        app(args=None if argv is None else list(argv), prog_name="deepgym")
    except DeepGymError as error:
        typer.echo(f"{typer.style('error:', fg=typer.colors.RED)} {show.safe(str(error))}", err=True)
        sys.exit(of_error(error))
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
