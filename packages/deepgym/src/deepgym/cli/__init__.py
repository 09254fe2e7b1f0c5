"""The ``deepgym`` command. Only this room imports typer and rich."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line ``argv`` (default: the process's own) and exit with its code.

    0 passed, 1 failed, 2 usage, 3 no verdict, 130 interrupted.
    """
    from deepgym.cli.app import run

    run(argv)
