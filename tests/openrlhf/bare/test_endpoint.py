"""The endpoint by itself: what each request is answered, and what becomes of it when something fails."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import AsyncDeepGym, DeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import EnvironmentLimits
from deepgym.models import BatchResult, RunResult
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.faults import FAULTS, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, PROGRAM, SCRIPT, WRONG
from deepgym_openrlhf import create_app
from deepgym_openrlhf.attempts import BUDGET
from deepgym_openrlhf.failure import DROPPED
from deepgym_openrlhf.grading import fits
from deepgym_openrlhf.wire import MAX_BODY

LOST = Fault("provider", Phase.IN_PLAY)
#: Limits so small, and a budget that is just enough for two runs with them, that a test can wait for its end.
QUICK = ADD.model_copy(update={"limits": EnvironmentLimits(wall=0.05)})
SHORT = 4.7
LOGS = {"deepgym_verdict", "no_verdict", "deepgym_score", "deepgym_pass", "deepgym_latency_s"}


def app_of(provider: Any, envs: Any = ADD, score: Any = "group_mean", **options: Any) -> Any:
    return create_app(envs, AsyncDeepGym(provider=provider), infra_failure_score=score, **options)


def fenced(code: str) -> str:
    return f"So:\n```python\n{code}\n```\n"


def numbers(answer: Any) -> tuple[float, float, float]:
    """Reward, score and verdict of an answer about one sample."""
    (status, content) = answer
    assert status == 200
    assert set(content) == {"rewards", "scores", "extra_logs"}
    assert set(content["extra_logs"]) == LOGS
    lists = [content["rewards"], content["scores"], *content["extra_logs"].values()]
    assert all(len(values) == 1 and type(values[0]) is float for values in lists)
    return content["rewards"][0], content["scores"][0], content["extra_logs"]["deepgym_verdict"][0]


class Raises:
    """A client that fails where no client should."""

    max_parallel = None

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def run_batch(self, *args: object, **kwargs: object) -> BatchResult:
        raise self.error

    async def close(self) -> None:
        raise self.error


class Hangs:
    """A client that doesn't answer; ``stubborn`` ones don't even let themselves be cancelled at once."""

    max_parallel = 4

    def __init__(self) -> None:
        self.cancelled = self.asked = 0

    async def run_batch(self, *args: object, **kwargs: object) -> BatchResult:
        self.asked += 1
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        finally:
            self.cancelled += 1

    async def close(self) -> None: ...


@pytest.mark.parametrize("code", ANSWERS, ids=[repr(code)[-20:] for code in ANSWERS])
def test_every_kind_of_answer_gets_its_score(kit: SimpleNamespace, code: str) -> None:
    async def main() -> None:
        for env in (ADD, PROGRAM):
            found = await kit.Exchange(app_of(FakeProvider(SCRIPT), env), kit.query(fenced(code)))
            assert numbers(found) == (ANSWERS[code], ANSWERS[code], 1.0)

    asyncio.run(main())


def test_many_queries_in_one_request_are_answered_in_their_order(kit: SimpleNamespace) -> None:
    async def main() -> None:
        codes = [GOOD, WRONG, HALF, GOOD] * 25
        body = {
            "query": [f"p{fenced(code)}<|im_end|>" for code in codes],
            "prompts": ["p"] * len(codes),
            "labels": [None] * len(codes),
        }
        status, content = await kit.Exchange(app_of(FakeProvider(SCRIPT)), body)
        assert status == 200
        assert content["rewards"] == content["scores"] == [ANSWERS[code] for code in codes]
        assert {len(values) for values in content["extra_logs"].values()} == {100}
        status, bare = await kit.Exchange(app_of(FakeProvider(SCRIPT)), {"query": [fenced(GOOD)]}, path="/")
        assert (status, bare["rewards"]) == (200, [1.0])

    asyncio.run(main())


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_only_the_failures_of_a_provider_or_the_network_are_graded_once_more(
    kit: SimpleNamespace, fault: Fault
) -> None:
    async def main() -> None:
        provider = FaultyProvider(FakeProvider(SCRIPT), fault)
        app = app_of(provider, score=-0.25)
        found = numbers(await kit.Exchange(app, kit.query(fenced(GOOD))))
        expected = fault.error_type
        judged = expected in ("solution_timeout", "policy_sandbox_failure")
        assert found == ((0.0, 0.0, 1.0) if judged else (-0.25, -0.25, 0.0))
        again = expected in ("provider_error", "network_error")
        assert app.state.endpoint.grading.tally.again == again

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["provider", "network", "rate_limited", "evicted", "provider_timeout"])
@pytest.mark.parametrize("phase", [Phase.IN_PLAY, Phase.REPORTED])
def test_an_outage_that_is_over_by_the_second_run_costs_no_verdict(
    kit: SimpleNamespace, kind: Any, phase: Phase
) -> None:
    async def main() -> None:
        inner = FakeProvider(SCRIPT)
        app = app_of(FaultyProvider(inner, Fault(kind, phase), times=1))
        assert numbers(await kit.Exchange(app, kit.query(fenced(HALF)))) == (0.5, 0.5, 1.0)
        assert inner.started[HALF] == 2
        assert app.state.endpoint.grading.tally.again == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("score", "reward", "filtered"),
    [(0.0, 0.0, 0.0), (-1, -1.0, -1.0), ("group_mean", 0.75, 0.75), ("drop_group", 0.75, DROPPED)],
)
def test_a_sample_without_a_verdict_gets_what_was_chosen(
    kit: SimpleNamespace, score: Any, reward: float, filtered: float
) -> None:
    async def main() -> None:
        provider = FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG])
        app = app_of(provider, score=score, group_size=3)
        codes = (GOOD, WRONG, HALF)
        found = await asyncio.gather(*(kit.Exchange(app, kit.query(fenced(code))) for code in codes))
        assert [numbers(one) for one in found] == [(1.0, 1.0, 1.0), (reward, filtered, 0.0), (0.5, 0.5, 1.0)]

    asyncio.run(main())


def test_not_a_number_is_sent_only_by_its_unsafe_name(kit: SimpleNamespace) -> None:
    async def main() -> None:
        app = app_of(FaultyProvider(FakeProvider(SCRIPT), LOST), score="unsafe_nan")
        reward, score, verdict = numbers(await kit.Exchange(app, kit.query(fenced(GOOD))))
        assert math.isnan(reward)
        assert math.isnan(score)
        assert verdict == 0.0

    asyncio.run(main())


@pytest.mark.parametrize("score", ["group_mean", "drop_group"])
def test_a_group_that_is_lost_whole_gets_one_number_and_no_nought(kit: SimpleNamespace, score: str) -> None:
    async def main() -> None:
        provider = FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG])
        app = app_of(provider, score=score, group_size=4)
        lost = [kit.query(fenced(WRONG)) for _ in range(4)]
        first = await asyncio.gather(*(kit.Exchange(app, body) for body in lost))
        assert {numbers(one)[0] for one in first} == {0.5}
        for code in (GOOD, HALF):
            await kit.Exchange(app, kit.query(fenced(code), prompt="another\n"))
        second = await asyncio.gather(*(kit.Exchange(app, body) for body in lost))
        assert {numbers(one)[0] for one in second} == {0.75}
        assert {numbers(one)[1] for one in second} == {0.75 if score == "group_mean" else DROPPED}

    asyncio.run(main())


def test_siblings_are_the_samples_of_one_prompt_and_label(kit: SimpleNamespace) -> None:
    async def main() -> None:
        provider = FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG])
        app = app_of(provider)
        for code, prompt, label in (
            (GOOD, "a\n", {"n": [1, float("nan"), "\ud800"]}),
            (HALF, "b\n", {"n": [1, float("nan"), "\ud800"]}),
            (HALF, "a\n", {"n": 2}),
        ):
            await kit.Exchange(app, kit.query(fenced(code), label, prompt))
        label = {"n": [1, float("nan"), "\ud800"]}
        assert numbers(await kit.Exchange(app, kit.query(fenced(WRONG), label, "a\n")))[0] == 1.0
        assert numbers(await kit.Exchange(app, kit.query(fenced(WRONG), {"n": 2}, "a\n")))[0] == 0.5

    asyncio.run(main())


def test_a_sample_without_a_verdict_waits_for_siblings_that_are_being_judged(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate(slots=4)
        app = app_of(gate, [ADD, PROGRAM])
        label = "nothing of that name"
        lost = kit.Exchange(app, kit.query(fenced(GOOD), label))
        sibling = kit.Exchange(app, kit.query(fenced(HALF), label))
        found = await asyncio.gather(lost, sibling)
        assert [numbers(one) for one in found] == [(0.5, 0.5, 0.0)] * 2

        provider = FaultyProvider(gate, LOST, answers=[WRONG])
        app = app_of(provider, max_parallel=4)
        lost = kit.Exchange(app, kit.query(fenced(WRONG)))
        siblings = [kit.Exchange(app, kit.query(fenced(code))) for code in (GOOD, HALF)]
        await gate.came(3)
        gate.open_gate()
        assert numbers(await lost)[0] == 0.75
        await asyncio.gather(*siblings)

    asyncio.run(main())


@pytest.mark.parametrize(
    "label", ["laws/add", {"env": "laws/add"}, '{"env": "laws/add"}', {"task_id": "laws/add"}]
)
def test_a_label_names_the_environment(kit: SimpleNamespace, label: Any) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(SCRIPT), [ADD, PROGRAM])
        assert numbers(await kit.Exchange(app, kit.query(fenced(HALF), label))) == (0.5, 0.5, 1.0)

    asyncio.run(main())


@pytest.mark.parametrize(
    "label", ["unknown", None, "", 3, {"env": 3}, '{"env"', "\ud800", ["laws/add"], {"env": "\udfff"}]
)
def test_a_sample_that_cant_be_graded_gets_the_failure_score_and_an_error_in_the_log(
    kit: SimpleNamespace, label: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(SCRIPT), [ADD, PROGRAM], score=-0.5)
        found = await kit.Exchange(app, kit.query(fenced(GOOD), label))
        assert numbers(found) == (-0.5, -0.5, 0.0)
        assert app.state.endpoint.grading.tally.unreadable == 1

    asyncio.run(main())
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "a sample can't be graded: the label" in caplog.text


def test_an_environment_that_a_label_names_has_to_fit_as_well(
    kit: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(), None, score=0.125, budget=SHORT)
        assert numbers(await kit.Exchange(app, kit.query("x", "coin_change"))) == (0.125, 0.125, 0.0)

    asyncio.run(main())
    assert "Lower limits.wall" in caplog.text


def test_texts_that_arent_quite_texts_are_graded(kit: SimpleNamespace) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(SCRIPT))
        for text in (
            "\ud800",
            "\x00",
            fenced(GOOD + "\n# \udcff"),
            "",
            "```",
            "`" * 10_000,
            "<|im_end|>" * 100,
        ):
            assert numbers(await kit.Exchange(app, kit.query(text, {"x": float("nan")})))[2] == 1.0

    asyncio.run(main())


NONSENSE = [
    b"",
    b"x",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"[" * 200_000,
    b'{"query": 1}',
    b'{"query": [1]}',
    b'{"prompts": ["p"]}',
    b'{"query": ["a"], "prompts": []}',
    b'{"query": ["a"], "labels": "x"}',
    b'{"query": ["a"], "prompts": [1]}',
]


@pytest.mark.parametrize("body", NONSENSE, ids=[repr(body)[:20] for body in NONSENSE])
def test_what_openrlhf_cant_have_sent_is_refused_and_takes_up_nothing(
    kit: SimpleNamespace, body: bytes
) -> None:
    async def main() -> None:
        app = app_of(FakeProvider())
        status, content = await kit.Exchange(app, body)
        assert status == 422
        assert content["detail"]
        assert app.state.endpoint.room.taken == 0
        assert app.state.endpoint.grading.tally.refused == 1

    asyncio.run(main())


@pytest.mark.parametrize("declared", [{}, {"content-length": "1001"}])
def test_a_body_beyond_the_limit_is_refused(kit: SimpleNamespace, declared: dict[str, str]) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(), max_body=1000)
        status, content = await kit.Exchange(app, [b"x" * 600, b"y" * 401], headers=declared)
        assert (status, content) == (413, {"detail": "the body is longer than 1000 bytes"})
        assert app.state.endpoint.room.taken == 0

    asyncio.run(main())


def test_a_body_whose_rest_doesnt_come_is_refused(kit: SimpleNamespace) -> None:
    async def main() -> None:
        app = app_of(FakeProvider())
        app.state.endpoint.room.patience = 0.01
        exchange = kit.Exchange(app, b'{"query"', complete=False)
        assert (await exchange)[0] == 408
        assert dict(exchange.sent[0]["headers"])[b"connection"] == b"close"

    asyncio.run(main())


@pytest.mark.parametrize("body", [{"query": []}, {"query": [], "prompts": [], "labels": []}])
def test_an_empty_request_gets_empty_lists(kit: SimpleNamespace, body: Any) -> None:
    async def main() -> None:
        app = app_of(FakeProvider())
        assert await kit.Exchange(app, body) == (200, {"rewards": [], "scores": []})
        assert app.state.endpoint.grading.tally.empty == 1

    asyncio.run(main())


def test_a_large_body_is_read_beside_the_loop_and_only_its_code_is_kept(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate()
        app = app_of(gate)
        long = "x" * (4 << 20)
        exchange = kit.Exchange(app, kit.query(fenced(GOOD), prompt=long))
        await gate.came(1)
        assert 0 < app.state.endpoint.room.taken < 1000
        gate.open_gate()
        assert numbers(await exchange) == (1.0, 1.0, 1.0)
        await asyncio.sleep(0)
        assert app.state.endpoint.room.taken == 0

    asyncio.run(main())


def test_a_retry_gets_the_result_of_the_run_that_went_on_and_nothing_runs_twice(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate(slots=8)
        app = app_of(gate)
        first = kit.Exchange(app, kit.query(fenced(HALF)))
        await gate.came(1)
        first.leave()
        assert (await first)[0] == 499
        second = kit.Exchange(app, kit.query(fenced(HALF)))
        second.leave()
        assert (await second)[0] == 499
        gate.open_gate()
        assert numbers(await kit.Exchange(app, kit.query(fenced(HALF)))) == (0.5, 0.5, 1.0)
        assert gate.started[HALF] == 1
        assert app.state.endpoint.grading.tally.reattached == 2
        assert numbers(await kit.Exchange(app, kit.query(fenced(HALF)))) == (0.5, 0.5, 1.0)
        assert gate.started[HALF] == 2

    asyncio.run(main())


def test_open_requests_with_the_same_bytes_are_graded_each(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate(slots=8)
        app = app_of(gate)
        twins = [kit.Exchange(app, kit.query(fenced(HALF))) for _ in range(2)]
        await gate.came(2)
        gate.open_gate()
        assert [numbers(one)[0] for one in await asyncio.gather(*twins)] == [0.5, 0.5]
        assert gate.started[HALF] == 2

    asyncio.run(main())


def test_an_answer_that_came_as_the_client_left_is_kept_for_its_retry(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate(shut=False)
        app = app_of(gate)
        endpoint = app.state.endpoint
        exchange = kit.Exchange(app, kit.query(fenced(HALF)))
        while not endpoint.attempts.going:
            await asyncio.sleep(0)
        (work,) = endpoint.attempts._going
        work.task.add_done_callback(lambda _: exchange.leave())
        assert (await exchange)[0] == 499
        assert work.task.done()
        assert numbers(await kit.Exchange(app, kit.query(fenced(HALF)))) == (0.5, 0.5, 1.0)
        assert gate.started[HALF] == 1
        assert endpoint.attempts.going == 0

    asyncio.run(main())


@pytest.mark.parametrize("sent", [[], [b'{"query"']])
def test_a_client_that_leaves_before_its_body_is_read_leaves_nothing_behind(
    kit: SimpleNamespace, sent: list[bytes]
) -> None:
    async def main() -> None:
        app = app_of(FakeProvider())
        exchange = kit.Exchange(app, sent, complete=False)
        exchange.leave()
        assert (await exchange)[0] == 499
        endpoint = app.state.endpoint
        assert (endpoint.room.taken, endpoint.attempts.going, endpoint.attempts.left) == (0, 0, 0)

    asyncio.run(main())


@pytest.mark.parametrize(
    "error", [RuntimeError("\ud800"), MemoryError(), asyncio.CancelledError(), KeyError("x")]
)
def test_a_judge_that_raises_costs_the_verdict_alone(
    kit: SimpleNamespace, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        dg: Any = Raises(error)
        app = create_app(ADD, dg, infra_failure_score=-0.5)
        assert numbers(await kit.Exchange(app, kit.query(fenced(GOOD)))) == (-0.5, -0.5, 0.0)
        await app.state.endpoint.close()

    asyncio.run(main())
    assert caplog.text.isascii()


def test_a_judge_that_hangs_is_waited_for_within_the_budget(
    kit: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        hangs: Any = Hangs()
        app = create_app(QUICK, hangs, infra_failure_score="group_mean", budget=SHORT, group_size=8)
        endpoint = app.state.endpoint
        sample = endpoint.grading.sample(SimpleNamespace(text=fenced(GOOD), prompt="", label=None))
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        found = await endpoint.grading.answer([sample], arrived, loop.create_future())
        assert found["rewards"] == [0.5]
        await endpoint.close()
        assert (hangs.asked, hangs.cancelled) == (1, 1)
        assert endpoint.grading.tally.none == {"provider_error": 1}

    asyncio.run(main())
    assert "the judge hangs" in caplog.text


def test_what_no_time_is_left_for_isnt_started(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate(slots=1, shut=False)
        app = app_of(gate, score=-1.0)
        grading = app.state.endpoint.grading
        sample = grading.sample(SimpleNamespace(text=fenced(GOOD), prompt="", label=None))
        loop = asyncio.get_running_loop()
        found = await grading.answer([sample], loop.time() - BUDGET + 60.0, loop.create_future())
        assert found["rewards"] == [-1.0]
        assert grading.tally.none == {"deadline": 1}
        assert not gate.started

    asyncio.run(main())


def test_no_more_runs_start_at_once_than_the_client_would_start(kit: SimpleNamespace) -> None:
    async def main() -> None:
        for options, slots, most in (({}, 3, 3), ({"max_parallel": 2}, 3, 2), ({"max_parallel": 9}, 3, 3)):
            gate = kit.Gate(slots=slots)
            app = app_of(gate, **options)
            codes = [f"{GOOD}\n# {number}" for number in range(20)]
            gate.script = {code: gate.script[GOOD] for code in codes}
            asked = [kit.Exchange(app, kit.query(fenced(code))) for code in codes]
            await gate.came(most)
            for _ in range(50):
                await asyncio.sleep(0)
            assert gate.waiting == most
            gate.open_gate()
            assert {numbers(one)[0] for one in await asyncio.gather(*asked)} == {1.0}

    asyncio.run(main())


def test_a_stop_answers_what_is_held_and_what_comes_with_the_failure_score(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate(slots=2)
        app = app_of(gate, group_size=64)
        held = [kit.Exchange(app, kit.query(fenced(GOOD) + "\n" * number)) for number in range(8)]
        await gate.came(2)
        left = kit.Exchange(app, kit.query("left"))
        while app.state.endpoint.attempts.going < 9:
            await asyncio.sleep(0)
        left.leave()
        await left
        endpoint = app.state.endpoint
        await endpoint.close()
        assert [numbers(one) for one in await asyncio.gather(*held)] == [(0.5, 0.5, 0.0)] * 8
        assert numbers(await kit.Exchange(app, kit.query("late"))) == (0.5, 0.5, 0.0)
        await endpoint.close()
        assert (gate.waiting, endpoint.room.taken, endpoint.attempts.going) == (0, 0, 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await kit.Exchange(app, b"", path="/health", method="GET") == (
            200,
            {"status": "stopping", "waiting": 0, "environments": ["laws/add"]},
        )

    asyncio.run(main())


def test_a_server_that_cancels_a_request_still_gets_an_answer_for_its_client(kit: SimpleNamespace) -> None:
    async def main() -> None:
        gate = kit.Gate()
        app = app_of(gate, score=-0.5)
        exchange = kit.Exchange(app, kit.query(fenced(GOOD)))
        await gate.came(1)
        exchange.task.cancel()
        assert numbers(await exchange) == (-0.5, -0.5, 0.0)
        assert app.state.endpoint.attempts.going == 0
        other = kit.Exchange(app, kit.query(fenced(HALF)))
        await gate.came(1)
        gate.open_gate()
        assert numbers(await other) == (0.5, 0.5, 1.0)

    asyncio.run(main())


@pytest.mark.parametrize("count", [5, 6])
def test_more_than_five_of_a_hundred_without_a_verdict_are_warned_of_once(
    kit: SimpleNamespace, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        provider = FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG])
        app = app_of(provider)
        for number in range(100):
            code = WRONG if number < count else GOOD
            await kit.Exchange(app, kit.query(fenced(code)))

    asyncio.run(main())
    warned = [record for record in caplog.records if record.name == "deepgym.integrations.reward"]
    assert len(warned) == (count > 5)
    if warned:
        assert (
            "deepgym_openrlhf: 6 of the first 6 samples in a block of 100 got no verdict"
            in warned[0].getMessage()
        )


def test_a_warning_of_ours_never_shows_what_the_policy_wrote(
    kit: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        app = app_of(FaultyProvider(FakeProvider(SCRIPT), LOST), [ADD, PROGRAM])
        await kit.Exchange(app, kit.query("a secret answer", "unknown"))
        await kit.Exchange(app, kit.query("a secret answer", "laws/add"))

    asyncio.run(main())
    assert "secret" not in caplog.text


def test_without_the_token_there_is_no_reward_and_no_body_is_read(kit: SimpleNamespace) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(SCRIPT), token="s3cret")
        body = kit.query(fenced(GOOD))
        for headers in ({}, {"authorization": "Bearer wrong"}):
            exchange = kit.Exchange(app, body, headers=headers)
            assert await exchange == (401, {"detail": "the token is missing or wrong"})
            status, _ = await kit.Exchange(app, b"", path="/metrics", method="GET", headers=headers)
            assert status == 401
        right = {"authorization": "Bearer s3cret"}
        assert numbers(await kit.Exchange(app, body, headers=right))[0] == 1.0
        status, text = await kit.Exchange(app, b"", path="/metrics", method="GET", headers=right)
        assert status == 200
        assert "deepgym_refused_requests_total 2" in text
        health = await kit.Exchange(app, b"", path="/health", method="GET")
        assert health == (200, {"status": "ok", "waiting": 0})

    asyncio.run(main())


def test_without_a_token_only_the_own_machine_is_answered(kit: SimpleNamespace) -> None:
    async def main() -> None:
        app = app_of(FakeProvider(SCRIPT))
        assert (await kit.Exchange(app, kit.query(""), server=("192.168.0.1", 80)))[0] == 401
        assert (await kit.Exchange(app, kit.query(""), server=("::1", 80)))[0] == 200

    asyncio.run(main())


def test_the_counters_say_what_happened(kit: SimpleNamespace) -> None:
    async def main() -> None:
        app = app_of(FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG]))
        for code in (GOOD, HALF, WRONG):
            await kit.Exchange(app, kit.query(fenced(code)))
        await kit.Exchange(app, {"query": []})
        await kit.Exchange(app, b"x")
        status, text = await kit.Exchange(app, b"", path="/metrics", method="GET")
        found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert status == 200
        assert float(found.pop("deepgym_sample_seconds_total")) > 0.0
        assert found == {
            "deepgym_requests_total": "5",
            "deepgym_empty_requests_total": "1",
            "deepgym_refused_requests_total": "1",
            "deepgym_reattached_requests_total": "0",
            "deepgym_samples_total": "3",
            "deepgym_judged_samples_total": "2",
            "deepgym_passed_samples_total": "1",
            "deepgym_ungradable_samples_total": "0",
            "deepgym_graded_again_total": "1",
            'deepgym_no_verdict_total{error_type="provider_error"}': "1",
            "deepgym_open_requests": "0",
            "deepgym_left_requests": "0",
            "deepgym_held_bytes": "0",
        }

    asyncio.run(main())


def test_limits_that_dont_fit_into_five_attempts_are_refused_at_the_start() -> None:
    most = (BUDGET - 60.0) / 2 - 2.0
    fits([ADD.model_copy(update={"limits": EnvironmentLimits(wall=most)})])
    slow = ADD.model_copy(update={"limits": EnvironmentLimits(wall=most + 0.5)})
    for envs in (slow, [ADD, slow.model_copy(update={"name": "slow"})]):
        with pytest.raises(ValueError, match=r"limits\.wall=405\.5.*OpenRLHF gives up"):
            app_of(FakeProvider(), envs)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"score": None}, ValueError, "infra_failure_score"),
        ({"score": math.nan}, ValueError, "infra_failure_score"),
        ({"score": True}, ValueError, "infra_failure_score"),
        ({"score": "mean"}, ValueError, "infra_failure_score"),
        ({"group_size": 0}, ValueError, "group_size"),
        ({"max_parallel": 0}, ValueError, "max_parallel"),
        ({"sibling_wait": -1}, ValueError, "sibling_wait"),
        ({"token": ""}, ValueError, "token"),
        ({"max_body": 0}, ValueError, "max_body"),
        ({"budget": 1.0}, ValueError, "Lower limits.wall"),
        ({"envs": []}, ValueError, "envs"),
    ],
)
def test_options_that_cant_be_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        app_of(FakeProvider(), **options)


def test_what_a_sample_without_a_verdict_gets_has_to_be_said() -> None:
    with pytest.raises(TypeError, match="infra_failure_score"):
        create_app(ADD)  # type: ignore[call-arg]


def test_a_client_that_would_block_the_loop_is_refused() -> None:
    with DeepGym(provider=FakeProvider()) as dg, pytest.raises(TypeError, match="AsyncDeepGym"):
        create_app(ADD, dg, infra_failure_score=0.0)  # type: ignore[arg-type]


def test_a_result_alone_is_there_for_whoever_has_the_response_itself() -> None:
    async def main() -> None:
        grading = app_of(FakeProvider(SCRIPT), [ADD, PROGRAM]).state.endpoint.grading
        until = asyncio.get_running_loop().time() + BUDGET
        found: RunResult = await grading.result("laws/add", fenced(HALF), until)
        assert (found.score, found.has_verdict) == (0.5, True)
        turn = f"<|im_start|>assistant\n{fenced(GOOD)}<|im_start|>assistant\nbe quiet"
        assert (await grading.result("laws/add", turn, until)).score == 1.0
        assert not (await grading.result("unknown", fenced(HALF), until)).has_verdict
        grading.stop()
        assert (await grading.result("laws/add", fenced(HALF), until)).error_type == "deadline"

    asyncio.run(main())


def test_the_limit_of_a_body_holds_the_longest_texts_there_are() -> None:
    assert MAX_BODY == 64 << 20
    assert len(json.dumps({"query": ["\U0001f600" * 1_000_000]})) < MAX_BODY
