"""``compute_score`` as verl's reward managers call it: a dictionary with a verdict in it, or an error."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import load_environment
from deepgym.exceptions import NoVerdictError
from deepgym.integrations.labels import UnknownLabelError
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.faults import FAULTS, Fault, FaultyProvider
from deepgym.testing.laws import ADD, ANSWERS, GOOD, HALF, LOOPS, RAISES, SCRIPT
from deepgym_verl import judge
from deepgym_verl.info import KEYS
from deepgym_verl.options import Options, OptionsError
from deepgym_verl.reward import compute_score, make_verl_compute_score

TWO_SUM = load_environment("two_sum")
SOLVED = str(TWO_SUM.reference)


@pytest.fixture
def provider(kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """``provider(one)``: every client that is opened has it."""

    def use(one: Any) -> Any:
        monkeypatch.setattr(Options, "client", lambda self: kit.client(one, max_parallel=self.max_parallel))
        return one

    return use


def row(answer: str, **more: Any) -> dict[str, Any]:
    """What verl's managers pass, all of it by keyword."""
    return {
        "data_source": "deepgym/laws",
        "solution_str": f"Here it is:\n```python\n{answer}\n```\n",
        "ground_truth": "laws/add",
        "extra_info": {"index": 3, "num_turns": 2, "rollout_reward_scores": {}},
        **more,
    }


def test_verl_takes_it_for_an_async_function() -> None:
    assert inspect.iscoroutinefunction(compute_score)
    assert inspect.iscoroutinefunction(partial(compute_score, env="two_sum"))
    assert inspect.iscoroutinefunction(make_verl_compute_score(ADD))


def test_every_answer_has_its_score_under_the_same_keys_in_the_same_order(
    provider: Callable[[Any], Any],
) -> None:
    provider(FakeProvider(SCRIPT))

    async def main() -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(compute_score(**row(answer), env=ADD) for answer in ANSWERS)))

    found = asyncio.run(main())
    assert [each["score"] for each in found] == list(ANSWERS.values())
    assert {tuple(each) for each in found} == {KEYS}
    assert {type(value) for each in found for value in each.values()} == {float}
    assert [each["acc"] for each in found] == [float(score == 1.0) for score in ANSWERS.values()]
    assert {each["error"] for each in found} == {0.0}
    by_answer = dict(zip(ANSWERS, found, strict=True))
    assert by_answer[LOOPS]["model_fault"] == 1.0
    assert (
        by_answer[GOOD]["model_fault"]
        == by_answer[HALF]["model_fault"]
        == by_answer[RAISES]["model_fault"]
        == 0.0
    )
    assert all(each["seconds"] >= 0 and each["steps"] == 0 for each in found)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_no_verdict_raises_and_nothing_else_does(
    fault: Fault, provider: Callable[[Any], Any], masked: Callable[[], int]
) -> None:
    provider(FaultyProvider(FakeProvider(SCRIPT), fault))
    probe = FaultyProvider(FakeProvider(SCRIPT), fault)
    theirs = fault.error_type in {"solution_timeout", "policy_sandbox_failure"}
    assert probe.fault is fault
    if theirs or fault.error_type is None:
        found = asyncio.run(compute_score(**row(GOOD), env=ADD))
        assert (found["score"], found["error"], found["model_fault"]) == (0.0, 0.0, 1.0)
        assert masked() == 0
        return
    with pytest.raises(NoVerdictError) as caught:
        asyncio.run(compute_score(**row(GOOD), env=ADD))
    assert caught.value.result is not None
    assert caught.value.result.error_type == fault.error_type
    assert masked() == 1
    assert not isinstance(caught.value, (TimeoutError, asyncio.TimeoutError))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.result) == (str(caught.value), caught.value.result)


def test_the_message_says_what_happened_and_what_to_use_instead(provider: Callable[[Any], Any]) -> None:
    provider(FaultyProvider(FakeProvider(SCRIPT), Fault("provider")))
    with pytest.raises(NoVerdictError) as caught:
        asyncio.run(compute_score(**row(GOOD), env=ADD))
    text = str(caught.value)
    assert text.startswith("no verdict (provider_error: ")
    assert "HTTP 503" in text
    assert "trainer.use_v1=False" in text
    assert "actor_rollout_ref.rollout.agent.default_agent_loop=deepgym_single_turn" in text


def test_an_outage_is_never_a_number_beside_siblings_that_keep_theirs(provider: Callable[[Any], Any]) -> None:
    provider(FaultyProvider(FakeProvider(SCRIPT), Fault("network"), rate=0.5, seed=3))

    async def main() -> list[Any]:
        rows = [row(answer) for answer in [*ANSWERS] * 8]
        return list(
            await asyncio.gather(*(compute_score(**each, env=ADD) for each in rows), return_exceptions=True)
        )

    found = asyncio.run(main())
    lost = [each for each in found if isinstance(each, BaseException)]
    assert 0 < len(lost) < len(found)
    assert {type(each) for each in lost} == {NoVerdictError}
    for each, score in zip(found, [*ANSWERS.values()] * 8, strict=True):
        assert isinstance(each, NoVerdictError) or each["score"] == score


def test_a_row_names_a_built_in_environment(provider: Callable[[Any], Any]) -> None:
    provider(FakeProvider({SOLVED: SCRIPT[GOOD]}))
    for extra_info, truth, source in (
        ({"env": "two_sum"}, "", "x"),
        ({}, "two_sum", "deepgym/easy"),
        (None, None, "deepgym/two_sum"),
    ):
        given = row(SOLVED, extra_info=extra_info, ground_truth=truth, data_source=source)
        assert asyncio.run(compute_score(**given))["score"] == 0.0  # the fake can't add two numbers' targets
    grader = judge.judge_for(Options())
    assert {env for env in [grader.item("two_sum", "").env.name]} == {"two_sum"}


def test_what_is_wrong_with_a_row_or_an_option_is_raised(provider: Callable[[Any], Any]) -> None:
    provider(FakeProvider(SCRIPT))
    with pytest.raises(UnknownLabelError, match="names no environment"):
        asyncio.run(compute_score(**row(GOOD, data_source="openai/gsm8k")))
    with pytest.raises(UnknownLabelError, match="laws/add"):
        asyncio.run(compute_score(**row(GOOD)))
    with pytest.raises(OptionsError, match="did you mean env"):
        asyncio.run(compute_score(**row(GOOD), envs=ADD))
    with pytest.raises(OptionsError, match="deadline"):
        asyncio.run(compute_score(**row(GOOD), env=ADD, deadline=1))


def test_what_verl_adds_for_a_reward_model_is_taken(provider: Callable[[Any], Any]) -> None:
    provider(FakeProvider(SCRIPT))
    more = {"reward_router_address": "127.0.0.1:1", "reward_model_tokenizer": object()}
    assert asyncio.run(compute_score(**row(GOOD), env=ADD, **more))["score"] == 1.0


def test_calls_of_equal_options_share_one_client(provider: Callable[[Any], Any]) -> None:
    provider(FakeProvider(SCRIPT))
    for deadline in (600, 600.0, 700):
        asyncio.run(compute_score(**row(GOOD), env=ADD, deadline=deadline))
    assert len(judge._judges) == 2


def test_a_row_is_not_changed(provider: Callable[[Any], Any]) -> None:
    provider(FakeProvider(SCRIPT))
    given = row(GOOD)
    before = pickle.dumps(given)
    asyncio.run(compute_score(**given, env=ADD))
    assert pickle.dumps(given) == before


# --- a function of one's own -----------------------------------------------------------------------------------


def test_a_made_function_grades_for_its_environment_whatever_the_row_says(
    provider: Callable[[Any], Any],
) -> None:
    provider(FakeProvider(SCRIPT))
    made = make_verl_compute_score(ADD, deadline=600)
    for given in (row(GOOD), row(GOOD, data_source="gsm8k", extra_info=None, ground_truth="42")):
        assert asyncio.run(made(**given))["score"] == 1.0
    assert (made.__name__, made.__doc__) == ("compute_score", made.__doc__)
    assert made.__doc__


def test_a_made_function_takes_what_verl_adds(provider: Callable[[Any], Any]) -> None:
    provider(FakeProvider(SCRIPT))
    made = make_verl_compute_score(ADD)
    assert asyncio.run(made(**row(HALF), reward_router_address="x"))["score"] == 0.5


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("no_such_thing", {}),
        (ADD, {"deadline": 1}),
        (ADD, {"max_paralel": 3}),
        ([], {}),
        (3, {}),
    ],
)
def test_what_is_wrong_is_said_when_a_function_is_made(env: Any, options: dict[str, Any]) -> None:
    with pytest.raises(OptionsError):
        make_verl_compute_score(env, **options)


def test_a_made_function_opens_nothing_before_its_first_call() -> None:
    make_verl_compute_score(ADD)
    assert not judge._judges


def test_a_made_function_raises_without_a_verdict(provider: Callable[[Any], Any]) -> None:
    provider(FaultyProvider(FakeProvider(SCRIPT), Fault("evicted")))
    with pytest.raises(NoVerdictError, match="default_agent_loop=deepgym_single_turn"):
        asyncio.run(make_verl_compute_score(ADD)(**row(GOOD)))


def test_made_functions_travel_to_another_process_with_cloudpickle(provider: Callable[[Any], Any]) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    provider(FakeProvider(SCRIPT))
    made = pickle.loads(cloudpickle.dumps(make_verl_compute_score(ADD)))
    assert asyncio.run(made(**row(HALF)))["score"] == 0.5


def test_importing_it_loads_neither_verl_nor_torch_nor_ray() -> None:
    program = (
        "import sys, deepgym_verl, deepgym_verl.reward, deepgym_verl.reward_fn\n"
        "loaded = {'verl', 'torch', 'ray', 'numpy', 'tensordict', 'transformers'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
