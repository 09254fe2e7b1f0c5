"""OpenRLHF's own client against the served endpoint: what the trainer has of each sample."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import AsyncDeepGym
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, PROGRAM, SCRIPT, WRONG
from deepgym_openrlhf import create_app

LOGS = {"deepgym_verdict", "no_verdict", "deepgym_score", "deepgym_pass", "deepgym_latency_s"}

Serve = Callable[..., Any]


def app_of(provider: Any, envs: Any = ADD, score: Any = "group_mean", **options: Any) -> Any:
    return create_app(envs, AsyncDeepGym(provider=provider), infra_failure_score=score, **options)


def earned(sample: dict[str, Any]) -> tuple[float, float]:
    """Verdict and reward of a sample in the form that the trainer can use."""
    assert sample["scores"] == sample["reward"]
    assert [type(value) for value in sample["reward"]] == [float]
    assert set(sample["extra_logs"]) == LOGS
    for values in sample["extra_logs"].values():
        assert [type(value) for value in values] == [float]
    return sample["extra_logs"]["deepgym_verdict"][0], sample["reward"][0]


@pytest.fixture
def short_attempts(client: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Makes the client's attempts shorter than the 180 s that it has as a literal."""

    def shorten(seconds: float) -> None:
        aiohttp = client.load_agent().aiohttp
        timeout = aiohttp.ClientTimeout
        monkeypatch.setattr(aiohttp, "ClientTimeout", lambda total: timeout(total=seconds))

    return shorten


@pytest.mark.local_sandbox
@pytest.mark.parametrize("env", [ADD, PROGRAM], ids=["cases", "program"])
def test_the_trainer_gets_every_answers_score_from_the_real_sandbox(
    client: SimpleNamespace, serve: Serve, env: Any
) -> None:
    served = serve(lambda: create_app(env, infra_failure_score=-1.0))
    trainer = client.Trainer(served.url)

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*(trainer.sample(client.fenced(code)) for code in ANSWERS))

    found = asyncio.run(main())
    assert [earned(sample) for sample in found] == [(1.0, score) for score in ANSWERS.values()]
    assert [sample["extra_logs"]["deepgym_pass"] for sample in found[:2]] == [[1.0], [0.0]]


@pytest.mark.parametrize(
    ("label", "verdict"),
    [
        ("laws/add", 1.0),
        ({"env": "laws/add", "n": 1, "x": None}, 1.0),
        ('{"env": "laws/add"}', 1.0),
        (None, 0.0),
        ("", 0.0),
        ("unknown", 0.0),
        ({"env": "unknown"}, 0.0),
        ({"n": float("nan")}, 0.0),
    ],
)
def test_a_label_of_any_kind_is_answered(
    client: SimpleNamespace, serve: Serve, label: Any, verdict: float, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(lambda: app_of(FakeProvider(SCRIPT), [ADD, PROGRAM], -0.5))
    found = asyncio.run(client.Trainer(served.url).sample(client.fenced(HALF), label))
    assert earned(found) == (verdict, 0.5 if verdict else -0.5)
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == (verdict == 0.0)


def test_a_prompt_that_was_cut_from_the_left_isnt_taken_for_the_answer(
    client: SimpleNamespace, serve: Serve
) -> None:
    served = serve(lambda: app_of(FakeProvider(SCRIPT)))
    prompt = client.fenced(WRONG) * 40 + "Now you, in one block, and nothing else at all:\n"
    trainer = client.Trainer(served.url, max_length=400)
    found = asyncio.run(trainer.sample(f"```python\n{HALF}\n```", prompt=prompt))
    assert earned(found) == (1.0, 0.5)
    assert len(found["observation_tokens"]) < len(prompt)


def test_a_prompt_that_shows_code_doesnt_speak_for_an_empty_answer(
    client: SimpleNamespace, serve: Serve
) -> None:
    served = serve(lambda: app_of(FakeProvider(SCRIPT)))
    found = asyncio.run(client.Trainer(served.url).sample("", prompt=client.fenced(GOOD)))
    assert earned(found) == (1.0, 0.0)


def test_an_attempt_that_timed_out_goes_on_and_the_next_one_gets_its_result(
    client: SimpleNamespace, serve: Serve, kit: SimpleNamespace, short_attempts: Callable[[float], None]
) -> None:
    gate = kit.Gate(slots=8)
    served = serve(lambda: app_of(gate))
    short_attempts(0.6)

    async def main() -> list[dict[str, Any]]:
        trainer = client.Trainer(served.url)
        twins = [asyncio.ensure_future(trainer.sample(client.fenced(HALF))) for _ in range(2)]
        while served.endpoint.grading.tally.reattached < 3:
            await asyncio.sleep(0.01)
        served.call(gate.open_gate)
        return [*await asyncio.gather(*twins), await trainer.sample(client.fenced(HALF))]

    assert [earned(sample) for sample in asyncio.run(main())] == [(1.0, 0.5)] * 3
    assert gate.started[HALF] == 3
    assert served.endpoint.attempts.left == 0
    assert served.endpoint.grading.tally.samples == 3


def test_a_judge_that_hangs_costs_the_verdict_and_not_the_training_run(
    client: SimpleNamespace, serve: Serve, kit: SimpleNamespace, short_attempts: Callable[[float], None]
) -> None:
    # Five attempts of 1.5 s and four pauses of a second: an answer after 6.6 s is in the third or fourth.
    gate = kit.Gate()
    served = serve(lambda: app_of(gate, score=-0.5, budget=6.7))
    short_attempts(1.5)
    assert earned(asyncio.run(client.Trainer(served.url).sample(client.fenced(GOOD)))) == (0.0, -0.5)
    assert served.endpoint.grading.tally.reattached >= 1
    assert served.endpoint.grading.tally.none == {"provider_error": 1}


@pytest.mark.parametrize("timeout", [None, 1])
def test_a_server_that_is_stopped_answers_what_it_holds_and_leaves_nothing_behind(
    client: SimpleNamespace, serve: Serve, kit: SimpleNamespace, timeout: int | None
) -> None:
    gate = kit.Gate(slots=2)
    served = serve(lambda: app_of(gate, score=-0.5), timeout_graceful_shutdown=timeout)

    async def main() -> list[dict[str, Any]]:
        trainer = client.Trainer(served.url)
        held = [asyncio.ensure_future(trainer.sample(client.fenced(GOOD), n)) for n in range(12)]
        while served.endpoint.attempts.going < 12:
            await asyncio.sleep(0.01)
        if timeout is None:  # as ``deepgym openrlhf serve`` does when it is told to stop
            served.call(served.endpoint.grading.stop)
        served.server.should_exit = True
        return list(await asyncio.gather(*held))

    assert [earned(sample) for sample in asyncio.run(main())] == [(0.0, -0.5)] * 12
    served.stop()
    assert served.left_tasks == []
    assert gate.waiting == 0


_PROGRAM = """
import sys, uvicorn
from deepgym import AsyncDeepGym
from deepgym.testing.behaviours import Behaviour
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import ADD, GOOD, SCRIPT
from deepgym_openrlhf import create_app
script = {**SCRIPT, **({GOOD: Behaviour.calls(lambda a, b: a + b, seconds=600)} if sys.argv[2] == "slow" else {})}
app = create_app(ADD, AsyncDeepGym(provider=FakeProvider(script)), infra_failure_score=-1.0)
print("here", flush=True)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_config=None)
"""


def _process(port: int, kind: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _PROGRAM, str(port), kind]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "here\n"
    return started


def test_the_client_of_a_server_that_is_killed_is_graded_by_the_next_one(client: SimpleNamespace) -> None:
    import aiohttp

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    first = _process(port, "slow")
    second = None

    async def main() -> dict[str, Any]:
        nonlocal second
        trainer = client.Trainer(f"http://127.0.0.1:{port}/get_reward")
        async with aiohttp.ClientSession() as session:

            async def holds() -> int:
                try:
                    async with session.get(f"http://127.0.0.1:{port}/health") as answer:
                        waiting: int = (await answer.json())["waiting"]
                        return waiting
                except aiohttp.ClientError:
                    return -1

            while await holds() < 0:
                await asyncio.sleep(0.02)
            sample = asyncio.ensure_future(trainer.sample(client.fenced(GOOD)))
            while await holds() < 1:
                await asyncio.sleep(0.02)
            os.kill(first.pid, signal.SIGKILL)
            second = await asyncio.to_thread(_process, port, "quick")
            return await sample

    try:
        assert earned(asyncio.run(main())) == (1.0, 1.0)
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_a_server_that_answers_nothing_but_errors_would_cost_the_reward(client: SimpleNamespace) -> None:
    """What this endpoint is for: after five attempts the client has no reward, and the trainer ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    found = asyncio.run(client.Trainer(f"http://127.0.0.1:{port}/get_reward").sample("x"))
    assert found["reward"] is None


def test_several_endpoints_answer_the_newest_client_in_turn_and_older_ones_with_empty_shards(
    client: SimpleNamespace, serve: Serve
) -> None:
    one, two = (serve(lambda: app_of(FakeProvider(SCRIPT))) for _ in range(2))
    trainer = client.Trainer(one.url, two.url)

    async def main() -> list[dict[str, Any]]:
        return await asyncio.gather(*(trainer.sample(client.fenced(HALF)) for _ in range(6)))

    assert [earned(sample) for sample in asyncio.run(main())] == [(1.0, 0.5)] * 6
    tallies = [served.endpoint.grading.tally for served in (one, two)]
    in_turn = hasattr(trainer.executor, "_reward_endpoint_cycle")
    assert [tally.samples for tally in tallies] == ([3, 3] if in_turn else [6, 0])
    assert [tally.empty for tally in tallies] == ([0, 0] if in_turn else [0, 6])


def test_a_request_of_many_queries_as_old_clients_send_it_is_answered_as_one(
    client: SimpleNamespace, serve: Serve
) -> None:
    served = serve(lambda: app_of(FakeProvider(SCRIPT)))
    codes = [GOOD, HALF, WRONG] * 50
    prompts, labels = ["p\n"] * len(codes), [{"n": 1}] * len(codes)
    queries = [f"p\n{client.fenced(code)}{client.END}" for code in codes]

    async def main() -> Any:
        return await client.Trainer(served.url).executor._fetch_rewards_via_http(queries, prompts, labels)

    (found,) = asyncio.run(main())
    assert found["rewards"] == found["scores"] == [ANSWERS[code] for code in codes]
    assert {len(values) for values in found["extra_logs"].values()} == {150}


def test_the_token_comes_with_the_address(client: SimpleNamespace, serve: Serve) -> None:
    served = serve(lambda: app_of(FakeProvider(SCRIPT), token="p@ss:w/rd"))
    url = served.url.replace("http://", "http://user:p%40ss%3Aw%2Frd@")
    assert earned(asyncio.run(client.Trainer(url).sample(client.fenced(HALF)))) == (1.0, 0.5)
    alone = served.url.replace("http://", "http://user@")

    async def refused() -> int:
        import aiohttp

        async with aiohttp.ClientSession() as session, session.post(alone, json=kit_query()) as answer:
            return answer.status

    assert asyncio.run(refused()) == 401


def kit_query() -> dict[str, Any]:
    return {"query": ["x"], "prompts": [""], "labels": [None]}
