"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["Env", "Isolation", "Json", "Mode", "Parallel", "Reference", "Seed"]

Env = Annotated[str, typer.Argument(help="An environment's name, or the path of its folder.")]
Isolation = Annotated[
    str | None,
    typer.Option(
        help="The local sandbox's walls: auto (the default), namespaces, landlock, or unsafe, which has none."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, and nothing else.")]
Mode = Annotated[str, typer.Option(help="Where answers run: local, or a provider plugin's name.")]
Parallel = Annotated[
    int | None, typer.Option("--max-parallel", "-j", min=1, help="Runs at once; default: the usable cores.")
]
Reference = Annotated[bool, typer.Option("--reference", help="Grade the reference answer instead.")]
Seed = Annotated[
    int | None,
    typer.Option(min=0, max=(1 << 63) - 1, help="Draw cases from this seed instead of the environment's."),
]
