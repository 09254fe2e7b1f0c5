"""``deepgym openrlhf``: serve rewards to OpenRLHF, and check an endpoint that does."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deepgym.cli import show
from deepgym.cli.options import Isolation, Json, Mode, Parallel
from deepgym.cli.outcome import ExitCode, UsageError

from . import flags, versions

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym

__all__ = ["TOKEN", "app"]

#: Where the token stands if no file is given. Not on the command line, which every user of a host can read.
TOKEN = "DEEPGYM_OPENRLHF_TOKEN"
_PREFIX = "deepgym openrlhf:"

app = typer.Typer(
    help="Rewards for OpenRLHF: an endpoint that always answers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

TokenFile = Annotated[
    Path | None, typer.Option(help=f"A file that holds the token; default: the variable {TOKEN}.")
]


@app.command()
def serve(
    infra_failure_score: Annotated[
        str,
        typer.Option(
            help="What a sample without a verdict gets: a number, group_mean, drop_group, or unsafe_nan."
        ),
    ],
    env: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ENV",
            help="Environments by name or folder, suites, JSONL files; with several, a sample's label names "
            "one. Default: the label names any built-in one.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Beyond this machine only with a token.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 5000,
    group_size: Annotated[
        int | None,
        typer.Option(min=1, help="The trainer's n_samples_per_prompt: siblings are waited for."),
    ] = None,
    sibling_wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds that siblings which don't come are waited for.")
    ] = 120.0,
    max_parallel: Parallel = None,
    token_file: TokenFile = None,
    grace: Annotated[
        float, typer.Option(min=0.0, help="Seconds that runs may go on after a signal to stop.")
    ] = 5.0,
    mode: Mode = "local",
    isolation: Isolation = None,
) -> None:
    """Serve rewards until SIGTERM or Ctrl-C, which answers what is held. Prints the trainer's flag."""
    from .access import is_loopback
    from .router import create_app
    from .serving import address, allow_open_files, bound, environments_of, serve, tried

    token = _token(token_file)
    if token is None and not is_loopback(host):
        raise UsageError(
            f"--host {host} lets other machines in, so it needs a token: put one into {TOKEN}, or into a "
            "file for --token-file"
        )
    envs, remarks = environments_of(env or ())
    dg = _client(mode, isolation)
    options = {
        "group_size": group_size,
        "sibling_wait": sibling_wait,
        "max_parallel": max_parallel,
        "token": token,
    }
    try:
        served = create_app(envs or None, dg, infra_failure_score=_score(infra_failure_score), **options)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for remark in remarks:
        _say(remark)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    allow_open_files()
    listener = bound(host, port)

    def started() -> None:
        _say(f"serving {_named(envs)} at {address(listener, host, None)}; the trainer's flag:")
        version = versions.installed()
        for line in flags.lines("reward", address(listener, host, token), version):
            typer.echo(line)
        if infra_failure_score == "drop_group":
            _say("and, or drop_group drops nothing:")
            for line in flags.filtering_lines(version):
                typer.echo(line)

    async def all_of_it() -> bool:
        _say(await tried(dg, envs or environments_of(["two_sum"])[0]))
        return await serve(served, dg, listener, grace=grace, started=started)

    try:
        in_order = asyncio.run(all_of_it())
    finally:
        listener.close()
    counted = served.state.endpoint.grading.tally
    lost = counted.samples - counted.judged
    _say(f"stopped; {counted.samples} samples answered, {lost} of them without a verdict")
    raise typer.Exit(ExitCode.PASSED if in_order else ExitCode.FAILED)


@app.command()
def check(
    url: Annotated[str, typer.Argument(help="The endpoint's address, as the trainer is given it.")],
    env: Annotated[
        str | None,
        typer.Option(help="An environment that it serves, with a reference; default: the first it names."),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(envvar=TOKEN, show_envvar=True, help="If the address doesn't hold it."),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="A file that holds the token.")] = None,
    json: Json = False,
) -> None:
    """Send what the trainer sends, and say what holds. Exits 1 if something doesn't."""
    from .inspection import inspected

    if token_file is not None:
        token = _read(token_file)
    found = []
    for finding in inspected(url, env=env, token=token):
        found.append(finding)
        if not json:
            typer.echo(f"{finding.status:<5} {finding.name}: {show.safe(finding.detail)}")
            if finding.remedy and finding.status != "ok":
                typer.echo(f"      remedy: {show.safe(finding.remedy)}")
    if json:
        from dataclasses import asdict

        show.document([asdict(finding) for finding in found])
    failed = any(finding.status == "fail" for finding in found)
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.PASSED)


@app.command()
def agent_path() -> None:
    """Print the path of the agent file, and on stderr the trainer's flag that takes it."""
    _path("agent.py", "agent")


@app.command()
def reward_path() -> None:
    """Print the path of the file with reward_func, and on stderr the trainer's flag that takes it."""
    _path("reward_file.py", "reward")


def _path(name: str, kind: str) -> None:
    path = str(Path(__file__).with_name(name))
    for line in flags.lines(kind, path, versions.installed()):
        typer.echo(line, err=True)
    typer.echo(path)


def _score(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _token(file: Path | None) -> str | None:
    if file is not None:
        return _read(file)
    token = os.environ.get(TOKEN)
    return None if token is None else _checked(token, TOKEN)


def _read(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"the token can't be read: {error}") from error
    return _checked(text.strip(), str(file))


def _checked(token: str, where: str) -> str:
    """The token, which has to survive an HTTP header."""
    if not token or not all("!" <= char <= "~" for char in token):
        raise UsageError(f"{where} holds no token: printable ASCII characters without spaces, at least one")
    return token


def _client(mode: str, isolation: str | None) -> AsyncDeepGym:
    from deepgym.client import AsyncDeepGym

    options: dict[str, Any] = {} if isolation is None else {"isolation": isolation}
    if options and mode != "local":
        raise UsageError(f"--isolation {isolation} is for the local sandbox, and --mode is {mode}; drop one")
    try:
        return AsyncDeepGym(mode, **options)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _named(envs: list[Any]) -> str:
    if not envs:
        return "every built-in environment, by label"
    shown = ", ".join(env.name for env in envs[:5])
    more = f" and {len(envs) - 5} more" if len(envs) > 5 else ""
    return shown + more + (", by label" if len(envs) > 1 else "")


def _say(text: str) -> None:
    typer.echo(f"{_PREFIX} {show.safe(text)}", err=True)
