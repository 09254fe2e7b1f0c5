"""One run: open a place, put the answer into play, collect what is seen, close. Decides nothing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.to_thread

from deepgym.contract.evidence import CaseFact, Phase, Side
from deepgym.environments.environment import Environment, EnvironmentLimits
from deepgym.environments.verify import Cases, Program
from deepgym.providers.base import Exit, Job, Process, Provider, Sandbox, Spec, ZygoteDiedError
from deepgym.sandboxed.wire import LOOKED, WORK

from .cases import CasePlan
from .hosts import fresh_interpreter
from .limits import bounds, scaled
from .prepared import Prepared, closed
from .report import printed_report, split_report

__all__ = ["NotAdmitted", "Run", "Workshop"]

_ROOM = 16 << 20
#: Bytes of replies that are compared at once; more are compared beside the event loop, which must stay free
#: for the limits of other runs.
_AT_ONCE = 1 << 16
#: Bytes of an agent's work that a verifier receives in a second, however busy the host is.
_SLOWEST = 1 << 21


class NotAdmitted(Exception):
    """The deadline left no room for a run once it had its place."""


@dataclass
class Run:
    """What one run is about, and what is known of it so far; ``evidence`` freezes it."""

    env: Environment
    text: bytes
    seed: int
    alone: bool = False
    scale: float = 1.0
    """What the environment's time limits are multiplied by."""
    tree: bytes | None = None
    """An agent's frozen work directory, which ``text`` is the program to run."""
    measured: bool = False
    """Whether the time of each case is wanted, where it can be known."""
    on_phase: Callable[[Phase], None] = lambda phase: None
    admitted: Callable[[], bool] = lambda: True
    """Whether there is time for it, asked once more when it has its place: it may have waited for that."""
    facts: dict[str, Any] = field(default_factory=dict)
    timings: dict[str, float] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    verifier: Process | None = None
    limits: EnvironmentLimits = field(init=False)

    def __post_init__(self) -> None:
        self.limits = scaled(self.env.limits, self.scale)

    @property
    def in_play(self) -> bool:
        """Whether the policy's output came into play, as far as is known now."""
        return bool(self.facts.get("in_play"))

    def date(self, sandbox: Sandbox) -> None:
        """Note whether the answer is in play, and by which sign."""
        if any(process.marked_at is not None for process in self.processes[:1]):
            self.facts.update(in_play=True, in_play_by="mark")
            return
        if self.tree is not None:
            if self.verifier is not None and self.verifier.replies.startswith(LOOKED):
                self.facts.update(in_play=True, in_play_by="work")
            return
        opened = sandbox.opened_by_verifier()
        if opened != "no":
            self.facts.update(in_play=True, in_play_by=opened)


class Workshop:
    """Runs on one provider."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._prepared = Prepared(provider)

    async def run(self, run: Run) -> None:
        """Fill in ``run``'s facts.

        Raises:
            SandboxError and what else a provider raises; the facts gathered until then stay in ``run``.
        """
        verify = run.env.verify
        plan = None
        if isinstance(verify, Cases):
            plan = await self._prepared.plan(run.env, run.seed, run.scale, run.limits)
        limits = bounds(run.limits)
        if run.tree is not None:
            limits = replace(limits, setup=limits.setup + len(run.tree) / _SLOWEST)
        spec = Spec(limits, verifier=plan is None, alone=run.alone)
        began = time.monotonic()
        sandbox = await self.provider.open(spec)
        opened = time.monotonic()
        run.timings["open"] = (opened - began) * 1000.0
        run.facts.update(sandbox_id=sandbox.id, isolation=sandbox.capabilities.isolation)
        run.facts.update(enforced=sandbox.capabilities.enforced)
        run.on_phase(Phase.OPENED)
        try:
            if not run.admitted():
                raise NotAdmitted
            if plan is not None:
                await self._declared(run, sandbox, plan)
            else:
                assert isinstance(verify, Program)
                await self._verified(run, sandbox, verify)
        except BaseException:
            run.date(sandbox)
            raise
        finally:
            run.timings["run"] = (time.monotonic() - opened) * 1000.0
            await closed(sandbox)

    async def _declared(self, run: Run, sandbox: Sandbox, plan: CasePlan) -> None:
        # A program's cases are timed beside it, inside; from here they can only be timed one by one.
        if run.limits.case_timeout is not None and (run.measured or not plan.program):
            return await self._one_by_one(run, sandbox, plan)
        process = await sandbox.start(_solution(run, b"".join(plan.requests), plan.program, room=plan.room))
        run.processes.append(process)
        run.on_phase(Phase.PLACED)
        await process.finish_requests()
        ended = await process.end(run.limits.wall)
        if len(process.replies) < _AT_ONCE:
            facts, died = plan.read_all(bytes(process.replies))
        else:
            facts, died = await anyio.to_thread.run_sync(plan.read_all, bytes(process.replies))
        self._close_declared(run, sandbox, [process], ended, facts, died)

    async def _one_by_one(self, run: Run, sandbox: Sandbox, plan: CasePlan) -> None:
        """Ask case by case, so that the supervisor's own clock bounds each; after a case that ran over
        its time, the rest is asked of a fresh process.
        """
        facts: list[CaseFact] = []
        processes: list[Process] = []
        left, died, ended = run.limits.wall, False, Exit()
        while len(facts) < len(plan.requests) and not died:
            process = await sandbox.start(_solution(run, b"", plan.program, room=plan.room))
            processes.append(process)
            run.processes[:] = processes[:1]
            over = await _ask(process, plan, facts, run, left)
            if over and process.marked_at is not None:
                await process.kill()
                _keep(processes, run.limits.output)
                left -= time.monotonic() - process.marked_at
                continue
            await process.finish_requests()
            ended = await process.end(max(left, 0.0))
            if process.marked_at is None and len(processes) > 1:
                # In play since its first process. What that left may be why, or we are: as with a zygote's
                # death, the run is graded once more, alone.
                raise ZygoteDiedError(
                    f"a process for the remaining cases couldn't be set up: {ended.setup_error}"
                )
            died = len(facts) < len(plan.requests)
        facts += [plan.fact(number, "unanswered") for number in range(len(facts) + 1, len(plan.requests) + 1)]
        self._close_declared(run, sandbox, processes, ended, facts, died)

    def _close_declared(
        self,
        run: Run,
        sandbox: Sandbox,
        processes: list[Process],
        ended: Exit,
        facts: list[CaseFact],
        died: bool,
    ) -> None:
        run.date(sandbox)
        output = b"".join(bytes(process.stdout) for process in processes)
        stderr = b"".join(bytes(process.stderr) for process in processes)
        kept = run.limits.output
        run.facts.update(
            cases=tuple(facts),
            solution_died=died,
            clock=ended.clock,
            solution=_side(ended, run.in_play),
            output=output[:kept],
            stderr=stderr[:kept],
            truncated=any(process.truncated for process in processes) or max(len(output), len(stderr)) > kept,
        )
        self._time(run, ended, processes[-1])

    async def _verified(self, run: Run, sandbox: Sandbox, verify: Program) -> None:
        solution = await sandbox.start(_solution(run, b"", False, linked=True))
        run.processes.append(solution)
        head: dict[str, object] = {"files": verify.files} if verify.files else {}
        code = self._prepared.program(run.env.digest, verify.source)
        if run.tree is None:
            job = Job("verifier", code, head, seed=run.seed, answer=run.text)
        else:
            job = Job("verifier", code, {**head, "work": True}, seed=run.seed, tree=run.tree)
        verifier = run.verifier = await sandbox.start(job)
        run.on_phase(Phase.PLACED)
        ended = await verifier.end(run.limits.wall)
        settled = await solution.settle()
        run.date(sandbox)
        report, facts = split_report(bytes(verifier.replies).removeprefix(LOOKED))
        if report is None and ended.code in (0, 1) and verifier.stdout.strip():
            report, ended = printed_report(bytes(verifier.stdout), ended, bool(facts.get("ran_to_its_end")))
        # A verifier that floods its channel is one that reported nothing usable, not one out of time.
        clock = None if verifier.overflow else ended.clock
        clock = clock or (settled.clock if settled.clock == "cpu" else None)
        run.facts.update(
            report=report,
            report_overflow=verifier.overflow,
            solution_died=bool(facts.get("fault")),
            clock=clock,
            solution=_side(settled, run.in_play),
            verifier=_side(ended, verifier.marked_at is not None, reported=report is not None),
            output=bytes(solution.stdout),
            stderr=bytes(solution.stderr),
            verifier_stderr=bytes(verifier.stderr),
            details={"fault": str(facts["fault"])} if facts.get("fault") else {},
            truncated=solution.truncated,
        )
        self._time(run, ended, solution)

    def _time(self, run: Run, ended: Exit, last: Process) -> None:
        marked = run.processes[0].marked_at if run.processes else None
        if marked is None:
            return
        run.facts["execution_time_ms"] = max(0.0, (time.monotonic() - marked) * 1000.0)
        if ended.killed_after is not None and last.marked_at is not None:
            run.timings["kill"] = (last.marked_at - marked + ended.killed_after) * 1000.0


def _keep(processes: list[Process], limit: int) -> None:
    """Of the last process, only the output that the run as a whole has room for."""
    last = processes[-1]
    for name in ("stdout", "stderr"):
        text = getattr(last, name)
        room = limit - sum(len(getattr(one, name)) for one in processes[:-1])
        if len(text) > room:
            del text[max(0, room) :]
            last.truncated = True


async def _ask(process: Process, plan: CasePlan, facts: list[CaseFact], run: Run, wall: float) -> bool:
    """Ask for the cases that have no fact yet; ``True`` if one ran over its own time."""
    seconds = run.limits.case_timeout or 0.0
    for number in range(len(facts) + 1, len(plan.requests) + 1):
        asked = time.monotonic()
        await process.send(plan.requests[number - 1])
        spent = 0.0 if process.marked_at is None else time.monotonic() - process.marked_at
        line = await process.line(min(seconds, max(wall - spent, 0.0)))
        if line is None:
            over = process.running and process.marked_at is not None and wall - spent > seconds
            if over:
                facts.append(plan.fact(number, "timeout", f"ran past case_timeout ({seconds:g} s)"))
            return over
        if len(line) < _AT_ONCE:
            fact = plan.read(number, line)
        else:
            fact = await anyio.to_thread.run_sync(plan.read, number, line)
        if fact is None:
            return False
        if run.measured:
            began = max(asked, process.marked_at or asked)
            fact = fact.model_copy(update={"execution_time_ms": (time.monotonic() - began) * 1000.0})
        facts.append(fact)
    return False


def _solution(run: Run, requests: bytes, program: bool, *, linked: bool = False, room: int = _ROOM) -> Job:
    env = run.env
    head: dict[str, object] = {}
    if isinstance(env.verify, Cases) and env.verify.function is not None:
        head["entry"] = env.verify.function
    if program or env.language != "python":
        head["program"] = True
        if env.interpreter:
            head["argv"] = list(env.interpreter)
    if env.files:
        head["files"] = env.files
    if run.tree is not None:
        head["tree"] = WORK
    argv: tuple[str, ...] = ()
    if env.interpreter and "program" not in head:
        argv = fresh_interpreter(env.interpreter, _apart(run.seed), linked)
    return Job(
        "solution",
        run.text,
        head,
        requests,
        seed=_apart(run.seed),
        linked=linked,
        argv=argv,
        loopback=env.loopback,
        tree=run.tree,
        max_replies=room,
    )


def _apart(seed: int) -> int:
    """The seed of ``random`` in an answer's process: from its state nobody can tell what a verifier draws."""
    return int.from_bytes(hashlib.sha256(b"answer:%d" % seed).digest()[:8], "little") >> 1


def _side(ended: Exit, in_play: bool, reported: bool = False) -> Side:
    phase = Phase.REPORTED if reported else Phase.IN_PLAY if in_play else Phase.PLACED
    return Side(
        phase=phase,
        exit_code=ended.code,
        signal=ended.signal,
        killed=ended.killed,
        fate=ended.fate,
        oom=ended.oom,
        setup_error=ended.setup_error,
        cpu_ms=ended.cpu_ms,
        peak_kb=ended.peak_kb,
    )
