"""Plays episodes that are struck, and looks at every law about each."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Sequence

import anyio

from deepgym import AsyncDeepGym
from deepgym.environments import ToolCall
from deepgym.exceptions import DeepGymError, SandboxError, TimeoutError, VerifierError
from deepgym.models import MODEL_FAULT_ERRORS, RunResult
from deepgym.session import AsyncSession, Trajectory
from deepgym.session.episode import run_episode, run_episodes

from . import episode_seams as seams
from .episode_agents import HASTY
from .episode_cells import EpisodeCell
from .episode_tasks import Play, plays
from .laws import Ledger

__all__ = ["Bench", "Strike", "check", "together"]

#: Seconds after which an episode counts as hanging.
_PATIENCE = 60.0
#: Tries of a strike, on average.
_TRIES = 4


class Strike:
    """One fault on its way into one episode. Stands for a scene where ``faults`` wants one."""

    def __init__(self, client: AsyncDeepGym, cell: EpisodeCell | None = None, once: bool = True) -> None:
        self.client, self.cell, self.once = client, cell, once
        self.session: AsyncSession | None = None
        self.hits = 0
        self._armed = contextlib.ExitStack()

    def hit(self) -> None:
        self.hits += 1

    def stage(self, name: str) -> None:
        """The episode is about to do ``name``; the fault is armed in its own stage alone."""
        self._armed.close()
        cell = self.cell
        if cell is None or cell.stage != name:
            return
        if cell.patience:
            self._armed.enter_context(seams.impatient(cell.patience))
        if cell.point:
            times = 1 if self.once else None
            self._armed.enter_context(seams.at(cell.point, lambda: cell.fault(self), times, cell.skip))
        else:
            with cell.fault(self):
                pass

    def over(self) -> None:
        """Whatever comes now isn't struck."""
        self._armed.close()


class Bench:
    """A client whose episodes are struck, and one session that goes on beside them."""

    def __init__(self, client: AsyncDeepGym, ledger: Ledger) -> None:
        self.client, self.ledger = client, ledger
        self.sibling: AsyncSession | None = None
        self._rng = random.Random(ledger.where)

    async def play(self, play: Play, strike: Strike, whole: bool) -> RunResult | None:
        """One episode, step by step or ``whole`` by ``run_episode``; its result, whatever became of it."""
        session = strike.session = self.client.session(play.env)
        try:
            with anyio.move_on_after(_PATIENCE) as patience:
                if whole:
                    return await self._whole(session, play, strike)
                return await self._stepwise(session, play, strike)
        finally:
            strike.over()
            await session.close()
            self.ledger.law(not patience.cancelled_caught, "no episode hangs")
        return None

    async def _whole(self, session: AsyncSession, play: Play, strike: Strike) -> RunResult | None:
        async def agent(trajectory: Trajectory) -> ToolCall | None:
            done = len(trajectory.turns)
            strike.stage(f"step {done + 1}" if done < len(play.steps) else "score")
            return play.steps[done] if done < len(play.steps) else None

        strike.stage("reset")
        trajectory = await run_episode(session, agent)
        again = Trajectory.model_validate_json(trajectory.model_dump_json())
        self.ledger.law(again == trajectory, "a trajectory survives its own JSON")
        return trajectory.result

    async def _stepwise(self, session: AsyncSession, play: Play, strike: Strike) -> RunResult | None:
        try:
            strike.stage("reset")
            await session.reset()
            for number, call in enumerate(play.steps, 1):
                strike.stage(f"step {number}")
                if (await session.step(call)).done:
                    break
            strike.stage("score")
            return await session.score()
        except (SandboxError, TimeoutError, VerifierError) as error:
            strike.over()
            judging = session.done
            await self._again(session, play, error, judging)
            return error.result
        except Exception as error:  # noqa: BLE001 - no other may come out
            self.ledger.law(False, "what is raised has a result", repr(error))
            return None

    async def _again(self, session: AsyncSession, play: Play, error: DeepGymError, judging: bool) -> None:
        """What has no verdict gets none later, unless only the judging failed: then it can be done again."""
        try:
            score: float | None = (await session.score()).score
        except DeepGymError as raised:
            score = None
            self.ledger.law(not judging, "a failed judging can be done again", repr(raised))
        else:
            self.ledger.law(
                judging and score == play.score, "a lost episode has no score", (score, repr(error))
            )

    async def fill(self, cells: Sequence[EpisodeCell]) -> int:
        """Strike until each cell had its share; how often something was hit."""
        return sum([await self._fill(cell) for cell in cells])

    async def _fill(self, cell: EpisodeCell) -> int:
        modes = [False] * cell.strikes[0] + [True] * cell.strikes[1]
        given = plays(_TRIES * len(modes), self._rng, large=cell.phase == "copy")
        struck = 0
        for number, play in enumerate(given):
            # Not every try hits: an answer that is there at once is never waited for.
            struck += await self.strike(cell, play, modes[struck], whole=number % 2 == 0)
            if number % 5 == 0 or struck == len(modes):
                await self.right()
            if struck == len(modes):
                break
        return struck

    async def strike(self, cell: EpisodeCell, play: Play, once: bool, whole: bool) -> bool:
        strike = Strike(self.client, cell, once)
        if cell.far and self.sibling is not None:
            await self.sibling.close()
            self.sibling = None
        elif not cell.far and self.sibling is None:
            self.sibling = self.client.session(play.env)
            await self.sibling.reset()
        result = await self.play(play, strike, whole)
        outcome = (cell.once if once else cell.always) if strike.hits else "true"
        note = (
            f"{cell.name} at {cell.point or 'once'} {'once' if once else 'always'} {'whole' if whole else ''}"
        )
        check(self.ledger, result, play.score, outcome, note)
        if strike.hits:
            self.ledger.struck[f"session: {cell.name}"] += 1
        beside = int(self.sibling is not None)
        left = await seams.left_open(self.client, (beside, beside, 0))
        self.ledger.law(left == (beside, beside, 0), "nothing stays open", (note, left))
        return bool(strike.hits)

    async def suffer(self, doing: str, turns: int) -> None:
        """An agent does something to its sandbox, goes on, and gets a verdict of 0 all the same."""
        calls = [ToolCall(name="bash", arguments={"command": doing})]
        for number in range(turns):
            python = {"name": "python", "arguments": {"code": "print(1)"}}
            write = {"name": "write_file", "arguments": {"path": f"f{number}", "content": "x"}}
            calls += [ToolCall.model_validate(call) for call in (python, write)]
            calls.append(ToolCall(name="bash", arguments={"command": "true"}))
        result = await self.play(Play(tuple(calls), 0.0, HASTY), Strike(self.client), whole=True)
        check(self.ledger, result, 0.0, "true zero", doing)
        self.ledger.struck["session: agent x step"] += 1
        left = await seams.left_open(self.client)
        self.ledger.law(left == (0, 0, 0), "nothing stays open", (doing, left))

    async def right(self) -> None:
        """The next episode on this client is what it should be, and the neighbour's goes on."""
        (play,) = plays(1, self._rng)
        result = await self.play(play, Strike(self.client), whole=False)
        check(self.ledger, result, play.score, "true", "the next episode")
        if self.sibling is not None:
            try:
                seen = (await self.sibling.step("echo here; ls data.txt")).text
            except DeepGymError as error:
                seen = repr(error)
            self.ledger.law(seen == "here\ndata.txt\n", "a neighbour goes on", seen)

    async def close(self) -> None:
        if self.sibling is not None:
            await self.sibling.close()


async def together(client: AsyncDeepGym, ledger: Ledger, count: int, rate: float, seed: int) -> None:
    """Many episodes at once; in some of them, the sandbox's first process is killed at some step."""
    rng = random.Random(seed)
    given = plays(count, rng)
    sessions = [client.session(play.env, seed=number) for number, play in enumerate(given)]
    struck = {number: rng.choice((1, 2)) for number in range(count) if rng.random() < rate}

    async def agent(trajectory: Trajectory) -> ToolCall | None:
        number, done = trajectory.seed, len(trajectory.turns)
        if struck.get(number) == done:
            ledger.law(seams.end_first(sessions[number]), "the fault strikes", number)
            ledger.struck["session: first process x many at once"] += 1
        return given[number].steps[done] if done < len(given[number].steps) else None

    with anyio.move_on_after(2 * _PATIENCE) as patience:
        found = await run_episodes(sessions, agent, max_parallel=8)
    ledger.law(not patience.cancelled_caught, "they end")
    for number, (play, trajectory) in enumerate(zip(given, found, strict=True)):
        outcome = "zero" if number in struck else "true"
        check(ledger, trajectory.result, play.score, outcome, f"{number} of {count} at once")
        ledger.law(trajectory.seed == number, "trajectory i belongs to episode i", number)
    ledger.law(await seams.left_open(client) == (0, 0, 0), "nothing stays open")


def check(ledger: Ledger, result: RunResult | None, score: float, outcome: str, note: object) -> None:
    """Every law about one episode's result."""
    ledger.law(result is not None, "an episode has a result", note)
    if result is None:
        return
    seen = (note, result.error_type, result.error, result.score)
    ledger.law(
        any(_holds(result, score, one) for one in outcome.split()), f"it is {outcome} of {score}", seen
    )
    ledger.law(math.isfinite(result.score) and result.score <= score, "no fault pays", seen)
    ledger.law((result.reward is None) == (not result.has_verdict), "no verdict is no reward", seen)
    own = result.error_type in MODEL_FAULT_ERRORS
    ledger.law(not own or (result.score == 0.0 and not result.passed), "a model fault scores 0", seen)
    again = RunResult.model_validate_json(result.model_dump_json())
    ledger.law(again == result, "a result survives its own JSON", seen)


def _holds(result: RunResult, score: float, outcome: str) -> bool:
    if outcome == "none":
        return not result.has_verdict and result.error_type is not None and result.reward is None
    if outcome == "true":
        return result.has_verdict and result.error_type is None and result.score == score
    own = result.error_type in MODEL_FAULT_ERRORS
    if outcome == "zero":
        return result.has_verdict and own and result.score == 0.0
    return result.has_verdict and result.score <= score
