"""A real GRPOTrainer whose rollouts play in real sandboxes; what the model writes is scripted."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import pickle
import queue
import re
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from deepgym import DeepGym
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program
from deepgym.environments.tools import ToolCall
from deepgym.providers.local import LocalProvider
from deepgym.testing import FaultyProvider, SessionFault
from deepgym_trl.episodes import episode_reward, make_environment_factory
from deepgym_trl.episodes_play import OVER, UNAVAILABLE
from deepgym_trl.episodes_reward import EpisodeReward
from deepgym_trl.versions import installed

pytestmark = pytest.mark.local_sandbox
VERSION = tuple(map(int, (installed() or "0.0").split(".")[:2]))

ENV = MultiTurnEnvironment(
    name="answer",
    task="Write 42 into answer.txt.",
    verify=Program(
        source="def verify(work):\n    return work.exists('answer.txt') and work.text('answer.txt') == '42'\n"
    ),
    tools=("bash", "submit"),
    limits=EpisodeLimits(step=20.0, steps=8, setup=30.0, verify=20.0),
    reference=(
        ToolCall(name="bash", arguments={"command": "ls -A; echo -n 42 > answer.txt"}),
        ToolCall(name="submit"),
    ),
)


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def bash(command: str) -> str:
    return call("bash", command=command)


#: What each kind of rollout writes, turn by turn. The first turn tells them apart.
ROLES: dict[str, list[str]] = {
    "solver": [*(call(each.name, **each.arguments) for each in ENV.reference or ()), "done"],
    "idler": ["I give up"],
    "outage": [bash("make; echo -n 42 > answer.txt"), bash("ls"), "no tools"],
    "breaker": [bash("break; echo -n 42 > answer.txt"), bash("ls"), "oh"],
    "writer": [bash("echo -n 42 > answer.txt; head -c 9000 /dev/zero | tr '\\0' x"), "never written"],
    "fumbler": [call("bash", cmd="ls"), call("sh", command="ls"), "hm"],
    "late": [bash("echo -n 42 > answer.txt"), call("submit"), bash("rm answer.txt"), "gone?"],
    "clerk": [call("write_file", path="answer.txt", content="42"), "done"],
}
#: The roles of each step's group. From step to step an instance meets another fate.
STEPS = [
    ["solver", "idler", "outage", "breaker"],
    ["breaker", "solver", "idler", "outage"],
    ["outage", "breaker", "solver", "idler"],
    ["writer", "fumbler", "late", "outage"],
]
EXPECTED = [[1.0, 0.0, None, 0.0], [0.0, 1.0, 0.0, None], [None, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, None]]


class Recording(EpisodeReward):
    """What the trainer handed over and got, call by call."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[dict[str, Any]] = []

    def __call__(self, *args: Any, **kwargs: Any) -> list[float | None]:
        found = super().__call__(*args, **kwargs)
        self.calls.append({"rewards": found, **kwargs})
        return found


class Model:
    """Writes what the roles say, in place of ``GRPOTrainer._generate_single_turn``."""

    def __init__(self, tokenizer: Any, begin: Callable[[list[str]], list[str]]) -> None:
        self.tokenizer = tokenizer
        self.prompts: list[str] = []
        self._begin = begin

    def __call__(
        self, prompt_ids: list[list[int]], *args: Any, **kwargs: Any
    ) -> tuple[list[list[int]], None]:
        texts = [self.tokenizer.decode(ids) for ids in prompt_ids]
        self.prompts += texts
        if any(self._role(text) is None for text in texts):
            turns = [ROLES[role][0] for role in self._begin(texts)]
        else:
            turns = [self.next(text) for text in texts]
        return [
            self.tokenizer(f"{turn}<|im_end|>", add_special_tokens=False)["input_ids"] for turn in turns
        ], None

    def _role(self, text: str) -> str | None:
        return next((role for role, turns in ROLES.items() if turns[0] in text), None)

    def next(self, text: str) -> str:
        """The turn that follows what is there."""
        turns = ROLES[self._role(text) or ""]
        return turns[text.count("<tool_response>")]


class Run:
    """One training run: 4 steps of one group of 4."""

    def __init__(self, path: str, folder: Path) -> None:
        import transformers
        from datasets import Dataset

        import trl

        provider = failing(LocalProvider())
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        self.client = DeepGym(provider=provider)
        self.factory = make_environment_factory([ENV], dg=self.client)
        self.reward = Recording(rows=self.factory.rows)
        steps = iter(STEPS)
        self.model = Model(tokenizer, lambda texts: next(steps))
        self.advantages: list[list[float]] = []
        self.own_tokens: list[list[int]] = []
        row = {"prompt": [{"role": "user", "content": "Do this:"}], "env_id": "answer"}
        self.trainer = trl.GRPOTrainer(
            model=path,
            processing_class=tokenizer,
            reward_funcs=self.reward,
            environment_factory=self.factory,
            train_dataset=Dataset.from_list([row] * 4),
            args=config(folder, num_generations=4, max_steps=len(STEPS)),
        )
        self._watch()
        if old_parser():
            tokenizer.parse_response = parsed(tokenizer)
        self.trainer.train()
        self.logs = [entry for entry in self.trainer.state.log_history if "deepgym/samples" in entry]

    def _watch(self) -> None:
        self.trainer._generate_single_turn = self.model
        inner = self.trainer._generate_and_score_completions

        def watching(inputs: Any) -> Any:
            output = inner(inputs)
            self.advantages.append(output["advantages"].tolist())
            own = output["tool_mask"] * output["completion_mask"]
            self.own_tokens.append(own.sum(1).tolist())
            return output

        self.trainer._generate_and_score_completions = watching

    def said(self, step: int, row: int) -> list[str]:
        """What the tools told a rollout."""
        messages = self.reward.calls[step]["completions"][row]
        return [message["content"] for message in messages if message["role"] == "tool"]


def failing(provider: Any) -> FaultyProvider:
    """``provider``, whose sandboxes die under the breaker, and which has an outage."""
    inner = FaultyProvider(provider, SessionFault("died", "act"), answers={command("breaker")})
    return FaultyProvider(inner, SessionFault("provider", "act"), answers={command("outage")})


def config(folder: Path, **options: Any) -> Any:
    import trl

    return trl.GRPOConfig(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        max_completion_length=1200,
        max_tool_calling_iterations=6,
        logging_steps=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        gradient_checkpointing=False,
        **options,
    )


def old_parser() -> bool:
    """Whether this TRL asks for tool calls in a way that this transformers has given up (TRL before 1.8
    with transformers 5.13 and later): then there are none at all, and the test reads them itself.
    """
    import transformers

    from trl import chat_template_utils

    new = tuple(map(int, transformers.__version__.split(".")[:2])) >= (5, 13)
    return new and "response_template" not in inspect.getsource(chat_template_utils)


def parsed(tokenizer: Any) -> Any:
    def parse(ids: list[int], *args: Any, **kwargs: Any) -> dict[str, Any]:
        text = tokenizer.decode(ids).removesuffix("<|im_end|>")
        calls = re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.DOTALL)
        found: dict[str, Any] = {"role": "assistant", "content": "" if calls else text}
        if calls:
            found["tool_calls"] = [{"type": "function", "function": json.loads(each)} for each in calls]
        return found

    return parse


def command(role: str) -> str:
    text = ROLES[role][0].removeprefix("<tool_call>\n").removesuffix("\n</tool_call>")
    found: str = json.loads(text)["arguments"]["command"]
    return found


@pytest.fixture(scope="module")
def run(tiny_qwen3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    made = Run(tiny_qwen3, tmp_path_factory.mktemp("run"))
    yield made
    made.factory.close()
    made.client.close()


def test_each_rollout_gets_what_it_earned_and_an_outage_nothing(run: Run) -> None:
    assert [call["rewards"] for call in run.reward.calls] == EXPECTED


def test_siblings_of_an_outage_are_moved_as_if_it_had_not_been(run: Run) -> None:
    import torch

    for step, rewards in enumerate(EXPECTED):
        judged = torch.tensor([reward for reward in rewards if reward is not None])
        alone = iter(((judged - judged.mean()) / (judged.std() + 1e-4)).tolist())
        wanted = [0.0 if reward is None else next(alone) for reward in rewards]
        assert run.advantages[step] == pytest.approx(wanted, abs=1e-5)
        assert max(wanted) > 0.5


def test_the_policy_reads_nothing_of_an_outage_and_all_of_its_own_doing(run: Run) -> None:
    assert run.said(0, 2) == [UNAVAILABLE, UNAVAILABLE]
    broken = run.said(0, 3)
    assert broken[0].startswith("The sandbox has ended.")
    assert broken[1] == OVER
    assert run.said(3, 1)[0].startswith("bash: command is missing")
    assert run.said(3, 2) == ["", "The episode is over.", OVER]


def test_reused_instances_start_clean(run: Run) -> None:
    for step, row in ((0, 0), (1, 1), (2, 2)):
        assert run.said(step, row) == ["", "The episode is over."]
    used = [call["environments"] for call in run.reward.calls]
    assert all(one is other for batch in used for one, other in zip(used[0], batch, strict=True))


def test_what_trl_cut_away_has_run_and_is_graded_as_it_stands(run: Run) -> None:
    assert run.said(3, 0) == []
    assert run.reward.calls[3]["rewards"][0] == 1.0


def test_the_prompt_has_the_task_once_and_the_tools(run: Run) -> None:
    first = run.model.prompts[0]
    assert first.count(f"Do this:\n\n{ENV.task}") == 1
    assert first.count(ENV.task) == 1
    assert '"name": "bash"' in first
    assert '"name": "submit"' in first
    assert '"name": "reset"' not in first


def test_only_the_policys_own_tokens_are_trained_on(run: Run) -> None:
    sizes = {
        role: sum(len(run.model.tokenizer(f"{turn}<|im_end|>")["input_ids"]) for turn in turns)
        for role, turns in ROLES.items()
    }
    for roles, tokens in list(zip(STEPS, run.own_tokens, strict=True))[:3]:
        assert tokens == [sizes[role] for role in roles]


def test_the_trainers_log_has_the_metrics_of_every_step(run: Run) -> None:
    assert [entry["deepgym/verdict_rate"] for entry in run.logs] == [0.75] * 4
    assert [entry["deepgym/no_verdict/provider_error"] for entry in run.logs] == [0.25] * 4
    assert [entry["deepgym/model_fault_rate"] for entry in run.logs] == [0.25, 0.25, 0.25, 0.0]
    means = [1 / 3, 1 / 3, 1 / 3, 2 / 3]
    assert [entry["rewards/deepgym/mean"] for entry in run.logs] == pytest.approx(means)
    assert [entry["deepgym/judged_mean_score"] for entry in run.logs] == pytest.approx(means)


def test_no_sandbox_is_left_open_when_the_rewards_are_there(run: Run) -> None:
    pool = run.client.provider.inner.inner._open
    assert not pool.standing
    assert pool.room.inside == 0


# TRL 1.8 and later: a dict of factories


@pytest.mark.skipif(VERSION < (1, 8), reason="this TRL takes one factory only")
def test_with_a_dict_of_factories_each_row_has_its_own_tools(tiny_qwen3: str, tmp_path: Path) -> None:
    import transformers
    from datasets import Dataset

    import trl

    other = ENV.model_copy(
        update={"name": "other", "task": "Answer.", "tools": ("write_file",), "reference": None}
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_qwen3)
    roles = {ENV.task: iter(["solver", "idler"]), other.task: iter(["clerk", "idler"])}
    model = Model(
        tokenizer, lambda texts: [next(roles[task]) for text in texts for task in roles if task in text]
    )
    reward = Recording()
    with DeepGym() as client:
        factories = {env.name: make_environment_factory(env, dg=client) for env in (ENV, other)}
        rows = [{"prompt": [{"role": "user", "content": "Go."}], "environment": name} for name in factories]
        trainer = trl.GRPOTrainer(
            model=tiny_qwen3,
            processing_class=tokenizer,
            reward_funcs=reward,
            environment_factory=factories,
            train_dataset=Dataset.from_list(rows),
            args=config(tmp_path, num_generations=2, max_steps=1),
        )
        trainer._generate_single_turn = model
        if old_parser():
            tokenizer.parse_response = parsed(tokenizer)
        trainer.train()
        for factory in factories.values():
            factory.close()
    (seen,) = reward.calls
    assert sorted(zip(seen["environment"], seen["rewards"], strict=True)) == [
        ("answer", 0.0),
        ("answer", 1.0),
        ("other", 0.0),
        ("other", 1.0),
    ]
    for text in model.prompts:
        assert ('"name": "write_file"' in text) == (other.task in text)
        assert ('"name": "bash"' in text) == (ENV.task in text)


# AsyncGRPO: touches trl.experimental.async_grpo.async_rollout_worker._AsyncRolloutLoop


@pytest.mark.skipif(VERSION < (1, 16), reason="the rollout loop of this TRL is another one")
def test_async_grpo_asks_each_environment_and_leaves_an_outage_out(tiny_qwen3: str) -> None:
    import accelerate
    import transformers
    from datasets import Dataset

    accelerate.PartialState(cpu=True)  # its log needs one
    worker = pytest.importorskip("trl.experimental.async_grpo.async_rollout_worker")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_qwen3)
    given = make_environment_factory(ENV, dg=DeepGym(provider=failing(LocalProvider())), owns_reward=True)
    factory = pickle.loads(pickle.dumps(given))
    roles = itertools.cycle(["solver", "idler", "outage", "breaker"])
    model = Model(tokenizer, lambda texts: [next(roles) for _ in texts])
    scored: queue.Queue[Any] = queue.Queue()
    loop = worker._AsyncRolloutLoop(
        model_name="tiny",
        dataset=Dataset.from_list([{"prompt": [{"role": "user", "content": "Go."}]}]),
        reward_funcs=[],
        processing_class=tokenizer,
        eos_token_ids=[tokenizer.eos_token_id],
        rollout_buffer=scored,
        model_version_value=types.SimpleNamespace(value=0),
        heartbeat_value=types.SimpleNamespace(value=0.0),
        failed_event=threading.Event(),
        exception_info_queue=queue.Queue(1),
        metrics_queue=queue.Queue(),
        environment_factory=factory,
        num_generations=4,
        max_inflight_tasks=4,
        max_tool_calling_iterations=6,
    )

    async def turn(prompt_ids: list[int]) -> tuple[list[int], list[float]]:
        (ids,), _ = model([prompt_ids])
        return ids, [0.0] * len(ids)

    loop._generate_one_turn = turn
    # What its ``run`` does, without aiohttp's session: no server is asked.
    stop = loop._stop_event

    async def both() -> None:
        await asyncio.gather(loop._generate_loop(stop_event=stop), loop._score_loop(stop_event=stop))

    thread = threading.Thread(target=loop._loop.run_until_complete, args=(both(),), daemon=True)
    thread.start()
    samples = [scored.get(timeout=30) for _ in range(4)]
    loop._loop.call_soon_threadsafe(stop.set)
    thread.join(120)
    assert not thread.is_alive()
    loop._tool_pool.shutdown()
    loop._loop.close()
    factory.close()
    factory.dg.close()
    found = {
        sample.completion[0]["content"] or str(sample.completion[0]["tool_calls"]): sample
        for sample in samples
    }
    by_role = {role: next(found[text] for text in found if mark in text) for role, mark in MARKS.items()}
    rewards = {role: sample.metrics["rewards/deepgym"] for role, sample in by_role.items()}
    assert rewards == pytest.approx(
        {"solver": 1.0, "idler": 0.0, "outage": float("nan"), "breaker": 0.0}, nan_ok=True
    )
    advantages = {role: sample.advantage for role, sample in by_role.items()}
    half = 0.5**0.5
    assert advantages == pytest.approx({"solver": 2 * half, "idler": -half, "outage": 0.0, "breaker": -half})


#: What of a rollout's first message tells its role.
MARKS = {"solver": "ls -A", "idler": "give up", "outage": "make;", "breaker": "break;"}


def test_the_reward_function_tells_async_grpo_users_what_to_do_instead() -> None:
    with pytest.raises(ValueError, match="owns_reward=True"):
        episode_reward()([[]], [""])
