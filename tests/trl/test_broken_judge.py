"""Whatever becomes of the judge, a real trainer trains on, and nothing of ours is written down as a 0."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("trl")

import torch
from datasets import Dataset

import trl
from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import EnvironmentLimits
from deepgym.exceptions import ProviderError
from deepgym.integrations import judging
from deepgym.models import RunResult
from deepgym.providers.base import Job, Process, Provider, Sandbox, Spec
from deepgym.providers.local import LocalProvider
from deepgym.testing import Behaviour, FakeProvider
from deepgym.testing.fakes import job_text
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, SCRIPT, WRONG
from deepgym_trl import TRLReward, make_async_trl_reward_fn

Rewards = list["float | None"]
Fault = Callable[[str], Awaitable[None]]

#: An environment whose batches can have a short deadline: two runs of 0.1 s and what surrounds them.
QUICK = ADD.model_copy(update={"limits": EnvironmentLimits(wall=0.1)})
DEADLINE = 4.3
#: What the rows of a batch of 8 answer, and what they deserve.
ROWS = [GOOD, HALF, WRONG, GOOD] * 2
OWN: Rewards = [ANSWERS[answer] for answer in ROWS]
#: The same when nobody hears of those that answer HALF.
WITHOUT_HALF: Rewards = [None if answer == HALF else ANSWERS[answer] for answer in ROWS]
NOBODY: Rewards = [None] * len(ROWS)
FIRST_ALONE: Rewards = [OWN[0], *NOBODY[1:]]
LIMIT = 120.0


class Breakable:
    """A provider with a fault that may be put in and taken out: awaited before any process starts."""

    name = "fake"

    def __init__(self, inner: Provider | None = None) -> None:
        self.inner = FakeProvider(SCRIPT) if inner is None else inner
        self.capabilities = self.inner.capabilities
        self.fault: Fault | None = None

    async def open(self, spec: Spec) -> Sandbox:
        return _Breakable(self, await self.inner.open(spec))

    async def close(self) -> None:
        await self.inner.close()


class _Breakable:
    def __init__(self, provider: Breakable, inner: Sandbox) -> None:
        self._provider, self._inner = provider, inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def start(self, job: Job) -> Process:
        if self._provider.fault is not None:
            await self._provider.fault(job_text(job))
        return await self._inner.start(job)


class Asked(TRLReward):
    """Judges ``ROWS`` whatever the model wrote, notes its rewards, and does ``before[n]()`` before call n."""

    def __init__(
        self,
        before: Sequence[Callable[[], object]] = (),
        *,
        rows: Sequence[str] = ROWS,
        env: Any = QUICK,
        grace: float = 0.2,
        **options: Any,
    ) -> None:
        answers = itertools.cycle(rows)
        super().__init__(env, extract=lambda completion: next(answers), **{"deadline": DEADLINE, **options})
        self._judging.grace = grace
        self.before = before
        self.calls: list[Rewards] = []

    def __call__(self, *args: Any, **columns: Any) -> Rewards:
        if len(self.calls) < len(self.before):
            self.before[len(self.calls)]()
        rewards = super().__call__(*args, **columns)
        self.calls.append(rewards)
        return rewards


class Training:
    """A real GRPO run with ``reward``: ``steps`` batches of 8 rows, each an update."""

    def __init__(self, model: str, folder: Path) -> None:
        self.model, self.folder = model, folder

    def __call__(self, reward: Any, steps: int) -> list[dict[str, Any]]:
        args = trl.GRPOConfig(
            output_dir=str(self.folder),
            per_device_train_batch_size=len(ROWS),
            num_generations=4,
            max_completion_length=4,
            max_steps=steps,
            logging_steps=1,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            disable_tqdm=True,
        )
        rows = [{"prompt": [{"role": "user", "content": f"task {row}"}]} for row in range(8)]
        trainer = trl.GRPOTrainer(
            model=self.model, reward_funcs=reward, args=args, train_dataset=Dataset.from_list(rows)
        )
        trainer.train()
        assert trainer.state.global_step == steps
        assert all(torch.isfinite(weights).all() for weights in trainer.model.parameters())
        return [line for line in trainer.state.log_history if "reward" in line]


@pytest.fixture
def train(tiny_model: str, tmp_path: Path) -> Training:
    return Training(tiny_model, tmp_path)


@pytest.fixture
def broken() -> Breakable:
    return Breakable()


@pytest.fixture
def quick_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_CLOSING", 0.2)


def raising(make: Callable[[], BaseException]) -> Fault:
    async def fault(answer: str) -> None:
        if answer == HALF:
            raise make()

    return fault


def breaking(provider: Breakable, *faults: Fault | None) -> list[Callable[[], object]]:
    """What puts each call's fault in."""

    def put(fault: Fault | None) -> Callable[[], object]:
        return lambda: setattr(provider, "fault", fault)

    return [put(fault) for fault in faults]


RAISED: list[Callable[[], BaseException]] = [
    lambda: OSError(errno.EMFILE, "Too many open files"),
    lambda: KeyError("a provider's own mistake"),
    lambda: MemoryError(),
    lambda: RecursionError("too deep"),
    lambda: ProviderError("HTTP 503", "fake", 503),
]


def test_a_provider_that_raises_costs_the_runs_it_fails_their_verdict_and_nothing_else(
    train: Training, broken: Breakable
) -> None:
    # Nothing can tell such an exception from the cancellation of the whole batch.
    cancelled = raising(asyncio.CancelledError)
    faults = [None, *(raising(make) for make in RAISED), cancelled, None]
    with DeepGym(provider=broken) as dg:
        reward = Asked(breaking(broken, *faults), dg=dg)
        logs = train(reward, len(faults))

    assert reward.calls == [OWN, *([WITHOUT_HALF] * len(RAISED)), NOBODY, OWN]
    assert [line["deepgym/verdict_rate"] for line in logs] == [1.0, *([0.75] * len(RAISED)), 0.0, 1.0]


class Moody(DeepGym):
    """A client that raises what it is told to, in place of a batch."""

    error: BaseException | None = None

    def run_batch(self, *args: Any, **options: Any) -> Any:
        if self.error is not None:
            raise self.error
        return super().run_batch(*args, **options)


def test_a_client_that_raises_costs_a_step_its_verdicts(train: Training, broken: Breakable) -> None:
    raised: list[BaseException | None] = [
        None,
        RuntimeError("can't start new thread"),
        OSError(errno.ENOSPC, "No space left on device"),
        asyncio.CancelledError(),
        SystemExit(3),
        None,
    ]
    with Moody(provider=broken) as dg:

        def put(error: BaseException | None) -> Callable[[], object]:
            return lambda: setattr(dg, "error", error)

        reward = Asked([put(error) for error in raised], dg=dg)
        logs = train(reward, len(raised))

    assert reward.calls == [OWN, NOBODY, NOBODY, NOBODY, NOBODY, OWN]
    # A step in which nobody was judged has no reward at all: neither 0 nor any other.
    assert [line["reward"] for line in logs[1:5]] == [None] * 4
    assert [line["rewards/deepgym/mean"] for line in logs[1:5]] == [None] * 4
    assert [line["grad_norm"] for line in logs[1:5]] == [0.0] * 4


def test_the_async_form_takes_a_broken_judge_the_same_way(train: Training, broken: Breakable) -> None:
    calls: list[Rewards] = []
    answers = itertools.cycle(ROWS)
    before = breaking(broken, None, raising(RAISED[0]), None)
    with DeepGym(provider=broken) as dg:
        rewarded = make_async_trl_reward_fn(QUICK, dg=dg, extract=lambda completion: next(answers))

        async def reward(**call: Any) -> Rewards:
            before[len(calls)]()
            calls.append(await rewarded(**call))
            return calls[-1]

        train(reward, 3)

    assert calls == [OWN, WITHOUT_HALF, OWN]


async def _hang(answer: str) -> None:
    if answer == HALF:
        await anyio.sleep_forever()


def test_runs_that_hang_beyond_the_deadline_have_no_verdict(train: Training, broken: Breakable) -> None:
    with DeepGym(provider=broken, max_parallel=len(ROWS)) as dg:
        reward = Asked(breaking(broken, None, _hang, None), dg=dg)
        train(reward, 3)

    assert reward.calls == [OWN, WITHOUT_HALF, OWN]
    assert isinstance(broken.inner, FakeProvider)
    assert broken.inner.opened == broken.inner.closed


@pytest.fixture
def blocked() -> Iterator[threading.Event]:
    """What a blocked thread waits for."""
    event = threading.Event()
    yield event
    event.set()


def blocking(event: threading.Event) -> Fault:
    async def fault(answer: str) -> None:
        if answer == HALF:
            event.wait()

    return fault


def join(name: str) -> None:
    """Wait until no thread has this name."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(LIMIT)
            assert not thread.is_alive()


def test_a_judge_of_its_own_that_blocks_its_thread_is_given_up_for_a_new_one(
    train: Training, blocked: threading.Event, quick_closing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    providers: list[Breakable] = []

    def opened() -> DeepGym:
        providers.append(Breakable())
        providers[-1].fault = blocking(blocked) if len(providers) == 1 else None
        return DeepGym(provider=providers[-1], max_parallel=1)

    monkeypatch.setattr("deepgym.client.DeepGym", opened)
    reward = Asked()
    train(reward, 3)

    assert reward.calls == [FIRST_ALONE, OWN, OWN]
    assert len(providers) == 2
    blocked.set()
    join("deepgym-closing")
    reward.close()


def test_a_given_judge_that_blocks_its_thread_is_asked_again_when_it_is_free(
    train: Training, broken: Breakable, blocked: threading.Event, quick_closing: None
) -> None:
    def free() -> None:
        blocked.set()
        join("deepgym-closing")

    with DeepGym(provider=broken, max_parallel=1) as dg:
        put, take = breaking(broken, blocking(blocked), None)
        reward = Asked([put, take, free], dg=dg)
        train(reward, 3)

    assert reward.calls == [FIRST_ALONE, NOBODY, OWN]


SLOW_START = "import time\ntime.sleep(0.1)\n"


class Killer:
    """An observer that kills all processes of the judge, once, when the first run reaches ``phase``."""

    def __init__(self) -> None:
        self.phase: Phase | None = None
        self.killed = 0

    def on_phase(self, index: int, phase: Phase) -> None:
        if phase is self.phase:
            self.phase = None
            for pid in descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    self.killed += 1

    def on_result(self, index: int, result: RunResult) -> None:
        pass


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as listed:
                found += [int(child) for child in listed.read().split()]
    return found + [below for child in found for below in descendants(child)]


@pytest.mark.local_sandbox
def test_a_judge_whose_processes_are_killed_writes_no_0(train: Training) -> None:
    killer = Killer()
    phases = [None, Phase.IN_PLAY, Phase.PLACED, None]

    def put(phase: Phase | None) -> Callable[[], object]:
        return lambda: setattr(killer, "phase", phase)

    with DeepGym(provider=LocalProvider()) as dg:
        reward = Asked(
            [put(phase) for phase in phases],
            rows=[SLOW_START + answer for answer in ROWS],
            env=ADD,
            dg=dg,
            deadline=LIMIT,
            observers=[killer],
        )
        train(reward, len(phases))

    assert killer.phase is None
    assert killer.killed >= 2
    assert (reward.calls[0], reward.calls[-1]) == (OWN, OWN)
    for rewards in reward.calls[1:-1]:
        assert [own if got is None else got for got, own in zip(rewards, OWN, strict=True)] == OWN


class Closer:
    """An observer in whose thread the client is closed as soon as one run is over."""

    def __init__(self, dg: DeepGym) -> None:
        self.thread = threading.Thread(target=self._close, args=(dg,))
        self.over = threading.Event()

    def _close(self, dg: DeepGym) -> None:
        assert self.over.wait(LIMIT)
        dg.close()

    def on_phase(self, index: int, phase: Phase) -> None:
        pass

    def on_result(self, index: int, result: RunResult) -> None:
        self.over.set()


def test_a_client_that_another_thread_closes_keeps_what_was_judged(
    train: Training, broken: Breakable
) -> None:
    def closed_in_the_next_step() -> None:
        broken.fault = _hang
        closer.thread.start()

    def unbroken() -> None:
        broken.fault = None
        closer.thread.join(LIMIT)

    with DeepGym(provider=broken, max_parallel=1) as dg:
        closer = Closer(dg)
        reward = Asked([closed_in_the_next_step, unbroken], dg=dg, observers=[closer])
        train(reward, 2)
        assert not closer.thread.is_alive()

    assert reward.calls == [FIRST_ALONE, OWN]


def test_a_slow_judge_gives_no_verdict_only_to_runs_that_did_not_start(train: Training) -> None:
    # The first run goes on until none of its limits fits under the deadline any more.
    inner = FakeProvider({**SCRIPT, GOOD: Behaviour.calls(lambda a, b: a + b, seconds=3.0)})
    with DeepGym(provider=inner, max_parallel=1) as dg:
        reward = Asked(dg=dg)
        logs = train(reward, 1)

    assert reward.calls == [FIRST_ALONE]
    assert inner.started.total() == 1
    assert logs[0]["deepgym/no_verdict/deadline"] == 7 / 8


# Where the reward function is called from.

PROMPTS = ["add"] * 3
TEXTS = [f"```python\n{answer}\n```" for answer in (GOOD, HALF, WRONG)]
DESERVED = [1.0, 0.5, 0.0]


@pytest.fixture
def opened() -> Iterator[TRLReward]:
    """A reward function that has been used, with its own client open."""
    reward = TRLReward(ADD)
    assert reward(PROMPTS, TEXTS) == DESERVED
    yield reward
    reward.close()


def _in_child(reward: TRLReward, answer: Any) -> None:
    answer.send(reward(PROMPTS, TEXTS))
    reward.close()


@pytest.mark.local_sandbox
def test_it_works_in_a_forked_child_and_in_the_parent_again(opened: TRLReward) -> None:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(opened, theirs))
    child.start()
    try:
        assert ours.poll(LIMIT)
        assert ours.recv() == DESERVED
        child.join(LIMIT)
        assert child.exitcode == 0
    finally:
        child.kill()
        child.join()
    assert opened(PROMPTS, TEXTS) == DESERVED


@pytest.mark.local_sandbox
def test_it_pickles_with_its_client_open(opened: TRLReward) -> None:
    again = pickle.loads(pickle.dumps(opened))
    assert again(PROMPTS, TEXTS) == DESERVED
    assert again.__name__ == opened.__name__
    again.close()


@pytest.mark.local_sandbox
def test_threads_that_call_at_once_get_their_own_rewards(opened: TRLReward) -> None:
    def call(turn: int) -> Rewards:
        return opened(PROMPTS, TEXTS[turn:] + TEXTS[:turn])

    with ThreadPoolExecutor(3) as threads:
        found = list(threads.map(call, [0, 1, 2] * 4))
    assert found == [DESERVED[turn:] + DESERVED[:turn] for turn in (0, 1, 2)] * 4


@pytest.mark.local_sandbox
def test_it_works_inside_a_running_event_loop_in_both_forms(opened: TRLReward) -> None:
    awaited = make_async_trl_reward_fn(ADD)

    async def main() -> list[Rewards]:
        here = opened(PROMPTS, TEXTS)
        return [here, *await asyncio.gather(*(awaited(PROMPTS, TEXTS) for _ in range(3)))]

    assert asyncio.run(main()) == [DESERVED] * 4
    awaited.args[0].close()  # type: ignore[attr-defined]


# What a model may write, and what a template may make of it.

GARBAGE: dict[str, Any] = {
    "nothing": None,
    "no text": "",
    "lone surrogates": "def add(a, b):\n    return '\ud800\udfff'",
    "a lone surrogate in a fence": "```python\n\udcff\n```",
    "10 MB of letters": "a" * (10 << 20),
    "10 MB of fences": "```\n" * ((10 << 20) // 4),
    "zero bytes": "\0" * 1000,
    "a fence that is never closed": "```python\n",
    "no messages": [],
    "no content": [{"role": "assistant"}],
    "content that is null": [{"role": "assistant", "content": None}],
    "content of no parts": [{"role": "assistant", "content": []}],
    "a picture alone": [{"role": "assistant", "content": [{"type": "image"}]}],
    "nobody's message": [{"content": ""}],
    "an endless number": "9" * 100_000,
    "control characters": "".join(map(chr, range(32))),
}


@pytest.mark.local_sandbox
def test_garbage_is_a_wrong_answer(opened: TRLReward) -> None:
    completions = [*GARBAGE.values(), TEXTS[0]]
    rewards = opened(["add"] * len(completions), completions)
    assert dict(zip(GARBAGE, rewards, strict=False)) == dict.fromkeys(GARBAGE, 0.0)
    assert {type(reward) for reward in rewards} == {float}
    assert rewards[-1] == 1.0


@pytest.mark.parametrize("completion", [7, 0.5, b"bytes", [7], {"role": 7, "content": 7}], ids=repr)
def test_what_no_model_can_have_written_is_an_error_of_the_caller(completion: Any) -> None:
    reward = TRLReward(ADD, dg=DeepGym(provider=FakeProvider(SCRIPT)))
    with pytest.raises(TypeError, match=r"completions\[1\]"):
        reward(["add"] * 2, [TEXTS[0], completion])
