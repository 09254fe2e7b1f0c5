"""Runs a trusted verifier program and gives it a safe handle on the solution in the other sandbox.

The program finds the handle as ``from deepgym_verify import solution, report, rng, seed``. Its report
goes out once, as one JSON line on the channel that ``DEEPGYM_REPORT`` names; after the program's end
this host adds one line of its own, ``#`` and JSON: what it saw of the solution.
"""

import builtins
import marshal
import os
import random
import sys
import types

from .solution_host import CHANNEL, LINK, exit_status, mark, place_files, read_frame, read_head
from .values import _SIMPLE, pack, unpack
from .wire import clean, decode, encode

__all__ = ["main"]

ANSWER = "/answer/solution"


class SolutionError(Exception):
    """The solution raised an exception of a class that isn't built in."""

    def __init__(self, name, message=""):
        super().__init__(name, message)
        self.name, self.message = name, message

    def __str__(self):
        return "%s: %s" % (self.name, self.message)


class SolutionDied(Exception):
    """The solution's process ended, or stopped making sense, while a reply was owed."""


class Ran:
    """What running the solution as a program gave: ``stdout``, ``stderr``, ``exit_code``, ``timed_out``, ``cut``."""

    __slots__ = ("stdout", "stderr", "exit_code", "timed_out", "cut")

    def __init__(self, value):
        try:
            self.stdout, self.stderr, self.exit_code = str(value["out"]), str(value["err"]), int(value["exit"])
            self.timed_out, self.cut = bool(value["timed_out"]), bool(value["cut"])
        except (KeyError, TypeError, ValueError):
            raise SolutionDied("not a program's result") from None


class Instance:
    """An object that lives in the solution's process."""

    __slots__ = ("_solution", "_handle")

    def __init__(self, solution, handle):
        self._solution, self._handle = solution, handle

    def call(self, method, *arguments):
        """Call a method; arguments and result cross as plain values."""
        return self._solution._ask({"on": self._handle, "m": method, "a": [pack(item) for item in arguments]})


class Solution:
    """The answer, in its own sandbox. The first request brings it into play."""

    def __init__(self, link, limit=1 << 20, nonfinite=False):
        self._link = link
        self._limit, self._nonfinite = limit, nonfinite
        self._count, self._fault = 0, None

    def function(self, name):
        """A callable that calls ``name`` in the solution's process."""

        def proxy(*arguments, **named):
            request = {"f": name, "a": [item if type(item) in _SIMPLE else pack(item) for item in arguments]}
            if named:
                request["k"] = {key: pack(item) for key, item in named.items()}
            return self._ask(request)

        proxy.__name__ = proxy.__qualname__ = name
        return proxy

    def construct(self, name, *arguments):
        """An object of the solution's class ``name``."""
        handle = self._ask({"new": name, "a": [pack(item) for item in arguments]})
        return Instance(self, handle)

    def run(self, stdin="", args=(), timeout=None, limit=1 << 16):
        """Run the solution as a program in a fresh process of its sandbox."""
        return Ran(self._ask({"run": {"in": stdin, "args": list(args), "t": timeout, "limit": limit}}))

    def read_file(self, path, limit=1 << 16):
        """At most ``limit`` bytes of a regular file that the solution wrote. ``OSError`` if it can't be read."""
        value = self._ask({"read": path, "limit": limit})
        if type(value) is not bytes or len(value) > limit:
            self._broken("not a file's bytes")
        return value

    def source(self):
        """The answer's text. Reading it brings the answer into play."""
        with open(ANSWER, "rb") as source:
            return source.read().decode("utf-8", "replace")

    def _broken(self, why):
        self._fault = self._fault or why
        raise SolutionDied(why)

    def _ask(self, request):
        if self._fault:
            raise SolutionDied(self._fault)
        self._count += 1
        request["id"] = self._count
        try:
            line = self._exchange(encode(request) + b"\n")
        except OSError:
            line = None
        if line is None:
            self._broken("the solution's process ended before its reply")
        try:
            value, error = self._value(decode(line))
        except (LookupError, OverflowError, RecursionError, TypeError, ValueError):
            self._broken("the solution's reply was malformed")
        if error is not None:
            error.from_solution = True
            raise error
        return value

    def _exchange(self, data):
        while data:
            data = data[os.write(self._link, data) :]
        line = os.read(self._link, 65536)
        while line[-1:] != b"\n":
            more = os.read(self._link, 65536) if line and len(line) <= self._limit else b""
            if not more:
                return None
            line += more
        return line[:-1]

    def _value(self, reply):
        if type(reply) is not dict or reply.get("id") != self._count:
            raise ValueError("not a reply")
        if "v" in reply:
            value = reply["v"]
            return (value if type(value) in _SIMPLE else unpack(value, self._nonfinite)), None
        return None, remote_error(clean(str(reply["e"]), 100), clean(str(reply["m"]), 300))


def remote_error(name, message):
    """The solution's exception: the built-in of that name if it is an ordinary one, else ``SolutionError``."""
    found = getattr(builtins, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(message)
        except TypeError:
            pass
    return SolutionError(name, message)


class Reporter:
    """Sends the one report."""

    def __init__(self, channel):
        self.channel, self.sent = channel, None

    def __call__(
        self, score=None, passed=None, cases=None, reward_components=None, metrics=None, details=None, error_type=None
    ):
        """Report once; a second call makes the report worthless, as the protocol says."""
        body = {"score": score, "passed": passed}
        for key, value in (
            ("cases", cases),
            ("reward_components", reward_components),
            ("metrics", metrics),
            ("details", details),
            ("error_type", error_type),
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


def _conclude(reporter, verify, solution):
    """Call the program's ``verify`` and report what it returned."""
    try:
        value = verify(solution)
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


def main(head, seed):
    """One run of a verifier program; ends the process with the protocol's exit status."""
    mark()
    if head is None:
        head = read_head(CHANNEL)
    code, _ = read_frame(CHANNEL)
    if "files" in head:
        place_files(head["files"])
        sys.path.insert(0, os.getcwd())
    solution = Solution(LINK, head.get("reply", 1 << 20), head.get("nonfinite", False))
    status, fell = verify(code, solution, Reporter(CHANNEL), seed)
    facts = {"fault": solution._fault, "calls": solution._count, "ran_to_its_end": fell}
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os.write(CHANNEL, b"#" + encode(facts) + b"\n")
        os._exit(status)


def verify(code, solution, reporter, seed):
    """Run the marshalled program; its exit status, and whether it ran to its own end."""
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
    sys.modules["deepgym_verify"] = helper
    return _run(marshal.loads(code), helper)


def _late(helper, name):
    if name != "rng":
        raise AttributeError("module 'deepgym_verify' has no attribute %r" % name)
    helper.rng = random.Random(helper.seed)
    return helper.rng


def _run(code, helper):
    """The program's exit status, and whether it came from running to its end."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        exec(code, module.__dict__)
        verify = module.__dict__.get("verify")
        if callable(verify) and helper.report.sent is None:
            _conclude(helper.report, verify, helper.solution)
    except SystemExit as stop:
        return exit_status(stop), False
    except BaseException:
        import traceback

        traceback.print_exc()
        return 70, False
    return (0 if helper.report.sent in (None, True) else 1), True
