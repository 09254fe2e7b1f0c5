"""Findings about several sandboxes, side by side."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deepgym.cli import show

if TYPE_CHECKING:
    from deepgym.plugins import Finding

__all__ = ["of_tiers"]

_STYLES = {"warn": "yellow", "fail": "bold red"}
#: Cells that are no fault of anybody, and no good news either.
_WEAK = ("no", "none", "open", "rlimit")
_LEGEND = (
    "held: tried, and it didn't work. open: tried, and it works: this tier doesn't bound it for a run as a "
    "whole. rlimit: bounded for each process or file by itself."
)


def of_tiers(findings: Sequence[Finding]) -> None:
    """One row for each name, one column for each tier, both in order of appearance."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = {(finding.name, finding.tier): finding for finding in findings}
    tiers = list(dict.fromkeys(finding.tier for finding in findings))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", *tiers):
        table.add_column(Text(show.safe(title)), overflow="fold")
    for name in dict.fromkeys(finding.name for finding in findings):
        row = [Text(show.safe(name))]
        for tier in tiers:
            found = cells.get((name, tier))
            row.append(Text(show.safe(found.word), _style(found)) if found else Text("-", "dim"))
        table.add_row(*row)
    console = Console(file=sys.stdout, highlight=False)
    console.print(table)
    console.print(Text(_LEGEND, "dim"))


def _style(finding: Finding) -> str:
    return _STYLES.get(finding.status, "yellow" if finding.word in _WEAK else "green")
