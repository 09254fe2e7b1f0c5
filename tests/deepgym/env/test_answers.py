from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from deepgym import AsyncDeepGymEnv, Case, Cases, DeepGym, DeepGymEnv, Environment, Program
from deepgym.contract.evidence import Phase
from deepgym.env import Info
from deepgym.exceptions import (
    DeepGymError,
    InvalidEnvironmentError,
    SandboxError,
    SessionError,
    UnknownNameError,
)
from deepgym.testing import FAULTS, Behaviour, FakeProvider, Fault, FaultyProvider

CASES = tuple(Case(args=(n, n), expected=2 * n) for n in (1, 2, 3, 4))
ADD = Environment(name="add", task="Write add(a, b).", verify=Cases(function="add", cases=CASES))
PROGRAM = Environment(name="program", task="Write add(a, b).", verify=Program(source="report(1.0)"))


def fails_on(*numbers: int) -> Behaviour:
    return Behaviour.calls(lambda a, b: 0 if a in numbers else a + b)


def divides(a: int, b: int) -> float:
    return a / 0


SCRIPT = {
    "right": Behaviour.calls(lambda a, b: a + b),
    "half": fails_on(2, 3),
    "most": fails_on(1),
    "none": fails_on(1, 2, 3, 4),
    "divides": Behaviour.calls(divides),
    "loops": Behaviour.loops(),
    "dies": Behaviour.dies(2),
    "speaks": Behaviour.calls(lambda a, b: a + b, stdout=b"hello\n", stderr=b"a warning\n"),
    "gives up": Behaviour.crashes_verifier(2, report={"score": 1.0, "passed": True}),
    "shares": Behaviour.reports(0.25),
}


@pytest.fixture
def dg() -> Iterator[DeepGym]:
    with DeepGym(provider=FakeProvider(SCRIPT)) as client:
        yield client


def begun(env: Any, dg: DeepGym, **options: Any) -> DeepGymEnv:
    made = DeepGymEnv(env, dg, **options)
    made.reset()
    return made


def test_an_episode_is_a_task_an_answer_and_what_became_of_it(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg)
    task, info = env.reset()
    assert (task, info.has_verdict, info.passed, info.score, info.turn, info.result) == (
        ADD.task,
        False,
        False,
        0.0,
        0,
        None,
    )
    text, reward, terminated, truncated, info = env.step("right")
    assert (text, reward, terminated, truncated) == ("Passed: all 4 cases.", 1.0, True, False)
    assert (info.has_verdict, info.passed, info.score, info.error_type) == (True, True, 1.0, None)
    assert (info.cases_passed, info.cases_total, info.outcomes) == (4, 4, ["passed"] * 4)
    assert info.result is env.last_result
    assert info.result.score == 1.0


def test_a_wrong_answer_is_a_verdict_and_ends_the_episode_too(dg: DeepGym) -> None:
    text, reward, terminated, truncated, info = begun(ADD, dg).step("half")
    assert (reward, terminated, truncated) == (0.5, True, False)
    assert text == "Failed with score 0.50: 2 of 4 cases passed.\ncases 2 to 3: wrong"
    assert info.has_verdict
    assert info.outcomes == ["passed", "wrong", "wrong", "passed"]


@pytest.mark.parametrize(
    ("answer", "error_type", "says"),
    [
        ("loops", "solution_timeout", "ran past its time limit"),
        ("dies", "solution_error", "process ended early"),
    ],
)
def test_a_model_fault_is_a_zero_with_its_reason(
    dg: DeepGym, answer: str, error_type: str, says: str
) -> None:
    text, reward, terminated, _, info = begun(ADD, dg).step(answer)
    assert (reward, terminated, info.has_verdict, info.error_type) == (0.0, True, True, error_type)
    assert says in text
    assert info.cases_passed == 0


def test_what_an_answer_wrote_and_raised_is_shown_to_it(dg: DeepGym) -> None:
    assert begun(ADD, dg).step("speaks")[0].endswith("--- stdout\nhello\n--- stderr\na warning")
    text = begun(ADD, dg).step("divides")[0]
    assert "cases 1 to 4: raised ZeroDivisionError: division by zero" in text


def test_an_answer_is_taken_out_of_a_completion_as_a_reward_function_does(dg: DeepGym) -> None:
    completion = "<think>half?</think>Here:\n```python\nhalf\n```\nor\n```python\nright\n```"
    for action in (completion, [{"role": "assistant", "content": completion}], "right<|im_end|>"):
        assert begun(ADD, dg).step(action)[1] == 1.0
    (told,) = DeepGymEnv(ADD, dg).step_batch([completion])
    assert told[1] == 1.0


def test_an_answer_can_be_code_already_or_be_taken_out_by_a_function(dg: DeepGym) -> None:
    fenced = "```\nright\n```"
    assert begun(ADD, dg, extract=False).step(fenced)[1] == 0.0
    assert begun(ADD, dg, extract=False).step("right")[1] == 1.0
    assert begun(ADD, dg, extract=lambda action: action["code"]).step({"code": "right"})[1] == 1.0


def test_an_action_that_is_no_text_is_a_type_error_and_no_attempt(dg: DeepGym) -> None:
    env = begun(ADD, dg, extract=False)
    with pytest.raises(TypeError, match="an answer is text, not int"):
        env.step(3)
    assert env.step("right")[1] == 1.0
    with pytest.raises(TypeError, match=r"answers\[1\]: an answer is text, not NoneType"):
        env.step_batch(["right", None])
    with pytest.raises(TypeError, match="must be a list"):
        env.step_batch("right")


def test_a_step_outside_an_episode_says_to_reset(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg)
    with pytest.raises(SessionError, match=r"no episode has begun; call reset\(\)"):
        env.step("right")
    env.reset()
    env.step("half")
    with pytest.raises(SessionError, match=r"ended with its answer; call reset\(\)"):
        env.step("right")
    env.reset()
    assert env.step("right")[1] == 1.0


def test_attempts_go_on_until_one_passes(dg: DeepGym) -> None:
    env = begun(ADD, dg, max_turns=3)
    text, reward, terminated, truncated, info = env.step("half")
    assert (reward, terminated, truncated, info.turn) == (0.5, False, False, 1)
    assert text.endswith("Attempt 1 of 3. Answer again.")
    text, reward, terminated, truncated, info = env.step("right")
    assert (text, reward, terminated, truncated, info.turn) == ("Passed: all 4 cases.", 0.5, True, False, 2)
    with pytest.raises(SessionError):
        env.step("right")


def test_the_last_attempt_without_a_pass_truncates(dg: DeepGym) -> None:
    env = begun(ADD, dg, max_turns=2)
    env.step("none")
    text, reward, terminated, truncated, info = env.step("half")
    assert (reward, terminated, truncated, info.passed) == (0.5, False, True, False)
    assert text.endswith("Attempt 2 of 2.")
    with pytest.raises(SessionError, match="all 2 attempts"):
        env.step("right")


def test_the_rewards_of_an_episode_add_up_to_its_best_score(dg: DeepGym) -> None:
    for answers, best in (
        (["half", "half", "most", "none"], 0.75),
        (["most", "half", "most", "half"], 0.75),
        (["loops", "half", "dies", "right"], 1.0),
        (["right"], 1.0),
    ):
        env = begun(ADD, dg, max_turns=4)
        steps = [env.step(answer) for answer in answers]
        assert sum(step[1] for step in steps) == pytest.approx(best)
        assert all(step[1] >= 0.0 for step in steps)
        assert steps[-1][2] or steps[-1][3]


def test_the_best_score_of_one_episode_says_nothing_of_the_next(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg, max_turns=2)
    for _ in range(2):
        env.reset()
        assert env.step("half")[1] == 0.5


def test_a_verifier_that_gives_up_is_no_verdict_and_raises_nowhere(dg: DeepGym) -> None:
    text, reward, terminated, truncated, info = begun(PROGRAM, dg).step("gives up")
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert (info.has_verdict, info.passed, info.error_type) == (False, False, "verifier_error")
    assert text == "The answer couldn't be judged."
    ((_, reward, _, _, info),) = DeepGymEnv(PROGRAM, dg).step_batch(["gives up"])
    assert (reward, info.has_verdict) == (0.0, False)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("env", [ADD, PROGRAM], ids=["cases", "program"])
def test_a_step_raises_where_a_run_does_and_a_batch_never(env: Environment, fault: Fault) -> None:
    def client() -> DeepGym:
        return DeepGym(provider=FaultyProvider(FakeProvider(SCRIPT), fault))

    with client() as dg:
        try:
            run: Any = dg.run(env, "right")
        except DeepGymError as error:
            run = error
    with client() as dg:
        made = begun(env, dg)
        if isinstance(run, Exception):
            with pytest.raises(type(run)) as raised:
                made.step("right")
            assert raised.value.result.error_type == run.result.error_type  # type: ignore[attr-defined]
        else:
            assert made.step("right")[4].error_type == run.error_type
    with client() as dg:
        ((_, reward, terminated, truncated, info),) = DeepGymEnv(env, dg).step_batch(["right"])
    assert (terminated, truncated) == (True, False)
    assert info.error_type == fault.error_type
    assert info.has_verdict is (not isinstance(run, Exception) and run.has_verdict)
    assert reward == (1.0 if fault.error_type is None else 0.0)


def test_an_answer_whose_step_raised_may_be_given_again() -> None:
    provider = FaultyProvider(FakeProvider(SCRIPT), Fault("network", Phase.OPENED), answers={"half"})
    with DeepGym(provider=provider) as faulty:
        env = begun(ADD, faulty, max_turns=2)
        with pytest.raises(SandboxError):
            env.step("half")
        assert env.last_result is None
        text, _, terminated, _, info = env.step("right")
    assert (terminated, info.turn, text) == (True, 1, "Passed: all 4 cases.")


def test_a_batch_has_a_step_for_each_answer_in_order(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg)
    steps = env.step_batch(["right", "half", "loops", "none", "right"])
    assert [step[1] for step in steps] == [1.0, 0.5, 0.0, 0.0, 1.0]
    assert [step[2:4] for step in steps] == [(True, False)] * 5
    assert [step[4].passed for step in steps] == [True, False, False, False, True]
    assert env.step_batch([]) == []


def test_a_batch_leaves_the_episode_that_goes_on_alone(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg, max_turns=3)
    env.reset(seed=5)
    env.step("half")
    last = env.last_result
    assert [step[4].turn for step in env.step_batch(["right", "none"])] == [1, 1]
    assert env.last_result is last
    text, reward, _, _, info = env.step("most")
    assert (reward, info.turn, info.seed) == (0.25, 2, 5)
    assert text.endswith("Attempt 2 of 3. Answer again.")


DRAWS = "def draw(rng):\n    return [{'args': [rng.randint(1, 4)] * 2, 'expected': 0} for _ in range(4)]"
DRAWN = Environment(name="drawn", task="Add.", verify=Cases(function="add", draw=DRAWS), seed=11)


def test_a_seed_draws_the_cases_and_without_one_the_environments_own_does(dg: DeepGym) -> None:
    env = DeepGymEnv(DRAWN, dg)
    seeds = [env.reset(seed=seed)[1].seed for seed in (7, numpy.int64(8), None)]
    assert seeds == [7, 8, 11]
    assert all(type(seed) is int for seed in seeds)
    for seed in (7, None):
        env.reset(seed=seed)
        _, _, _, _, info = env.step("most")
        assert info.seed == info.result.seed == (11 if seed is None else 7)
        assert info.outcomes == [case.outcome for case in dg.run(DRAWN, "most", seed=seed).cases]
    assert [step[4].seed for step in env.step_batch(["right"] * 2)] == [11, 11]
    assert [step[4].seed for step in env.step_batch(["right"] * 2, seed=[1, 2])] == [1, 2]


@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (1 << 63, ValueError), ("1", TypeError)])
def test_a_seed_that_is_none_is_an_error(dg: DeepGym, seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        DeepGymEnv(ADD, dg).reset(seed=seed)


def test_arguments_that_cannot_be_meant_are_errors(dg: DeepGym) -> None:
    with pytest.raises(UnknownNameError, match="coin_change"):
        DeepGymEnv("coin_chang", dg)
    with pytest.raises(TypeError, match="must be an environment or a name, not int"):
        DeepGymEnv(3, dg)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be DeepGym, not AsyncDeepGym; that one is for AsyncDeepGymEnv"):
        DeepGymEnv(ADD, dg.asynchronous)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be AsyncDeepGym, not DeepGym; that one is for DeepGymEnv"):
        AsyncDeepGymEnv(ADD, dg)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_turns=0"):
        DeepGymEnv(ADD, dg, max_turns=0)
    with pytest.raises(ValueError, match="'human'"):
        DeepGymEnv(ADD, dg, render_mode="human")


def test_a_folder_is_loaded_whichever_kind_it_is_of(dg: DeepGym, tmp_path: Any) -> None:
    manifest = tmp_path / "environment.toml"
    case = "[verify]\nkind = 'cases'\nfunction = 'add'\ncases = [{args = [1, 2], expected = 3}]\n"
    manifest.write_text("task = 'Write add(a, b).'\n" + case)
    assert DeepGymEnv(tmp_path, dg).environment.name == tmp_path.name
    (tmp_path / "verify.py").write_text("def verify(work):\n    return True\n")
    manifest.write_text("kind = 'multi_turn'\ntask = 'Work.'\n[verify]\nprogram = 'verify.py'\n")
    assert DeepGymEnv(str(tmp_path), dg).environment.task == "Work."
    manifest.write_text("task = 'Work.'\nnonsense = 1\n")
    with pytest.raises(InvalidEnvironmentError, match="nonsense"):
        DeepGymEnv(tmp_path, dg)


def test_rendering_is_the_last_turn_as_text_that_moves_no_cursor(dg: DeepGym) -> None:
    env = DeepGymEnv(ADD, dg, render_mode="ansi", max_turns=2)
    env.reset()
    assert env.render() == "add\nWrite add(a, b)."
    env.step("```\nhalf\n```\n\x1b[2J\udc80")
    shown = env.render()
    assert shown is not None
    assert shown.startswith("add, turn 1\n> ```\nhalf\n```\n\\x1b[2J\ufffd\nFailed with score 0.50")
    assert shown.endswith("reward 0.50")
    assert begun(ADD, dg).render() is None


def test_a_client_of_its_own_is_closed_and_a_given_one_is_not(
    dg: DeepGym, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[DeepGym] = []
    monkeypatch.setattr(DeepGym, "close", lambda self: closed.append(self))
    begun(ADD, dg).close()
    own = DeepGymEnv(ADD)
    own.close()
    assert closed == []
    made = own._client()
    with own:
        assert own._client() is made
    own.close()
    assert closed == [made]
    monkeypatch.undo()
    made.close()


def test_an_episode_goes_on_after_pickling_and_in_a_copy() -> None:
    with DeepGym(provider=FakeProvider()) as plain:  # a fake that pickles
        env = begun(ADD, plain, max_turns=3)
        env.step("anything")
        for other in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
            assert other.environment == ADD
            _, reward, _, _, info = other.step("anything")
            assert (reward, info.turn) == (0.0, 2)
            other.dg.close()
        assert env.step("anything")[4].turn == 2


def test_info_is_a_plain_dictionary_with_attributes(dg: DeepGym) -> None:
    info = begun(ADD, dg).step("half")[4]
    assert json.loads(json.dumps(info)) == info
    assert {type(value) for value in info.values()} <= {str, int, float, bool, list, type(None)}
    assert all(getattr(info, name) == info[name] for name in info)
    assert info["result"] is info.result
    assert "score" in dir(info)
    with pytest.raises(AttributeError, match=r"info has no 'verdict'; it has env_name, .*has_verdict"):
        _ = info.verdict
    with pytest.raises(KeyError, match="verdict"):
        _ = info["verdict"]


def test_info_survives_pickling_and_copying_with_its_result(dg: DeepGym) -> None:
    info = begun(ADD, dg).step("half")[4]
    info["episode"] = {"r": 0.5}  # as Gymnasium's wrappers do
    for other in (pickle.loads(pickle.dumps(info)), copy.copy(info), copy.deepcopy(info)):
        assert type(other) is Info
        assert other == info
        assert other.result == info.result
        assert other.episode == {"r": 0.5}
