"""Grading all of HumanEval under lm-eval: its own task beside ``deepgym_humaneval``.

    python bench/lmeval.py [--mix] [--json]

Wall and CPU seconds of ``simple_evaluate`` with a model that only replays stored texts: the canonical
solutions, or with ``--mix`` those of tests/lmeval/own_humaneval.py, one endless loop among them. lm-eval's
own task judges one document after the other, each in a forked child; ours judges them all in one batch,
each in a sandbox. CPU time needs a control group, which is made as root.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tests" / "lmeval")]


def measured(folder: Path, mix: bool) -> dict[str, dict[str, Any]]:
    """Of both tasks: seconds, and how many of the documents passed."""
    import own_humaneval as own
    from meter import Meter

    from deepgym.environments import load_suite
    from deepgym_lmeval import make_lm_eval_task

    environments = list(load_suite("humaneval"))
    said = {env.name: (env.reference or "")[len(env.prefix) :] for env in environments}
    if mix:
        said = {name: text for name, (_, text) in own.generations(environments).items()}
    found = {}
    # Before the sandbox starts, whose processes are to be counted.
    meter = Meter()
    try:
        # What a run of many documents does once as well: load lm-eval and the metric, start the sandbox.
        easy = load_suite("easy")
        for task in (own.OWN, make_lm_eval_task(easy)):
            own.evaluate(folder, task, dict.fromkeys([*said, *(env.name for env in easy)], ""))
        for name, task in own.tasks(folder).items():
            before, began = meter.read(), time.perf_counter()
            samples = own.evaluate(folder, task, said)["samples"][name]
            wall, cpu = time.perf_counter() - began, (meter.read() - before) / 1000.0
            passed = sum(sample["pass@1" if name == own.OWN else "deepgym_pass"] for sample in samples)
            found[name] = {"wall": wall, "cpu": cpu if meter.exact else None, "passed": int(passed)}
    finally:
        meter.close()
    return found


def main() -> None:
    """Print what was measured."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--mix", action="store_true", help="right and wrong answers in many forms")
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "task"
        folder.mkdir()
        os.environ.update(HF_ALLOW_CODE_EVAL="1", HF_HUB_OFFLINE="1", HF_HOME=f"{name}/hub")
        os.chdir(folder)
        import own_humaneval

        own_humaneval.prepare(folder)
        found = measured(folder, given.mix)
        os.chdir("/")
    if given.json:
        print(json.dumps(found))
        return
    print(f"\n{'task':<22}{'wall s':>8}{'CPU s':>8}{'passed':>8}")
    for task, row in found.items():
        cpu = "-" if row["cpu"] is None else f"{row['cpu']:.2f}"
        print(f"{task:<22}{row['wall']:>8.2f}{cpu:>8}{row['passed']:>8}")


if __name__ == "__main__":
    main()
