"""Strikes every cell of the table and prints how often, and which laws were broken.

python tests/faults/report.py [words of a cell's name]
"""

from __future__ import annotations

import logging
import sys
import tempfile

from deepgym import DeepGym
from deepgym.providers.local import slots

from .cells import QUOTA
from .injector import Injector, fill_cells
from .laws import Ledger
from .seams import installed
from .table import CELLS, of


def main(words: list[str]) -> int:
    """Exit status 0 if no law was broken and every cell had its share."""
    logging.disable(logging.CRITICAL)
    pairs = dict.fromkeys(
        (cell.part, cell.phase) for cell in CELLS if all(word in cell.name for word in words)
    )
    short = broken = checks = faults = 0
    with tempfile.TemporaryDirectory() as folder, DeepGym(slots=2) as client:
        slots._directory = lambda: folder
        injector = Injector(client, Ledger())
        with installed(injector.scene_for):
            for part, phase in pairs:
                injector.ledger = ledger = Ledger(where=f"{part} x {phase}")
                struck = fill_cells(injector, of(part, phase))
                print(
                    f"{part + ' x ' + phase:32} {struck:5} faults {ledger.checks:6} laws {len(ledger.broken):4} broken",
                    flush=True,
                )
                for line in ledger.broken[:3]:
                    print("   ", line)
                short += struck < QUOTA
                broken, checks, faults = broken + len(ledger.broken), checks + ledger.checks, faults + struck
    print(f"{faults} faults, {checks} law checks, {broken} broken, {short} cells short of {QUOTA}")
    return bool(broken or short)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
