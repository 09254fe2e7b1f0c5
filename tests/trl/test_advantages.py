"""An outage moves no sibling: its advantage is what it would be in a group without the row that has no verdict."""

from __future__ import annotations

import math
import runpy
import statistics
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("trl")

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.faults import Fault, FaultyProvider
from deepgym.testing.laws import ADD, BROKEN, GOOD, HALF, RAISES, SCRIPT, WRONG
from deepgym_trl.composite import CompositeReward
from deepgym_trl.masking import MASKED_ROWS
from deepgym_trl.rewards import TRLReward
from deepgym_trl.trainers import DeepGymGRPOTrainer

lab: Any = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("ranks") / "lab.py")))

Case = lab.Case
Rewards = Sequence["float | None"]
N = None
NAN = math.nan

PATTERNS: dict[str, Rewards] = {
    "one missing": (1, 0, N, 0.5, 1, 1, 0, 0),
    "several missing": (1, 0, N, N, N, 1, 0.25, N),
    "one survivor": (N, N, N, 1, 0, 0, 0, 1),
    "two equal survivors": (N, N, 1, 1, 0, 0, 0, 1),
    "a whole group missing": (N, N, N, N, 1, 0, 0, 1),
    "everything missing": (N,) * 8,
    "NaN is None": (NAN, 0, 1, 1, 0, 0, 0, 1),
    "no outage": (1, 0, 0.5, 0.5, 0, 1, 0.25, 1),
}


def survivors(rewards: Rewards) -> list[float]:
    return [reward for reward in rewards if reward is not None and not math.isnan(reward)]


def spread(rewards: Sequence[float]) -> float:
    return statistics.stdev(rewards) if len(rewards) > 1 else 0.0


def put_back(rewards: Rewards, judged: Sequence[float]) -> list[float]:
    """``judged`` where the rewards are numbers, and 0 elsewhere."""
    left = iter(judged)
    return [next(left) if survivors([reward]) else 0.0 for reward in rewards]


def grpo_of(group: Sequence[float], batch: Sequence[float], scale: str) -> list[float]:
    """TRL's formula for a group in which every answer was judged."""
    by = {"group": spread(group) + 1e-4, "batch": spread(batch) + 1e-4, "none": 1.0}[scale]
    return [(reward - statistics.fmean(group)) / by for reward in group]


def rloo_of(group: Sequence[float]) -> list[float]:
    if len(group) < 2:
        return [0.0] * len(group)
    return [reward - (sum(group) - reward) / (len(group) - 1) for reward in group]


def groups(rewards: Rewards, size: int = 4) -> list[Rewards]:
    return [rewards[start : start + size] for start in range(0, len(rewards), size)]


def expected_grpo(rewards: Rewards, scale: str) -> list[float]:
    batch = survivors(rewards)
    return [
        value
        for group in groups(rewards)
        for value in put_back(group, grpo_of(survivors(group), batch, scale) if survivors(group) else [])
    ]


def expected_rloo(rewards: Rewards, normalised: bool) -> list[float]:
    raw = [rloo_of(survivors(group)) for group in groups(rewards)]
    counted = [value for group in raw if len(group) > 1 for value in group]
    if normalised and counted:
        mean, by = statistics.fmean(counted), spread(counted) + 1e-4
        raw = [[(value - mean) / by for value in group] if len(group) > 1 else group for group in raw]
    return [
        value for group, judged in zip(groups(rewards), raw, strict=True) for value in put_back(group, judged)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("advantages")


SCALES = ("group", "batch", "none")
GRPO = [
    Case(f"{name}, {scale}", rewards, {"scale_rewards": scale})
    for name, rewards in PATTERNS.items()
    for scale in SCALES
]
RLOO = [
    Case(f"{name}, {normalised}", rewards, {"normalize_advantages": normalised})
    for name, rewards in PATTERNS.items()
    for normalised in (False, True)
]


@pytest.fixture(scope="module")
def grpo(tiny_model: str, folder: Path) -> Any:
    return lab.train("grpo", tiny_model, folder / "grpo", GRPO, scripted=False, learning_rate=1e-3)


@pytest.fixture(scope="module")
def rloo(tiny_model: str, folder: Path) -> Any:
    return lab.train("rloo", tiny_model, folder / "rloo", RLOO, scripted=False, learning_rate=1e-3)


@pytest.mark.parametrize("at", range(len(GRPO)), ids=[case.name for case in GRPO])
def test_grpo_siblings_of_an_outage_have_the_advantages_of_a_group_without_it(grpo: Any, at: int) -> None:
    rewards, scale = GRPO[at].rewards, GRPO[at].settings["scale_rewards"]
    assert grpo.advantages(at) == pytest.approx(expected_grpo(rewards, scale), abs=1e-5)


@pytest.mark.parametrize("at", range(len(RLOO)), ids=[case.name for case in RLOO])
def test_rloo_siblings_of_an_outage_have_the_advantages_of_a_group_without_it(rloo: Any, at: int) -> None:
    rewards, normalised = RLOO[at].rewards, RLOO[at].settings["normalize_advantages"]
    assert rloo.advantages(at) == pytest.approx(expected_rloo(rewards, normalised), abs=1e-5)


def test_the_golden_numbers(grpo: Any, rloo: Any) -> None:
    """As the table in the documentation has them: a formula that drifts with the code can't hide here."""
    named = {case.name: at for at, case in enumerate(GRPO)}
    assert grpo.advantages(named["one missing, group"])[:4] == pytest.approx(
        [0.9998, -0.9998, 0, 0], abs=1e-4
    )
    assert grpo.advantages(named["NaN is None, group"])[:4] == pytest.approx(
        [0, -1.1545, 0.5772, 0.5772], abs=1e-4
    )
    for name in ("one survivor", "two equal survivors", "everything missing"):
        assert grpo.advantages(named[f"{name}, group"])[:4] == [0.0] * 4
    known = {case.name: at for at, case in enumerate(RLOO)}
    assert rloo.advantages(known["one missing, False"])[:4] == pytest.approx([0.75, -0.75, 0, 0], abs=1e-6)
    assert rloo.advantages(known["NaN is None, False"])[:4] == pytest.approx([0, -1, 0.5, 0.5], abs=1e-6)
    for name in ("one survivor", "two equal survivors", "everything missing"):
        assert rloo.advantages(known[f"{name}, False"])[:4] == [0.0] * 4


def test_without_any_verdict_nothing_is_learnt_and_no_zero_is_logged(grpo: Any, rloo: Any) -> None:
    for record, cases in ((grpo, GRPO), (rloo, RLOO)):
        steps = [at for at, case in enumerate(cases) if case.rewards == PATTERNS["everything missing"]]
        assert len(steps) >= 2
        for at in steps:
            assert float(record.gradients[at].abs().max()) == 0.0
            assert record.logs[at]["reward"] is None
            assert record.logs[at]["rewards/judge/mean"] is None


@pytest.mark.parametrize(
    ("name", "missing"), [("one missing", 1), ("several missing", 2), ("NaN is None", 1)]
)
@pytest.mark.parametrize("kind", ["grpo", "rloo"])
def test_a_group_that_never_had_the_row_trains_on_the_same_advantages(
    tiny_model: str, folder: Path, grpo: Any, rloo: Any, kind: str, name: str, missing: int
) -> None:
    """A real run with smaller groups, of the first group's survivors alone."""
    left = survivors(PATTERNS[name][:4])
    assert len(left) == 4 - missing
    small = lab.train(
        kind,
        tiny_model,
        folder / f"small-{kind}",
        [Case("small", left)],
        num_generations=len(left),
        per_device_train_batch_size=len(left),
    )
    record, cases = (grpo, GRPO) if kind == "grpo" else (rloo, RLOO)
    plain = f"{name}, group" if kind == "grpo" else f"{name}, False"
    at = next(place for place, case in enumerate(cases) if case.name == plain)
    assert record.advantages(at)[:4] == pytest.approx(
        put_back(PATTERNS[name][:4], small.advantages(0)), abs=1e-6
    )


def test_rloos_kl_penalty_reaches_no_sibling_through_a_row_without_a_verdict(
    tiny_model: str, folder: Path
) -> None:
    """The same completions twice: judged, which tells every row's penalised reward, and with an outage."""

    def drift(trainer: Any) -> None:
        for weights in trainer.ref_model.parameters():
            weights.data += 0.05 * weights.data.std() * weights.data.sign()

    runs = {
        name: lab.train(
            "rloo",
            tiny_model,
            folder / "kl",
            [Case(name, rewards)],
            prepare=drift,
            beta=0.5,
            normalize_advantages=False,
        ).advantages(0)
        for name, rewards in (("judged", (1, 0, 0.25, 0.5)), ("outage", (1, 0, N, 0.5)))
        for rewards in [(*rewards, 1, 1, 0, 0)]
    }
    without_kl = rloo_of([1, 0, 0.25, 0.5])
    # Leave-one-out advantages are the rewards about their mean, times 4/3.
    penalised = [value * 3 / 4 for value in runs["judged"][:4]]
    assert max(abs(a - b) for a, b in zip(runs["judged"], without_kl, strict=False)) > 0.01
    left = rloo_of([penalised[0], penalised[1], penalised[3]])
    assert runs["outage"][:4] == pytest.approx(put_back((1, 0, N, 0.5), left), abs=1e-5)
    assert runs["outage"][4:] == pytest.approx(runs["judged"][4:], abs=1e-5)


# A second reward function.


def judge(completions: Any, **_: Any) -> list[float | None]:
    return list(PATTERNS["one missing"][: len(completions)])


def format_reward(completions: Any, **_: Any) -> list[float]:
    return [1.0] * len(completions)


def test_a_second_reward_function_makes_a_zero_of_the_outage(tiny_model: str, folder: Path) -> None:
    for kind, numbers in (("grpo", [1.305, -0.783, -0.783, 0.261]), ("rloo", [0.833, -0.5, -0.5, 0.167])):
        record = lab.train(
            kind, tiny_model, folder / kind, [Case("two", ())], reward_funcs=[judge, format_reward]
        )
        assert record.advantages(0)[:4] == pytest.approx(numbers, abs=1e-3)


def test_a_composite_of_both_keeps_the_mask(tiny_model: str, folder: Path) -> None:
    for kind in ("grpo", "rloo"):
        both = CompositeReward(judge, format_reward)
        record = lab.train(kind, tiny_model, folder / kind, [Case("one", ())], reward_funcs=both)
        alone = expected_grpo(PATTERNS["one missing"], "group") if kind == "grpo" else None
        expected = alone or expected_rloo(PATTERNS["one missing"], False)
        assert record.advantages(0) == pytest.approx(expected, abs=1e-5)


# From a provider that fails to the optimizer.

ANSWERS = (GOOD, WRONG, HALF, BROKEN, GOOD, GOOD, RAISES, WRONG)
SCORES: Rewards = (1, 0, N, 0, 1, 1, 0, 0)


def test_a_providers_outage_moves_no_sibling(tiny_model: str, folder: Path) -> None:
    def answer(trainer: Any) -> None:
        words = trainer.processing_class
        texts = [f"```python\n{text}\n```<|im_end|>" for text in ANSWERS]
        trainer._generate_single_turn = lambda *_, **__: (
            [words(text, add_special_tokens=False)["input_ids"] for text in texts],
            None,
        )

    faulty = FaultyProvider(FakeProvider(SCRIPT), Fault("network", Phase.IN_PLAY), answers={HALF})
    reward = TRLReward(ADD, dg=DeepGym(provider=faulty))
    record = lab.train(
        "grpo",
        tiny_model,
        folder / "outage",
        [Case("outage", SCORES)],
        base=DeepGymGRPOTrainer,
        scripted=False,
        prepare=answer,
        reward_funcs=reward,
    )
    assert faulty.struck[HALF] >= 1
    assert record.advantages(0) == pytest.approx(expected_grpo(SCORES, "group"), abs=1e-5)
    log = record.logs[0]
    assert log["reward"] == pytest.approx(3 / 7)
    assert log["deepgym/verdict_rate"] == pytest.approx(7 / 8)
    assert log["deepgym/no_verdict/network_error"] == pytest.approx(1 / 8)
    assert log[MASKED_ROWS] == pytest.approx(1 / 8)
