"""A process that ends in the middle of its batches, again and again.

Reads orders, one JSON line each: ``{"phase": .., "end": .., "number": ..}``; for each forks a child that runs
a batch and sends itself a signal when one of its runs is in ``phase``. Writes what the child said and how it
ended, one JSON line each. ``end``: ``kill``, ``term``, ``exit`` (SIGTERM with a handler that exits) and
``interrupt`` (Ctrl-C).
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
from collections.abc import Callable
from typing import Any

from deepgym import BatchResult, DeepGym
from deepgym.exceptions import Interrupted
from deepgym.providers.local import slots

from .cancellation import prepared
from .injector import Injector
from .laws import Ledger
from .processes import inside
from .seams import installed
from .tasks import TASKS

__all__ = ["SIGNALS", "batch_of"]

SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "exit": signal.SIGTERM, "interrupt": signal.SIGINT}


def batch_of(
    injector: Injector, order: dict[str, Any], action: Callable[[], object]
) -> tuple[str, list[Any]]:
    """The task and the answers of an order: the same here and where its results are looked at."""
    rng = random.Random(f"{order['phase']} {order['end']} {order['number']}")
    return prepared(injector, order["phase"], rng, action, "parent")


def say(**words: Any) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def life(order: dict[str, Any]) -> None:
    """One child's."""
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if order["end"] == "exit":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    with DeepGym(slots=2) as client:
        injector = Injector(client, Ledger())
        provider: Any = client.provider

        def strike() -> None:
            say(struck=inside(provider._open))
            os.kill(os.getpid(), SIGNALS[order["end"]])

        task, given = batch_of(injector, order, strike)
        texts = [answer.text for answer in given]
        with installed(injector.scene_for):
            if order["end"] == "interrupt":
                try:
                    batch = client.run_batch(TASKS[task], texts)
                except Interrupted as stop:
                    batch = stop.batch or BatchResult()
                for index, result in enumerate(batch.results):
                    say(index=index, result=result.model_dump_json())
            else:
                for index, result in client.stream(TASKS[task], texts):
                    say(index=index, result=result.model_dump_json())


def main(folder: str) -> None:
    slots._directory = lambda: folder
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                life(order)
                status = 0
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else 1
            finally:
                os._exit(status)
        _, status = os.waitpid(pid, 0)
        say(pid=pid, status=status)


if __name__ == "__main__":
    main(sys.argv[1])
