"""What the trainer gets while the provider or the network fails: never a 0 that nobody chose."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import AsyncDeepGym
from deepgym.contract.evidence import Phase
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.faults import Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, SCRIPT, WRONG
from deepgym_openrlhf import create_app
from deepgym_openrlhf.failure import DROPPED

Serve = Callable[..., Any]

#: What a provider or a network does to a run wherever it has got to.
OUTAGES = [
    Fault(kind, phase)
    for kind in ("provider", "network", "refused", "evicted")
    for phase in (Phase.QUEUED, Phase.OPENED, Phase.PLACED, Phase.IN_PLAY, Phase.REPORTED)
]
LOST = Fault("provider", Phase.IN_PLAY)


def app_of(provider: Any, score: Any, **options: Any) -> Any:
    return create_app(
        ADD, AsyncDeepGym(provider=provider), infra_failure_score=score, max_parallel=64, **options
    )


async def group(
    trainer: Any, client: SimpleNamespace, codes: list[str], prompt: str = "p\n"
) -> list[dict[str, Any]]:
    """The samples of one prompt, as a rollout sends them: at once."""
    return await asyncio.gather(*(trainer.sample(client.fenced(code), prompt=prompt) for code in codes))


def rewards(samples: list[dict[str, Any]]) -> list[float]:
    return [sample["reward"][0] for sample in samples]


@pytest.mark.parametrize("fault", OUTAGES, ids=str)
@pytest.mark.parametrize(
    ("score", "reward", "filtered"),
    [(-0.5, -0.5, -0.5), ("group_mean", 0.5, 0.5), ("drop_group", 0.5, DROPPED), ("unsafe_nan", None, None)],
)
def test_an_outage_of_everything_gives_each_sample_what_was_chosen(
    client: SimpleNamespace,
    serve: Serve,
    fault: Fault,
    score: Any,
    reward: float | None,
    filtered: float | None,
) -> None:
    served = serve(lambda: app_of(FaultyProvider(FakeProvider(SCRIPT), fault), score))
    found = asyncio.run(group(client.Trainer(served.url), client, [GOOD, HALF, WRONG]))
    if reward is None:
        assert all(math.isnan(value) for value in rewards(found))
        assert all(math.isnan(sample["scores"][0]) for sample in found)
    else:
        assert rewards(found) == [reward] * 3
        assert [sample["scores"] for sample in found] == [[filtered]] * 3
    assert [sample["extra_logs"]["no_verdict"] for sample in found] == [[1.0]] * 3
    assert served.endpoint.grading.tally.again == 3


@pytest.mark.parametrize("fault", OUTAGES, ids=str)
def test_a_short_outage_costs_nothing(client: SimpleNamespace, serve: Serve, fault: Fault) -> None:
    served = serve(lambda: app_of(FaultyProvider(FakeProvider(SCRIPT), fault, times=1), "group_mean"))
    codes = [GOOD, HALF, WRONG]
    found = asyncio.run(group(client.Trainer(served.url), client, codes))
    assert rewards(found) == [ANSWERS[code] for code in codes]
    assert [sample["extra_logs"]["no_verdict"] for sample in found] == [[0.0]] * 3


@pytest.mark.parametrize("score", ["group_mean", "drop_group"])
@pytest.mark.parametrize("size", [None, 4])
def test_siblings_that_are_judged_before_beside_and_after_a_lost_one_make_its_reward(
    client: SimpleNamespace, serve: Serve, kit: SimpleNamespace, score: str, size: int | None
) -> None:
    gate = kit.Gate(shut=False)
    served = serve(lambda: app_of(FaultyProvider(gate, LOST, answers=[WRONG]), score, group_size=size))

    async def main() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]:
        trainer = client.Trainer(served.url)
        (before,) = await group(trainer, client, [GOOD])
        served.call(gate.gate.clear)
        lost, beside = (
            asyncio.ensure_future(trainer.sample(client.fenced(c), prompt="p\n")) for c in (WRONG, HALF)
        )
        await asyncio.to_thread(served.call, lambda: gate.came(2))
        after = None
        if size:
            after = asyncio.ensure_future(trainer.sample(client.fenced(HALF), prompt="p\n"))
            await asyncio.to_thread(served.call, lambda: gate.came(3))
        served.call(gate.open_gate)
        found = await asyncio.gather(lost, beside)
        last = await after if after else (await group(trainer, client, [HALF]))[0]
        return before, *found, last

    before, lost, beside, after = asyncio.run(main())
    expected = (1.0 + 0.5 + 0.5) / 3 if size else 0.75
    assert rewards([before, beside, after]) == [1.0, 0.5, 0.5]
    assert lost["reward"] == [pytest.approx(expected)]
    assert lost["scores"] == [DROPPED if score == "drop_group" else pytest.approx(expected)]


def test_with_the_groups_size_a_sibling_that_is_still_being_generated_is_waited_for(
    client: SimpleNamespace, serve: Serve
) -> None:
    provider = FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG])
    served = serve(lambda: app_of(provider, "group_mean", group_size=2))

    async def main() -> list[dict[str, Any]]:
        trainer = client.Trainer(served.url)
        lost = asyncio.ensure_future(trainer.sample(client.fenced(WRONG)))
        while served.endpoint.grading.tally.again < 1:
            await asyncio.sleep(0.01)
        assert not lost.done()
        return [await trainer.sample(client.fenced(GOOD)), await lost]

    assert rewards(asyncio.run(main())) == [1.0, 1.0]


def test_a_group_that_is_lost_whole_has_no_differences_to_learn_from(
    client: SimpleNamespace, serve: Serve
) -> None:
    provider = FaultyProvider(FakeProvider(SCRIPT), LOST, answers=[WRONG])
    served = serve(lambda: app_of(provider, "group_mean", group_size=8))

    async def main() -> list[Any]:
        trainer = client.Trainer(served.url)
        groups = [[WRONG] * 8] + [[GOOD, HALF] * 4] * 3 + [[WRONG] * 8]
        return await asyncio.gather(
            *(group(trainer, client, codes, f"p{number}\n") for number, codes in enumerate(groups))
        )

    found = asyncio.run(main())
    for lost in (found[0], found[4]):
        assert len(set(rewards(lost))) == 1
        assert rewards(lost)[0] >= 0.5
    for judged in found[1:4]:
        assert rewards(judged) == [1.0, 0.5] * 4


@pytest.mark.parametrize("score", ["group_mean", "drop_group"])
def test_in_an_outage_of_a_quarter_no_sample_gets_a_0_that_nobody_chose(
    client: SimpleNamespace, serve: Serve, score: str, caplog: pytest.LogCaptureFixture
) -> None:
    def build() -> Any:
        inner = FakeProvider(SCRIPT)
        first = FaultyProvider(inner, LOST, rate=0.5, seed=1)
        return app_of(first, score, group_size=4)

    served = serve(build)

    async def main() -> list[Any]:
        trainer = client.Trainer(served.url)
        return await asyncio.gather(
            *(group(trainer, client, [GOOD, HALF] * 2, f"p{number}\n") for number in range(50))
        )

    found = [sample for samples in asyncio.run(main()) for sample in samples]
    lost = [sample for sample in found if sample["extra_logs"]["no_verdict"] == [1.0]]
    assert 20 < len(lost) < 100
    assert all(0.5 <= sample["reward"][0] <= 1.0 for sample in found)
    assert {sample["scores"][0] == DROPPED for sample in lost} == {score == "drop_group"}
    warned = [
        record for record in caplog.records if "in a block of 100 got no verdict" in record.getMessage()
    ]
    assert 1 <= len(warned) <= 2
    assert "provider_error 6" in warned[0].getMessage()
