"""Runs a trusted verifier program and gives it a safe handle on the solution in the other sandbox.

The program finds the handle as ``from deepgym_verify import solution, report, rng, seed``. Its report
goes out once, as one JSON line on the channel that ``DEEPGYM_REPORT`` names; after the program's end
this host adds one line of its own, ``#`` and JSON: what it saw of the solution.
"""

from __future__ import annotations

import marshal
import os
import random
import sys
import types
from typing import Any, Callable, NoReturn

from .host import CHANNEL, LINK, exit_status, mark, place_files, read_frame, read_head
from .proxy import Solution, SolutionDied, SolutionError
from .values import pack
from .wire import clean, encode
from .work import Work

__all__ = ["Reporter", "main", "verify"]


class Reporter:
    """Sends the one report."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.sent: Any = None

    def __call__(
        self,
        score: Any = None,
        passed: Any = None,
        cases: Any = None,
        reward_components: Any = None,
        metrics: Any = None,
        details: Any = None,
        error_type: Any = None,
        seed: Any = None,
        error: Any = None,
    ) -> None:
        """Report once; a second call makes the report worthless, as the protocol says."""
        body = {"score": score, "passed": passed}
        for key, value in (
            ("cases", cases),
            ("reward_components", reward_components),
            ("metrics", metrics),
            ("details", details),
            ("error_type", error_type),
            ("seed", seed),
            ("error", error),
        ):
            if value is not None:
                body[key] = value
        if passed is None:
            body["passed"] = score is not None and score >= 1.0
        if score is None:
            body["score"] = 1.0 if passed else 0.0
        self.sent = body["passed"]
        data = encode(body) + b"\n"
        while data:
            data = data[os.write(self.channel, data) :]


def _conclude(reporter: Reporter, verify: Callable[[Any], Any], subject: Any) -> None:
    """Call the program's ``verify`` and report what it returned."""
    try:
        value = verify(subject)
    except AssertionError as failure:
        return reporter(0.0, False, details={"assertion": clean(str(failure), 300)})
    except Exception as error:
        if not getattr(error, "from_solution", False):
            raise
        return reporter(0.0, False, details={"raised": clean(type(error).__name__ + ": " + str(error), 300)})
    if value is None or value is True:
        return reporter(1.0, True)
    if value is False:
        return reporter(0.0, False)
    if isinstance(value, dict):
        return reporter(**value)
    return reporter(value)


def main(head: dict[str, Any] | None, seed: int) -> NoReturn:
    """One run of a verifier program; ends the process with the protocol's exit status."""
    if head is None:
        head = read_head(CHANNEL)
    if not head.get("work"):
        mark()
    code, rest = read_frame(CHANNEL)
    if "files" in head:
        place_files(head["files"])
        sys.path.insert(0, os.getcwd())
    solution = Solution(LINK, head.get("reply", 1 << 20), head.get("nonfinite", False))
    work = None
    if head.get("work"):
        # However much the agent left, receiving it isn't the verifier's time.
        work = Work(read_frame(CHANNEL, rest)[0], solution)
        mark()
    status, fell = verify(code, solution, Reporter(CHANNEL), seed, work)
    facts = {"fault": solution._fault, "calls": solution._count, "ran_to_its_end": fell}
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os.write(CHANNEL, b"#" + encode(facts) + b"\n")
        os._exit(status)


def verify(
    code: bytes, solution: Solution, reporter: Reporter, seed: int, work: Any = None
) -> tuple[int, bool]:
    """Run the marshalled program; its exit status, and whether it ran to its own end.

    ``work``: what an agent left, where an episode is judged; the program's ``verify`` is then called with it.
    """
    helper = types.ModuleType("deepgym_verify")
    helper.__dict__.update(
        solution=solution,
        report=reporter,
        seed=seed,
        pack=pack,
        SolutionError=SolutionError,
        SolutionDied=SolutionDied,
        __getattr__=lambda name: _late(helper, name),
    )
    if work is not None:
        helper.__dict__["work"] = work
    sys.modules["deepgym_verify"] = helper
    return _run(marshal.loads(code), helper)


def _late(helper: Any, name: str) -> random.Random:
    if name != "rng":
        raise AttributeError("module 'deepgym_verify' has no attribute %r" % name)
    rng = helper.rng = random.Random(helper.seed)
    return rng


def _run(code: types.CodeType, helper: Any) -> tuple[int, bool]:
    """The program's exit status, and whether it came from running to its end."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
        verify = module.__dict__.get("verify")
        if callable(verify) and helper.report.sent is None:
            _conclude(helper.report, verify, helper.__dict__.get("work", helper.solution))
    except SystemExit as stop:
        return exit_status(stop), False
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70, False
    return (0 if helper.report.sent in (None, True) else 1), True
