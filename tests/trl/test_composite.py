from __future__ import annotations

import asyncio
import functools
import gc
import math
import os
import pickle
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym
from deepgym.contract.evidence import Phase
from deepgym.testing import FakeProvider, Fault, FaultyProvider
from deepgym.testing.laws import ADD, GOOD, HALF, SCRIPT, WRONG
from deepgym_trl.composite import CompositeReward, gate, is_deepgym, unmasking
from deepgym_trl.parts import LARGEST
from deepgym_trl.rewards import TRLReward, make_async_trl_reward_fn

OURS = GOOD + "\n# the provider fails this one"
ANSWERS = [GOOD, WRONG, OURS, HALF]
N = None


class Judge:
    """A DeepGym reward over a scripted provider, and how often each answer was run."""

    def __init__(self) -> None:
        inner = FakeProvider({**SCRIPT, OURS: SCRIPT[GOOD]})
        provider = FaultyProvider(inner, Fault("network", Phase.IN_PLAY), answers={OURS})
        self.runs: Counter[str] = inner.started
        self.dg = DeepGym(provider=provider)

    def reward(self, **options: Any) -> TRLReward:
        return TRLReward(ADD, **{"dg": self.dg, "extract": False, **options})


@pytest.fixture
def judge() -> Iterator[Judge]:
    made = Judge()
    with made.dg:
        yield made


def call(reward: Any, answers: list[str] = ANSWERS, **others: Any) -> Any:
    return reward(prompts=["add"] * len(answers), completions=answers, **others)


def shortness(completions: list[Any], **call: Any) -> list[float]:
    return [1.0, 0.5, 0.25, 0.0][: len(completions)]


async def politeness(completions: list[Any], **call: Any) -> list[float]:
    await asyncio.sleep(0)
    return [1.0] * len(completions)


def scripted(*values: Any) -> Any:
    def script(completions: list[Any], **call: Any) -> list[Any]:
        return list(values)

    return script


# --- the sum -----------------------------------------------------------------------------------------------


def test_a_row_is_none_exactly_where_the_judge_has_no_verdict(judge: Judge) -> None:
    reward = CompositeReward(judge.reward(), shortness, weights=[1.0, 0.1])
    assert call(reward) == pytest.approx([1.1, 0.05, None, 0.5])


def test_without_weights_each_part_counts_in_full(judge: Judge) -> None:
    assert call(CompositeReward(judge.reward(), shortness)) == [2.0, 0.5, None, 0.5]


def test_none_of_an_ordinary_part_adds_nothing_and_hides_nothing(judge: Judge) -> None:
    assert call(CompositeReward(judge.reward(), scripted(N, N, N, 0.25))) == [1.0, 0.0, None, 0.75]


def test_a_row_is_none_where_any_of_several_judges_has_no_verdict(judge: Judge) -> None:
    def failing(completions: list[Any], **call: Any) -> list[Any]:
        return [N, 1.0, 1.0, 1.0]

    first = CompositeReward(failing, name="other")
    assert call(CompositeReward(judge.reward(), first)) == [None, 1.0, None, 1.5]
    assert call(CompositeReward(failing, judge.reward())) == [None, 1.0, None, 1.5]


def test_any_function_may_judge_and_its_nan_is_no_verdict() -> None:
    reward = CompositeReward(scripted(1.0, N, math.nan, math.inf), scripted(1, 1, 1, 1))
    assert call(reward) == [2.0, None, None, None]


@pytest.mark.parametrize(
    "value", [math.inf, -math.inf, math.nan, 1e39, 2 * LARGEST, 10**400], ids=lambda value: repr(value)[:8]
)
def test_no_answer_erases_its_zero_by_making_another_part_overflow(
    judge: Judge, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reward = CompositeReward(judge.reward(), scripted(0.5, value, value, value), name="sum")
    assert call(reward) == [1.5, 0.0, None, 0.5]
    assert call(reward) == [1.5, 0.0, None, 0.5]
    said = [
        record.getMessage() for record in caplog.records if "no trainer can add up" in record.getMessage()
    ]
    assert len(said) == 1
    assert "'script' of sum" in said[0]
    assert "for completion 1" in said[0]
    assert "0.0" in said[0]


def test_a_part_may_return_what_trl_takes(judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    for returned in (torch.tensor([1.0, 0.0, 1.0, 0.5]), (1, False, True, 0.5), iter([1.0, 0, 1, 0.5])):
        assert call(CompositeReward(judge.reward(), lambda returned=returned, **call: returned)) == [
            2.0,
            0.0,
            None,
            1.0,
        ]


@pytest.mark.parametrize(
    ("returned", "error", "said"),
    [
        ([1.0], ValueError, "1 values for 4 completions"),
        ([1.0] * 5, ValueError, "5 values for 4 completions"),
        (1.0, TypeError, "returned 1.0 (float); return a list"),
        (None, TypeError, "returned None (NoneType); return a list"),
        ("1111", TypeError, "returned '1111' (str); return a list"),
        ([1.0, "0.5", 0, 0], TypeError, "returned '0.5' (str) for completion 1; return a number"),
        ([1.0, 0, [0.5], 0], TypeError, "returned [0.5] (list) for completion 2; return a number"),
        ([1.0, 0, 1j, 0], TypeError, "returned 1j (complex) for completion 2; return a number"),
    ],
)
def test_a_part_that_returns_something_else_is_named(
    judge: Judge, returned: Any, error: type[Exception], said: str
) -> None:
    reward = CompositeReward(judge.reward(), lambda **call: returned, name="sum")
    with pytest.raises(error) as raised:
        call(reward)
    assert "the part '<lambda>' of sum" in str(raised.value)
    assert said in str(raised.value)


def test_tensors_that_are_no_row_of_numbers_are_named(judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    for returned, said in ((torch.tensor(1.0), "not one value"), (torch.ones(4, 2), "for completion 0")):
        with pytest.raises(TypeError, match=said):
            call(CompositeReward(judge.reward(), lambda returned=returned, **call: returned))


def test_what_a_part_raises_is_raised(judge: Judge) -> None:
    def broken(**call: Any) -> list[float]:
        raise LookupError("the user's own bug")

    async def broken_too(**call: Any) -> list[float]:
        raise LookupError("the user's own bug")

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for part in (broken, broken_too):
            with pytest.raises(LookupError, match="the user's own bug"):
                call(CompositeReward(judge.reward(), politeness, part))
        gc.collect()
    assert not [one for one in warned if "never awaited" in str(one.message)]


def test_parts_that_are_no_functions_are_refused(judge: Judge) -> None:
    torch = pytest.importorskip("torch")
    for part in ("a/reward-model", 3, torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match="not a reward function; wrap what it does"):
            CompositeReward(judge.reward(), part)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0], [1.0, math.nan], [math.inf, 1.0], [1.0, 1e12]])
def test_weights_are_one_sane_number_for_each_part(judge: Judge, weights: list[float]) -> None:
    with pytest.raises(ValueError, match="for 2 parts; give one number"):
        CompositeReward(judge.reward(), shortness, weights=weights)


def test_parts_see_what_the_trainer_gave_and_nothing_else() -> None:
    seen: list[dict[str, Any]] = []

    def part(**call: Any) -> list[float]:
        seen.append(call)
        return [0.0]

    reward = CompositeReward(part)
    given = {"prompts": ["p"], "completions": ["c"]}
    reward(**given)
    assert seen.pop() == given
    given |= {"completion_ids": [[1]], "trainer_state": 1, "log_metric": lambda *args: None}
    given |= {"log_extra": 2, "environments": [3], "env_id": ["e"]}
    reward(**given)
    assert seen.pop() == given
    assert reward([1], [2], [[3]], env_id=["e"]) == [0.0]
    assert seen.pop() == {"prompts": [1], "completions": [2], "completion_ids": [[3]], "env_id": ["e"]}


def test_a_composite_of_a_composite_masks_too(judge: Judge) -> None:
    inner = CompositeReward(judge.reward(), shortness, weights=[1, 0.1])
    assert call(CompositeReward(inner, shortness, weights=[2, 1])) == pytest.approx([3.2, 0.6, None, 1.0])


# --- metrics -----------------------------------------------------------------------------------------------


def test_component_means_are_over_the_judged_rows_under_the_same_keys(judge: Judge) -> None:
    def logged(answers: list[str]) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        call(reward, answers, log_metric=lambda key, value: found.setdefault(key, []).append(value))
        return {key: values for key, values in found.items() if key.startswith("deepgym/component/")}

    reward = CompositeReward(
        judge.reward(), shortness, scripted(N, N, 1.0, N), shortness, weights=[1, 3, 1, 1]
    )
    mixed, lost = logged(ANSWERS), logged([OURS] * 4)
    keys = [f"deepgym/component/{name}/mean" for name in ("deepgym", "shortness", "script", "shortness_2")]
    assert list(mixed) == list(lost) == keys
    assert mixed[keys[0]] == [1.0, 0.0, 0.5]
    assert mixed[keys[1]] == mixed[keys[3]] == [1.0, 0.5, 0.0]
    assert [len(mixed[keys[2]]), math.isnan(mixed[keys[2]][0])] == [1, True]
    assert all(len(values) == 1 and math.isnan(values[0]) for values in lost.values())


# --- async -------------------------------------------------------------------------------------------------


def test_async_parts_are_awaited_side_by_side_inside_a_running_loop_too(judge: Judge) -> None:
    met = []

    async def first(**call: Any) -> list[float]:
        met.append(asyncio.Event())
        while len(met) < 2:
            await asyncio.sleep(0)
        return [1.0, 0, 0, 0]

    async def second(**call: Any) -> list[float]:
        met.append(asyncio.Event())
        while len(met) < 2:
            await asyncio.sleep(0)
        return [0, 1.0, 0, 0]

    reward = CompositeReward(judge.reward(), first, second)
    assert call(reward) == [2.0, 1.0, None, 0.5]

    async def inside() -> Any:
        return call(reward)

    assert asyncio.run(inside()) == [2.0, 1.0, None, 0.5]


def test_what_an_async_part_keeps_open_stays_usable() -> None:
    loops = set()

    async def part(**call: Any) -> list[float]:
        loops.add(asyncio.get_running_loop())
        return [1.0]

    reward = CompositeReward(part)
    assert [call(reward, ["c"]) for _ in range(3)] == [[1.0]] * 3
    assert len(loops) == 1


def test_if_one_async_part_raises_the_others_are_cancelled() -> None:
    cancelled = threading.Event()

    async def endless(**call: Any) -> list[float]:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return []

    async def broken(**call: Any) -> list[float]:
        await asyncio.sleep(0)
        raise LookupError("no")

    with pytest.raises(LookupError):
        call(CompositeReward(endless, broken), ["c"])
    assert cancelled.wait(30)


def test_the_private_loop_ends_with_its_owner() -> None:
    def waiting() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "deepgym-rewards"]

    gc.collect()
    before = len(waiting())
    reward = CompositeReward(politeness)
    call(reward, ["c"])
    assert len(waiting()) == before + 1
    del reward
    gc.collect()
    assert len(waiting()) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_async_parts_work_in_a_forked_child() -> None:
    reward = CompositeReward(politeness)
    assert call(reward, ["c"]) == [1.0]
    child = os.fork()
    if child == 0:
        os._exit(0 if call(reward, ["c", "d"]) == [1.0, 1.0] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_async_form_of_a_deepgym_reward_judges_as_a_part(judge: Judge) -> None:
    form = make_async_trl_reward_fn(ADD, dg=judge.dg, extract=False)
    assert is_deepgym(form)
    assert call(CompositeReward(shortness, form)) == [2.0, 0.5, None, 0.5]
    assert call(CompositeReward(form, shortness)) == [2.0, 0.5, None, 0.5]


# --- being one reward function -----------------------------------------------------------------------------


def test_it_pickles_with_its_parts() -> None:
    reward = CompositeReward(TRLReward(ADD), shortness, politeness, weights=[1, 2, 3], name="sum")
    for one in (reward, gate(shortness, by=reward), gate(politeness, by=reward)):
        again = pickle.loads(pickle.dumps(one))
        assert again.__name__ == one.__name__
    again = pickle.loads(pickle.dumps(reward))
    assert (again.weights, [part.name for part in again.parts]) == (
        [1.0, 2.0, 3.0],
        ["deepgym", "shortness", "politeness"],
    )


def test_a_used_one_pickles_and_works_again() -> None:
    reward = CompositeReward(shortness, politeness)
    assert call(reward, ["c"]) == [2.0]
    assert call(pickle.loads(pickle.dumps(reward)), ["c"]) == [2.0]


def test_it_hands_through_what_a_check_of_the_data_asks(judge: Judge) -> None:
    reward = CompositeReward(judge.reward(env_column="which"), shortness)
    assert reward.env_column == "which"
    reward.check_row({"prompt": "p"})
    with pytest.raises(ValueError, match="env_id"):
        CompositeReward(TRLReward(dg=judge.dg), shortness).check_row({"prompt": "p"})
    assert CompositeReward(shortness).env_column is None


# --- gate --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", [shortness, politeness])
@pytest.mark.parametrize("composed", [False, True])
def test_a_gated_function_has_no_value_where_the_judge_has_none(
    judge: Judge, fn: Any, composed: bool
) -> None:
    by = CompositeReward(judge.reward(), shortness) if composed else judge.reward()
    gated = gate(fn, by=by)
    assert gated.__name__ == fn.__name__
    found = call(gated)
    assert [value is None for value in found] == [False, False, True, False]
    assert found[0] == 1.0


@pytest.mark.parametrize("composed", [False, True])
def test_nothing_is_judged_twice_whichever_comes_first(judge: Judge, composed: bool) -> None:
    reward: Any = judge.reward()
    if composed:
        reward = CompositeReward(reward, scripted(0, 0, 0, 0))
    gates = [gate(shortness, by=reward), gate(politeness, by=reward)]
    for number, order in enumerate(
        ([reward, *gates], [*gates, reward], [gates[0], reward, gates[1]]), start=1
    ):
        answers = list(ANSWERS)
        found = {func.__name__: call(func, answers) for func in order}
        assert found[reward.__name__] == [1.0, 0.0, None, 0.5]
        assert found["shortness"] == [1.0, 0.5, None, 0.0]
        assert judge.runs[GOOD] == judge.runs[WRONG] == number


def test_a_second_call_with_the_same_list_judges_again(judge: Judge) -> None:
    reward = CompositeReward(judge.reward(), shortness)
    answers = list(ANSWERS)
    assert call(reward, answers) == call(reward, answers)
    assert judge.runs[GOOD] == 2


def test_a_list_that_was_changed_is_another_batch() -> None:
    reward = CompositeReward(lambda completions, **call: [float(len(c)) for c in completions])
    answers = ["a"]
    assert reward.rewards_for(completions=answers, prompts=["p"]) == [1.0]
    answers[0] = "abc"
    assert reward.rewards_for(completions=answers, prompts=["p"]) == [3.0]
    assert call(reward, answers) == [3.0]


def test_a_gate_needs_a_deepgym_reward() -> None:
    with pytest.raises(TypeError, match=r"by=shortness.*give the TRLReward or CompositeReward"):
        gate(politeness, by=shortness)
    with pytest.raises(TypeError, match="not a reward function"):
        gate("a/reward-model", by=CompositeReward(shortness))  # type: ignore[arg-type]


def test_a_gate_lets_out_only_what_adds_up(judge: Judge) -> None:
    assert call(gate(scripted(math.inf, N, 1, 1), by=judge.reward())) == [0.0, None, None, 1.0]
    with pytest.raises(ValueError, match="the part 'script' of a gate returned 1 values"):
        call(gate(scripted(1.0), by=judge.reward()))


# --- which lists un-mask -----------------------------------------------------------------------------------


def test_what_unmasks_is_named() -> None:
    reward, other = TRLReward(ADD), TRLReward(ADD, name="other")
    form = make_async_trl_reward_fn(ADD, name="form")
    both = CompositeReward(reward, shortness, other, name="both")
    alone = CompositeReward(shortness, politeness, name="alone")
    partial = functools.partial(shortness, extra=1)

    @functools.wraps(reward)
    def wrapper(**call: Any) -> Any:
        return reward(**call)

    cases: list[tuple[Any, list[str]]] = [
        ([shortness, politeness], []),
        (reward, []),
        (both, []),
        ([reward, shortness], ["shortness"]),
        ([partial, reward, object()], ["shortness", "object"]),
        ([form, shortness], ["shortness"]),
        ([functools.partial(reward, env_id=["x"]), shortness], ["shortness"]),
        ([reward.__call__, shortness], ["shortness"]),
        ([wrapper, gate(shortness, by=wrapper)], []),
        ([reward, gate(shortness, by=reward), gate(politeness, by=reward)], []),
        ([form, gate(shortness, by=form)], []),
        ([reward, gate(shortness, by=other)], ["deepgym", "shortness"]),
        ([reward, other], ["deepgym", "other"]),
        ([reward, gate(other, by=reward)], ["deepgym"]),
        ([both, reward], ["deepgym"]),
        ([both, gate(shortness, by=both)], []),
        ([reward, CompositeReward(reward, shortness)], []),
        ([alone, shortness], ["shortness"]),
        ([alone, gate(shortness, by=alone)], []),
    ]
    for funcs, names in cases:
        assert unmasking(funcs) == names, funcs


# --- in the real trainers ----------------------------------------------------------------------------------

GROUPS = [[GOOD, WRONG, OURS, HALF, GOOD, GOOD, WRONG, WRONG]]
FORMAT = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]


class Script:
    """As `extract`: whatever the policy wrote, the next scripted answer."""

    def __init__(self, answers: list[str]) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, completion: Any) -> str:
        self.asked += 1
        return self.answers[(self.asked - 1) % len(self.answers)]


def formatted(completions: list[Any], **call: Any) -> list[float]:
    return list(FORMAT)


async def formatted_later(completions: list[Any], **call: Any) -> list[float]:
    return list(FORMAT)


def advantages(
    kind: str, model: str, folder: Path, funcs: Any, **config: Any
) -> tuple[list[float], dict[str, Any]]:
    """Those of one step of the trainer, and its log."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    made: list[Any] = []
    rows = [{"prompt": [{"role": "user", "content": f"add {index}"}]} for index in range(8)]
    options = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 1,
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
    }
    trainer = getattr(trl, f"{kind}Trainer")(
        model=model,
        reward_funcs=funcs,
        args=getattr(trl, f"{kind}Config")(**options, **config),
        train_dataset=Dataset.from_list(rows),
    )
    score = trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: made.append(score(inputs)) or made[-1]
    trainer.train()
    return made[0]["advantages"].tolist(), trainer.state.log_history[0]


def group_advantages(kind: str, rewards: list[float | None]) -> list[float]:
    """What the trainer should make of one group: the judged rows among themselves, 0 for the others."""
    judged = [reward for reward in rewards if reward is not None]
    mean = sum(judged) / len(judged)
    if kind == "GRPO":
        std = math.sqrt(sum((reward - mean) ** 2 for reward in judged) / (len(judged) - 1))
        return [0.0 if reward is None else (reward - mean) / (std + 1e-4) for reward in rewards]
    others = len(judged) - 1
    return [0.0 if r is None else r - (sum(judged) - r) / others for r in rewards]


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
def test_a_list_unmasks_a_row_and_a_composite_or_a_gate_does_not(
    judge: Judge, tiny_model: str, tmp_path: Path, kind: str
) -> None:
    def reward(**options: Any) -> TRLReward:
        return judge.reward(extract=Script(GROUPS[0]), **options)

    def run(funcs: Any) -> tuple[list[float], dict[str, Any]]:
        before = judge.runs.total()
        found = advantages(kind, tiny_model, tmp_path, funcs)
        assert judge.runs.total() - before == 8, "each completion is judged once"
        return found

    masked = group_advantages(kind, [2.0, 1.0, None, 0.5]) + group_advantages(kind, [1.0, 1.0, 0.0, 0.0])
    unmasked = group_advantages(kind, [2.0, 1.0, 0.0, 0.5]) + masked[4:]

    plain = reward()
    found, _ = run([plain, formatted])
    assert found == pytest.approx(unmasked, abs=1e-4)
    assert found[2] < -0.5, "the outage is trained on as a bad answer"

    found, log = run(CompositeReward(reward(), formatted))
    assert found == pytest.approx(masked, abs=1e-4)
    assert log["deepgym/verdict_rate"] == pytest.approx(7 / 8)
    assert log["deepgym/component/deepgym/mean"] == pytest.approx(3.5 / 7)
    assert log["deepgym/component/formatted/mean"] == pytest.approx(2 / 7)
    assert log["rewards/deepgym_composite/mean"] == pytest.approx(5.5 / 7)

    for turn in (1, -1):
        plain = reward()
        found, log = run([plain, gate(formatted, by=plain)][::turn])
        assert found == pytest.approx(masked, abs=1e-4)
        assert log["rewards/formatted/mean"] == pytest.approx(2 / 7)
        assert log["rewards/deepgym/mean"] == pytest.approx(3.5 / 7)
        assert log["deepgym/verdict_rate"] == pytest.approx(7 / 8)

    found, _ = run(CompositeReward(reward(), formatted_later))
    assert found == pytest.approx(masked, abs=1e-4)
    assert "formatted_later" not in Counter(log)


def test_an_async_judge_a_gated_async_function_and_weights_mask_too(
    judge: Judge, tiny_model: str, tmp_path: Path
) -> None:
    form = make_async_trl_reward_fn(ADD, dg=judge.dg, extract=Script(GROUPS[0]))
    funcs = [form, gate(formatted_later, by=form)]
    found, log = advantages("GRPO", tiny_model, tmp_path, funcs, reward_weights=[1.0, 0.5])
    assert found[:4] == pytest.approx(group_advantages("GRPO", [1.5, 0.5, None, 0.5]), abs=1e-4)
    assert log["rewards/formatted_later/mean"] == pytest.approx(2 / 7)
    assert judge.runs.total() == 8


def test_a_batch_without_any_verdict_logs_no_component_and_trains_on(
    judge: Judge, tiny_model: str, tmp_path: Path
) -> None:
    reward = CompositeReward(judge.reward(extract=Script([OURS])), formatted)
    found, log = advantages("GRPO", tiny_model, tmp_path, reward)
    assert found == [0.0] * 8
    assert log["deepgym/verdict_rate"] == 0.0
    assert log["deepgym/component/formatted/mean"] is None
    assert log["deepgym/no_verdict/network_error"] == 1.0
