"""`DeepGymAgent`: verl's own ToolAgentLoop over sessions of DeepGym's, in this process."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from deepgym.contract.evidence import Phase
from deepgym.environments import Program
from deepgym.exceptions import NetworkError, ProviderError, SandboxDiedError, SandboxExpiredError
from deepgym.integrations.labels import UnknownLabelError
from deepgym.providers.base import Act, Ran
from deepgym.providers.local import LocalProvider
from deepgym.testing import SESSION_FAULTS, FakeProvider, FakeSessions, Fault, FaultyProvider, SessionFault
from deepgym_verl import siblings, surroundings
from deepgym_verl.info import KEYS
from deepgym_verl.options import OptionsError

sys.path.append(str(Path(__file__).parent))
w: Any = importlib.import_module("workers")
sys.path.remove(str(Path(__file__).parent))

Sample, call = w.Sample, w.call
FIX = call("write_file", path="number.txt", content="42")
STRAY = call("write_file", path="number.txt", content="41")
DONE = "It is done."
SUBMIT = call("submit")


def unreachable(space: Any) -> Exception:
    """What an act comes to while the provider is down."""
    return NetworkError("the provider can't be reached")


def gone(space: Any) -> Exception:
    """What an act comes to that ends its own sandbox."""
    return SandboxDiedError("the sandbox is gone")


def right(files: dict[str, bytes]) -> bool:
    return files.get("number.txt", b"").strip() == b"42"


def fake(acts: Any = None, **more: Any) -> FakeProvider:
    return FakeProvider(sessions=FakeSessions(acts or {}, judged=right, **more))


def agent(*turns: Any, uid: str = "a", env: str = "number") -> Any:
    return Sample(turns, env=env, uid=uid, agent="deepgym_agent")


def none_open(provider: Any) -> bool:
    """Whether all sandboxes that a fake provider opened are closed, those of sessions and of verifiers."""
    return all(space.closed for space in provider.workspaces) and provider.opened == provider.closed


def shown(batch: Any, row: int = 0) -> list[str]:
    """What the tools told the policy in a trajectory."""
    parts = batch.texts[row].split("<|im_start|>tool\n")[1:]
    return [part.split("<|im_end|>")[0] for part in parts]


@pytest.fixture
def cfg(tiny_model: str) -> Any:
    return w.config(tiny_model)


class Clock:
    """A session's own time, which passes while the model thinks."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def thinking(self, seconds: float, text: str) -> Any:
        """A turn of the model that takes so long."""

        async def think() -> str:
            self.now += seconds
            return text

        return think


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("deepgym.session.session.time", made)
    return made


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has been warned of yet, and nothing was counted."""
    monkeypatch.setattr(surroundings, "_said", set())
    monkeypatch.setattr(w.agents, "MASKED", type(w.agents.MASKED)("deepgym_verl"))


# --- an episode ----------------------------------------------------------------------------------------------


@pytest.mark.local_sandbox
def test_what_the_agent_leaves_in_a_real_sandbox_is_graded(cfg: Any) -> None:
    look = call("bash", command="cat number.txt; pwd")
    python = call("python", code="open('number.txt', 'w').write('42')")
    provider = w.Counting(LocalProvider())
    with w.graded_by(provider, cfg):
        batch = w.legacy(
            cfg, [agent(STRAY, look, python, call("read_file", path="number.txt"), DONE), agent(DONE)]
        )
    assert batch.scores == [1.0, 0.0]
    assert batch.told("steps") == [4.0, 0.0]
    assert batch.told("error") == [0.0, 0.0]
    assert batch.keys == KEYS
    assert shown(batch) == ["wrote 2 bytes to number.txt\n", "41/box/work\n", "", "42"]
    assert (provider.opened, provider.open_now) == (2, 0)
    assert batch.data.non_tensor_batch["__num_turns__"].tolist() == [10, 2]


def test_only_the_policys_own_words_are_trained_on(cfg: Any) -> None:
    with w.graded_by(fake(), cfg):
        batch = w.legacy(cfg, [agent(FIX, DONE)])
    assert batch.scores == [1.0]
    assert batch.trained == [f"{FIX}<|im_end|>{DONE}<|im_end|>"]
    assert shown(batch) == ["wrote 2 bytes to number.txt\n"]


def test_the_tools_are_the_environments_own(tiny_model: str, tmp_path: Path) -> None:
    template = "{% for t in tools or [] %}{{ t['function']['name'] }} {% endfor %}[p0]" + "{# #}"
    cfg = w.config(tiny_model)
    cfg.actor_rollout_ref.model.custom_chat_template = template
    some = w.episode(tools=("bash", "submit"))
    for env, names in ((w.NUMBER, "bash python write_file read_file submit"), (some, "bash submit")):
        with w.graded_by(fake(), cfg, env=[env]):
            batch = w.legacy(cfg, [agent(DONE)])
        assert batch.model.prompts[0].split("[")[0].strip() == names


def test_submit_ends_the_episode_and_the_work_is_graded(cfg: Any) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, SUBMIT, "never said")])
    assert batch.scores == [1.0]
    assert batch.told("steps") == [2.0]
    assert batch.model.left == 1, "the model isn't asked again"
    assert none_open(provider)


@pytest.mark.parametrize("how", ["submit", "steps", "sandbox", "said"])
@pytest.mark.parametrize("estimator", ["gae", "reinforce_plus_plus"])
def test_the_reward_is_on_a_token_that_is_trained(tiny_model: str, how: str, estimator: str) -> None:
    """Estimators that go from token to token skip what is masked, and a tool's text is."""
    cfg = w.config(tiny_model, "actor_rollout_ref.rollout.calculate_log_probs=True")
    end = {"submit": SUBMIT, "steps": call("bash", command="ls"), "sandbox": call("bash", command="kill")}
    provider = FakeProvider(sessions=FakeSessions({"ls": "", "kill": gone}, judged=right))
    with w.graded_by(provider, cfg, env=[w.episode(steps=2)]):
        batch = w.legacy(cfg, [agent(FIX, end.get(how, DONE))])
    assert batch.scores == [0.0 if how == "sandbox" else 1.0]
    said = batch.data.batch["response_mask"][0]
    seen = batch.data.batch["attention_mask"][0, -len(said) :]
    assert said[int(seen.sum()) - 1] == 1
    # With nothing discounted, each of the policy's tokens returns the score.
    assert w.returns(batch, estimator) == batch.scores
    assert batch.data.batch["rollout_log_probs"][0].count_nonzero() == said.sum()


@pytest.mark.parametrize(
    ("setting", "steps", "score"),
    [("max_assistant_turns=2", 1, 0.0), ("max_assistant_turns=3", 2, 1.0), ("max_user_turns=1", 1, 0.0)],
)
def test_a_limit_of_turns_ends_the_trajectory_and_the_work_is_graded(
    tiny_model: str, setting: str, steps: int, score: float
) -> None:
    cfg = w.config(tiny_model, f"actor_rollout_ref.rollout.multi_turn.{setting}")
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(STRAY, FIX, STRAY, DONE)])
    assert batch.told("steps") == [float(steps)]
    assert batch.scores == [score]
    assert batch.told("error") == [0.0]
    assert none_open(provider)


def test_the_environments_own_limit_of_steps_ends_the_episode(cfg: Any) -> None:
    provider = fake()
    with w.graded_by(provider, cfg, env=[w.episode(steps=2)]):
        batch = w.legacy(cfg, [agent(STRAY, FIX, STRAY, DONE)])
    assert batch.scores == [1.0]
    assert batch.told("steps") == [2.0]
    assert batch.model.left == 2
    assert none_open(provider)


def test_a_response_that_is_full_ends_the_trajectory_and_the_work_is_graded(cfg: Any) -> None:
    provider = fake()
    long = "x" * (w.LENGTH - 200)
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, long + STRAY, DONE), agent(FIX, "x" * w.LENGTH + STRAY)])
    assert batch.told("error") == [0.0, 0.0]
    assert batch.scores[1] == 1.0, "what was cut off is no call"
    assert none_open(provider)


def test_an_agent_that_says_nothing_at_all_is_judged_and_its_prompt_is_not_trained_on(cfg: Any) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent([]), agent(FIX, []), agent(FIX, DONE)])
    assert batch.scores == [0.0, 1.0, 1.0]
    assert batch.told("error") == [0.0, 0.0, 0.0]
    assert batch.trained[0] == "<|im_end|>"
    assert batch.trained[1] == FIX + "<|im_end|>"
    assert w.advantages(batch) == [-1.155, 0.577, 0.577]
    assert none_open(provider)


def test_an_agent_that_says_nothing_and_is_lost_is_masked(cfg: Any) -> None:
    provider = FaultyProvider(fake(), SessionFault("network", "host"))
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent([]), agent(DONE)])
    assert batch.told("error") == [1.0, 1.0]
    assert batch.tokens == [0, 0]


# --- calls ---------------------------------------------------------------------------------------------------


def raw(text: str) -> str:
    return f"<tool_call>\n{text}\n</tool_call>"


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (call("fly", to="the moon"), "fly"),
        (call("bash"), "command"),
        (call("bash", command=3), "command"),
        (call("bash", command="ls", shell="zsh"), "shell"),
        (raw('{"name": "bash", "arguments": "ls"}'), "arguments"),
        (raw('{"name": "bash", "arguments": null}'), "arguments"),
        (raw('{"name": "bash", "arguments": [1, 2]}'), "arguments"),
        (raw('{"name": "write_file", "arguments": {"path": "", "content": ""}}'), "path"),
    ],
)
def test_a_call_that_is_wrong_is_told_the_policy_and_costs_a_step(cfg: Any, turn: str, says: str) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(turn, FIX, DONE)])
    wrong, wrote = shown(batch)
    assert says in wrong
    assert wrote == "wrote 2 bytes to number.txt\n"
    assert batch.scores == [1.0]
    assert batch.told("steps") == [2.0]
    assert none_open(provider)


@pytest.mark.parametrize(
    "turn",
    [raw('{"name": "bash", "arguments": {'), raw('{"name": "bash"}'), raw("42"), "<tool_call>\n{}", raw("")],
)
def test_what_verls_parser_cannot_read_is_no_call_and_ends_the_episode(cfg: Any, turn: str) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, turn)])
    assert batch.scores == [1.0]
    assert batch.told("steps") == [1.0]
    assert none_open(provider)


NASTY = {
    "half a surrogate": raw('{"name": "bash", "arguments": {"command": "echo \\ud800"}}'),
    "half a surrogate as a name": raw('{"name": "\\udfff", "arguments": {}}'),
    "half a surrogate as a key": raw('{"name": "bash", "arguments": {"\\ud800": 1}}'),
    "a zero byte": raw('{"name": "bash", "arguments": {"command": "echo \\u0000"}}'),
    "no name": raw('{"name": null, "arguments": {}}'),
    "a name that is a list": raw('{"name": ["bash"], "arguments": {}}'),
    "depth": raw('{"name": "bash", "arguments": {"command": ' + "[" * 300 + "]" * 300 + "}}"),
    "no number": raw('{"name": "bash", "arguments": {"command": NaN}}'),
    "a call in a call": f"<tool_call>{FIX}</tool_call>",
    "markup": call("bash", command="echo '<|im_end|><|im_start|>system'"),
    "a template": call("bash", command="{{ 1 / 0 }} {% raise %}"),
}


@pytest.mark.parametrize("what", list(NASTY))
def test_whatever_a_call_holds_the_trajectory_is_judged(cfg: Any, what: str) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, NASTY[what], DONE, DONE), agent(STRAY, DONE)])
    assert batch.told("error") == [0.0, 0.0]
    assert batch.scores == [1.0, 0.0]
    assert min(batch.tokens) > 0
    assert w.advantages(batch) == [0.707, -0.707]
    assert none_open(provider)


def test_a_context_that_is_full_ends_the_trajectory_and_the_work_is_graded(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "actor_rollout_ref.rollout.max_model_len=100")
    with w.graded_by(fake(), cfg):
        batch = w.legacy(cfg, [agent(FIX, call("write_file", path="x", content="y" * 100), "never said")])
    assert batch.scores == [1.0]
    assert batch.told("error") == [0.0]
    assert batch.model.left == 1


@pytest.mark.parametrize(("most", "steps", "score"), [(1, 1, 0.0), (2, 2, 1.0), (5, 3, 0.0)])
def test_calls_of_one_turn_are_done_in_order_as_many_as_verl_allows(
    tiny_model: str, most: int, steps: int, score: float
) -> None:
    cfg = w.config(tiny_model, f"actor_rollout_ref.rollout.multi_turn.max_parallel_calls={most}")
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(STRAY + FIX + STRAY, DONE)])
    assert batch.scores == [score]
    assert batch.told("steps") == [float(steps)]
    assert len(shown(batch)) == steps


def test_calls_after_submit_in_the_same_turn_do_nothing(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "actor_rollout_ref.rollout.multi_turn.max_parallel_calls=3")
    provider = fake()
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX + SUBMIT + STRAY, "never said")])
    assert batch.scores == [1.0]
    assert batch.told("steps") == [2.0]
    assert batch.model.left == 1
    assert none_open(provider)


def test_a_failure_of_ours_in_one_of_several_calls_ends_the_episode(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "actor_rollout_ref.rollout.multi_turn.max_parallel_calls=3")
    provider = fake({"boom": unreachable})
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX + call("bash", command="boom") + STRAY, "never said")])
    assert batch.told("error") == [1.0]
    assert batch.tokens == [0]
    assert shown(batch) == []
    assert none_open(provider)


LONG = "".join(chr(97 + index % 26) for index in range(1000))


@pytest.mark.parametrize(
    ("side", "seen"),
    [
        ("left", "(cut) ..." + LONG[-100:]),
        ("right", LONG[:100] + "... (cut)"),
        ("middle", LONG[:50] + "... (cut) ..." + LONG[-50:]),
    ],
)
def test_what_tools_say_is_cut_as_verl_is_told(
    tiny_model: str, side: str, seen: str, caplog: pytest.LogCaptureFixture
) -> None:
    place = "actor_rollout_ref.rollout.multi_turn"
    cfg = w.config(
        tiny_model, f"{place}.max_tool_response_length=100", f"{place}.tool_response_truncate_side={side}"
    )
    provider = fake({"long": LONG, "fits": LONG[:100]})
    turns = [call("bash", command=command) for command in ("long", "fits", "long")]
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(*turns, DONE)])
    assert shown(batch) == [seen, LONG[:100], seen]
    said = [record for record in caplog.records if "max_tool_response_length=100" in record.getMessage()]
    assert len(said) == 1


# --- whose failure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", SESSION_FAULTS, ids=str)
def test_a_sessions_fault_masks_its_sample_or_is_the_agents_0(
    cfg: Any, fault: SessionFault, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    boom = clock.thinking(10.0, call("bash", command="boom"))
    inner = fake({"boom": "it went well"})
    known = {"boom"} if fault.verb == "act" else None
    provider = FaultyProvider(inner, fault, answers=known)
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, boom, "It failed.")])
    ours = fault.error_type() != "policy_sandbox_failure"
    assert batch.told("error") == [float(ours)]
    assert batch.told("model_fault") == [float(not ours)]
    assert batch.scores == [0.0]
    assert (batch.tokens == [0]) is ours
    texts = "".join(shown(batch))
    for word in ("HTTP", "provider", "evicted", "reached", "descriptor", "Too many", "lifetime"):
        assert not (ours and word in texts), "an outage is nothing for a policy to read"
    assert not [record for record in caplog.records if "what the policy wrote" in record.getMessage()]
    assert none_open(inner)


def test_the_agents_own_end_of_its_sandbox_ends_the_episode_with_a_0_that_trains(cfg: Any) -> None:
    provider = fake({"kill": gone})
    turns = (FIX, call("bash", command="kill"), "never said")
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(*turns), agent(FIX, DONE)])
    assert batch.scores == [0.0, 1.0]
    assert batch.told("error") == [0.0, 0.0]
    assert batch.told("model_fault") == [1.0, 0.0]
    assert w.advantages(batch) == [-0.707, 0.707]
    assert none_open(provider)


def test_a_sandbox_at_the_end_of_its_life_is_ours_unless_the_agent_used_it_up(cfg: Any, clock: Clock) -> None:

    def expired(space: Any) -> Exception:
        return SandboxExpiredError("the sandbox's lifetime is over")

    provider = fake({"late": expired, "nap": Ran(code=0, seconds=50.0)})
    nap, late = call("bash", command="nap"), clock.thinking(60.0, call("bash", command="late"))
    with w.graded_by(provider, cfg, env=[w.episode(step=55.0)]):
        ours, own = (w.legacy(cfg, [agent(*turns)]) for turns in ((FIX, late), (nap, late)))
    assert (ours.told("error"), ours.told("model_fault")) == ([1.0], [0.0])
    assert (own.told("error"), own.told("model_fault")) == ([0.0], [1.0])
    assert none_open(provider)


ENDS = {
    "its shell": ("kill -9 $$", 1.0),
    "all that it can": ("kill -9 -1", 1.0),
    "the shell's end": ("exit 3", 1.0),
    "the work directory": ("rm -rf ./* ../work", 0.0),
    "a fork bomb": ("bomb() { bomb | bomb & }; bomb; sleep 1", 1.0),
    "much output": ("yes | head -c 3000000", 1.0),
    "no output": ("exec >&- 2>&-", 1.0),
    "sleep": ("sleep 1000", 1.0),
}


@pytest.mark.local_sandbox
@pytest.mark.parametrize("what", list(ENDS))
def test_whatever_an_agent_does_to_its_sandbox_it_is_judged(cfg: Any, what: str) -> None:
    command, score = ENDS[what]
    provider = w.Counting(LocalProvider())
    with w.graded_by(provider, cfg, env=[w.episode(step=1.5, processes=16)]):
        batch = w.legacy(cfg, [agent(FIX, call("bash", command=command), DONE), agent(STRAY, DONE)])
    assert batch.told("error") == [0.0, 0.0]
    assert batch.scores == [score, 0.0]
    assert batch.told("steps") == [2.0, 1.0]
    assert min(batch.tokens) > 0
    assert provider.open_now == 0


@pytest.mark.parametrize(
    "fault",
    [Fault("network", Phase.OPENED), Fault("provider", Phase.IN_PLAY), Fault("supervisor", Phase.REPORTED)],
    ids=str,
)
def test_a_provider_that_fails_while_grading_masks_the_episode(cfg: Any, fault: Fault) -> None:
    inner = fake()
    with w.graded_by(FaultyProvider(inner, fault), cfg):
        batch = w.legacy(cfg, [agent(FIX, DONE)])
    assert batch.told("error") == [1.0]
    assert batch.tokens == [0]
    assert batch.told("steps") == [1.0]
    assert none_open(inner)


def test_no_sandbox_to_be_had_masks_the_episode_and_the_model_is_not_asked_on(cfg: Any) -> None:
    provider = fake(fails={"host": ProviderError("HTTP 503 from the provider", "fake", 503)})
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, "never said")])
    assert batch.told("error") == [1.0]
    assert batch.model.left == 1
    assert shown(batch) == []


def test_a_sandbox_that_comes_at_the_second_attempt_is_no_failure(cfg: Any) -> None:
    provider = fake(fails={"host": [NetworkError("the provider can't be reached")]})
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, DONE)])
    assert batch.scores == [1.0]
    assert batch.told("error") == [0.0]


def test_one_lost_episode_of_four_moves_no_advantage(cfg: Any) -> None:
    provider = fake({"boom": unreachable})
    lost = agent(FIX, call("bash", command="boom"), "never said")
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX, DONE), agent(FIX, DONE), agent(STRAY, DONE), lost])
    assert batch.scores == [1.0, 1.0, 0.0, 0.0]
    assert w.advantages(batch) == [0.577, 0.577, -1.155, 0.0]
    assert w.advantages(batch, "deepgym_rloo") == [0.5, 0.5, -1.0, 0.0]
    assert w.advantages(batch, "grpo") == [0.866, 0.866, -0.866, 0.0]
    assert none_open(provider)


def test_a_verifier_for_each_step_gives_the_tools_rewards(cfg: Any) -> None:
    env = w.episode(step_verify=Program(source="def verify(work):\n    return 0.25\n"))
    with w.graded_by(fake(), cfg, env=[env]):
        batch = w.legacy(cfg, [agent(STRAY, FIX, DONE)])
    assert batch.scores == [1.0]
    assert list(batch.data.non_tensor_batch["tool_rewards"][0]) == [0.0, 1.0]


def test_a_row_that_names_no_environment_for_agents_opens_no_session(cfg: Any) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        with pytest.raises(OptionsError, match="deepgym_single_turn"):
            w.legacy(cfg, [agent(DONE, env="add")])
        with pytest.raises(UnknownLabelError):
            w.legacy(cfg, [agent(DONE, env="nowhere")])
    assert provider.workspaces == []
    assert siblings._groups == {}


# --- sessions ------------------------------------------------------------------------------------------------


class Places(FakeProvider):
    """How many sessions are open at once."""

    def __init__(self, sessions: FakeSessions) -> None:
        super().__init__(sessions=sessions)
        self.most = 0

    async def host(self, place: Any) -> Any:
        space = await super().host(place)
        self.most = max(self.most, sum(not each.closed for each in self.workspaces))
        return space


def test_more_trajectories_than_places_all_get_their_turn(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "+reward.custom_reward_function.reward_kwargs.max_sessions=3")
    provider = Places(FakeSessions(judged=right))
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(FIX if number % 2 else STRAY, DONE) for number in range(20)])
    assert batch.scores == [0.0, 1.0] * 10
    assert batch.told("error") == [0.0] * 20
    assert len(provider.workspaces) == 20
    assert provider.most == 3
    assert none_open(provider)


def test_places_are_given_back_by_episodes_that_fail(tiny_model: str) -> None:
    cfg = w.config(tiny_model, "+reward.custom_reward_function.reward_kwargs.max_sessions=2")
    provider = Places(FakeSessions({"boom": unreachable, "die": gone}, judged=right))
    kinds = [agent(call("bash", command="boom")), agent(call("bash", command="die")), agent(FIX, DONE)]
    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, kinds * 5)
    assert batch.told("error") == [1.0, 0.0, 0.0] * 5
    assert batch.scores == [0.0, 0.0, 1.0] * 5
    assert provider.most == 2
    assert none_open(provider)


def test_an_inference_engine_that_fails_in_mid_episode_leaves_no_session_open(cfg: Any) -> None:
    provider = fake()
    with w.graded_by(provider, cfg):
        with pytest.raises(ConnectionError, match="engine"):
            w.legacy(cfg, [agent(FIX, ConnectionError("the engine is gone"))])
        assert len(provider.workspaces) == 1
        assert none_open(provider)
    assert siblings._groups == {}


class Door(FakeProvider):
    """A provider whose sandboxes for sessions are had once the `door` is open."""

    def __init__(self) -> None:
        super().__init__(sessions=FakeSessions(judged=right))
        self.door = asyncio.Event()
        self.waiting = 0

    async def host(self, place: Any) -> Any:
        self.waiting += 1
        await self.door.wait()
        return await super().host(place)


async def open_door(door: asyncio.Event) -> None:
    door.set()


def test_a_trajectory_that_fails_before_its_session_is_there_leaves_neither_it_nor_its_place(
    tiny_model: str,
) -> None:
    cfg = w.config(tiny_model, "+reward.custom_reward_function.reward_kwargs.max_sessions=1")
    provider = Door()

    async def fails() -> str:
        while not provider.waiting:
            await asyncio.sleep(0)
        raise ConnectionError("the engine is gone")

    with w.graded_by(provider, cfg) as judge:
        # One waits for its sandbox, the other for that one's place.
        for turns in ([fails], [fails, fails]):
            with pytest.raises(ConnectionError, match="engine"):
                w.legacy(cfg, [agent(turn) for turn in turns])
        assert provider.workspaces == []
        judge.dg.submit(lambda _: open_door(provider.door)).result(60)
        batch = w.legacy(cfg, [agent(FIX, DONE), agent(STRAY, DONE)])
    assert batch.scores == [1.0, 0.0]
    assert len(provider.workspaces) == 2
    assert none_open(provider)
    assert siblings._groups == {}


@pytest.mark.parametrize("at", ["generate", "act", "grade"])
def test_a_trajectory_that_is_cancelled_closes_its_session(cfg: Any, at: str) -> None:
    reached: asyncio.Future[None]

    def here() -> None:
        loop.call_soon_threadsafe(reached.set_result, None)

    async def never() -> str:
        here()
        await asyncio.Event().wait()
        raise AssertionError

    async def act(act: Act) -> Any:
        if at == "act" and act.do == "bash":
            await never()
        return None

    class Slow(FakeProvider):
        async def open(self, spec: Any) -> Any:
            if at == "grade":
                await never()
            return await super().open(spec)

    provider = Slow(sessions=FakeSessions(act, judged=right))
    turns = [FIX, never] if at == "generate" else [FIX, call("bash", command="wait"), DONE]

    async def run() -> None:
        nonlocal reached, loop
        loop = asyncio.get_running_loop()
        reached = loop.create_future()
        going = asyncio.create_task(w.legacy_here(cfg, [agent(*turns)]))
        await reached
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going

    loop: asyncio.AbstractEventLoop
    with w.graded_by(provider, cfg):
        # verl gathers its trajectories, which are cancelled with it and end by themselves.
        asyncio.run(run())
        assert len(provider.workspaces) == 1
        assert none_open(provider)
    assert siblings._groups == {}


def test_the_session_is_opened_while_the_model_writes(cfg: Any) -> None:
    provider = fake()

    async def writes() -> str:
        while not provider.workspaces:
            await asyncio.sleep(0)
        return FIX

    with w.graded_by(provider, cfg):
        batch = w.legacy(cfg, [agent(writes, DONE)])
    assert batch.scores == [1.0]


def test_what_isnt_scripted_is_judged_by_what_the_calls_say(cfg: Any) -> None:
    arguments = json.dumps({"name": "bash", "arguments": {"command": "nothing like it"}})
    with w.graded_by(fake(), cfg):
        batch = w.legacy(cfg, [agent(raw(arguments), DONE)])
    assert "exit status 127" in shown(batch)[0]
    assert batch.scores == [0.0]
