"""Episodes on a remote provider, played by a fake, in which anything fails at any time."""

from __future__ import annotations

import contextvars
import logging
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import MultiTurnEnvironment, Program, ToolCall
from deepgym.models import MODEL_FAULT_ERRORS
from deepgym.providers.base import Act, Provider, Ran
from deepgym.session import Trajectory
from deepgym.session.episode import run_episodes
from deepgym.testing import (
    FAULTS,
    SESSION_FAULTS,
    Behaviour,
    FakeProvider,
    FakeSessions,
    Fault,
    FaultyProvider,
    SessionFault,
)

_COUNT = 200
_SCORES = (0.0, 0.25, 0.5, 1.0)
_CLOSING = (SessionFault("network", "close"), SessionFault("bug", "close"), Fault("provider", Phase.CLOSED))
_ALL = (*SESSION_FAULTS, *FAULTS, *_CLOSING)
#: What the contract calls ours at any time, and what it can't tell from the agent's doing.
_OURS = tuple(
    fault
    for fault in _ALL
    if (fault.error_type() if isinstance(fault, SessionFault) else fault.error_type) not in MODEL_FAULT_ERRORS
)

ENV = MultiTurnEnvironment(
    name="faults/storm",
    task="Write your share into answer.txt.",
    verify=Program(source="def verify(work): return float(work.text('answer.txt'))"),
    files={"notes.txt": "here"},
    setup="prepare",
)

_episode: contextvars.ContextVar[int] = contextvars.ContextVar("episode")


class _Marked:
    """A session that lets its episode be known to what is called on its behalf."""

    def __init__(self, session: Any, number: int) -> None:
        self._session, self._number = session, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def reset(self) -> Any:
        _episode.set(self._number)
        return await self._session.reset()


class _Told(FaultyProvider):
    """Tells which episode it struck."""

    log: dict[int, set[Any]]

    def strikes(self, answer: str) -> bool:
        struck = super().strikes(answer)
        if struck:
            self.log[_episode.get()].add(self.fault)
        return struck


def _acts(act: Act) -> Ran | None:
    return None if act.do in ("write", "read") else Ran(output=act.data[:100], code=0, seconds=0.0)


def _judged(files: dict[str, bytes]) -> Behaviour:
    return Behaviour.reports(float(files["answer.txt"].split()[0]))


def _provider(faults: tuple[Any, ...], rate: float, seed: int, log: dict[int, set[Any]]) -> Provider:
    provider: Provider = FakeProvider(sessions=FakeSessions(_acts, judged=_judged))
    for number, fault in enumerate(faults):
        # Each episode passes its acts several times, and what isn't struck in one is in the next.
        told = _Told(provider, fault, rate=rate / len(faults), seed=1000 * seed + number)
        told.log = log
        provider = told
    return provider


def _agent(trajectory: Trajectory) -> ToolCall | None:
    number, done = trajectory.seed, len(trajectory.turns)
    score = _SCORES[number % len(_SCORES)]
    calls = (
        ToolCall(name="bash", arguments={"command": f"look {number}"}),
        ToolCall(name="write_file", arguments={"path": "answer.txt", "content": f"{score} {number}"}),
        ToolCall(name="python", arguments={"code": f"print({number})"}),
        ToolCall(name="nonsense"),
        ToolCall(name="read_file", arguments={"path": "answer.txt"}),
    )
    return calls[done] if done < len(calls) else None


async def _played(provider: Provider, count: int = _COUNT) -> list[Trajectory]:
    client = AsyncDeepGym(provider=provider)
    sessions = [_Marked(client.session(ENV, seed=number), number) for number in range(count)]
    with anyio.fail_after(120):
        return await run_episodes(sessions, _agent, max_parallel=16)


def _possible(faults: set[Any]) -> set[str | None]:
    """Error types that an episode which met ``faults`` may have."""
    found: set[str | None] = {None}
    for fault in faults:
        if isinstance(fault, SessionFault):
            found |= {
                fault.error_type(acted=acted, agents_time=time)
                for acted in (False, True)
                for time in (False, True)
            }
        else:
            found.add(fault.error_type)
    return found


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("faults", [_ALL, _OURS], ids=["all", "ours"])
@pytest.mark.parametrize(("rate", "seed"), [(0.1, 1), (0.3, 2), (0.3, 3)])
def test_in_a_storm_each_episode_gets_what_it_has_without_or_no_verdict_from_what_struck_it(
    faults: tuple[Any, ...], rate: float, seed: int
) -> None:
    log: dict[int, set[Any]] = defaultdict(set)
    calm = anyio.run(_played, _provider((), 0.0, 0, log))
    assert not log
    assert [one.result.reward for one in calm] == [_SCORES[n % len(_SCORES)] for n in range(_COUNT)]
    found = anyio.run(_played, _provider(faults, rate, seed, log))
    assert len(found) == _COUNT
    lost = 0
    for number, (trajectory, before) in enumerate(zip(found, calm, strict=True)):
        result, struck = trajectory.result, log[number]
        assert result is not None, number
        assert trajectory.seed == number
        note = (number, result.error_type, result.error, sorted(map(str, struck)))
        assert math.isfinite(result.score), note
        assert result.score <= before.result.score, note
        assert result.error_type in _possible(struck), note
        if result.has_verdict and result.error_type is None:
            assert result.reward == before.result.reward, note
        elif result.has_verdict:
            assert result.reward == 0.0, note
            assert faults is not _OURS, note
        else:
            lost += 1
            assert result.reward is None, note
            assert struck, note
            assert _possible(struck) - set(MODEL_FAULT_ERRORS) - {None}, note
        if not struck:
            assert trajectory.turns == before.turns, note
        assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
    struck_count = sum(map(bool, log.values()))
    assert struck_count > _COUNT * rate / 2
    assert lost > 0


@pytest.mark.parametrize(
    "fault", [fault for fault in SESSION_FAULTS if fault.verb in ("host", "act")], ids=str
)
def test_what_passes_before_the_agent_acts_costs_no_verdict(fault: SessionFault) -> None:
    log: dict[int, set[Any]] = defaultdict(set)
    answers = None if fault.verb == "host" else {"prepare"}
    told = _Told(_provider((), 0.0, 0, log), fault, answers=answers, times=2)
    told.log = log
    found = anyio.run(_played, told, 8)
    assert sum(told.struck.values()) == 2
    assert [one.result.reward for one in found] == [_SCORES[n % len(_SCORES)] for n in range(8)]
