"""OpenRLHF's own code from responses to gradients: what a sample without a verdict, and its siblings, feel.

Two prompts of four samples. Of the first, three are judged (0, 1, 0) and the last is lost; of the second all are
(1, 1, 0, 0). Every response has ten tokens.
"""

from __future__ import annotations

import asyncio
import importlib.util
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import deepgym_openrlhf
from deepgym import AsyncDeepGym
from deepgym.contract.evidence import Phase
from deepgym.environments import Case, Cases, Environment
from deepgym.integrations.labels import Labels
from deepgym.testing import Fault, FaultyProvider
from deepgym.testing.fakes import FakeProvider
from deepgym_openrlhf.reward_file import Judge
from deepgym_openrlhf.settings import Settings

SHIMS = Path(__file__).with_name("shims")
FILE = Path(deepgym_openrlhf.__file__).with_name("agent.py")
NEEDED = ("openrlhf", "torch", "transformers", "ray", "deepspeed")
if any(importlib.util.find_spec(name) is None for name in NEEDED):
    pytest.skip("OpenRLHF's trainer isn't installed", allow_module_level=True)

ENV = Environment(
    name="double", task="Write it.", verify=Cases(function="double", cases=(Case(args=(3,), expected=6),))
)
RIGHT, WRONG, LOST = "right  = 1", "wrong  = 1", "lost   = 1"
LONG = "right  = 1  # " + "x" * 26
FIRST, SECOND = [WRONG, RIGHT, WRONG, LOST], [RIGHT, RIGHT, WRONG, WRONG]
TOKENS = 10
THIRD = 1 / 3

#: Estimator and mode: the advantages of the first prompt's samples, the lost one's last.
ADVANTAGES = {
    # What three samples alone, all of them judged, would feel: -1/3, 2/3, -1/3.
    ("dr_grpo", "number"): (-0.25, 0.75, -0.25, -0.25),
    ("dr_grpo", "group_mean"): (-THIRD, 2 * THIRD, -THIRD, 0.0),
    ("dr_grpo", "agent"): (-THIRD, 2 * THIRD, -THIRD, 0.0),
    # -1/2, 1, -1/2
    ("rloo", "number"): (-THIRD, 1.0, -THIRD, -THIRD),
    ("rloo", "group_mean"): (-4 / 9, 8 / 9, -4 / 9, 0.0),
    ("rloo", "agent"): (-4 / 9, 8 / 9, -4 / 9, 0.0),
    # -0.577, 1.155, -0.577
    ("group_norm", "number"): (-0.5, 1.5, -0.5, -0.5),
    ("group_norm", "group_mean"): (-0.7071, 1.4142, -0.7071, 0.0),
    ("group_norm", "agent"): (-0.7071, 1.4142, -0.7071, 0.0),
    # Divided by the deviation of the whole batch's advantages.
    ("reinforce_baseline", "number"): (-0.5345, 1.6036, -0.5345, -0.5345),
    ("reinforce_baseline", "group_mean"): (-0.7303, 1.4606, -0.7303, 0.0),
    ("reinforce_baseline", "agent"): (-0.6880, 1.3760, -0.6880, 0.0),
    # No group's baseline, so the siblings' mean isn't neutral: of the policy's tokens it moves all, or one.
    ("reinforce", "number"): (-0.7746, 1.2910, -0.7746, -0.7746),
    ("reinforce", "group_mean"): (-0.8981, 1.2573, -0.8981, -0.1796),
    ("reinforce", "agent"): (-0.8692, 1.1653, -0.8692, -0.1910),
    ("gae", "number"): (-0.7746, 1.2910, -0.7746, -0.7746),
    ("gae", "group_mean"): (-0.8981, 1.2573, -0.8981, -0.1796),
    ("gae", "agent"): (-0.8692, 1.1653, -0.8692, -0.1910),
    ("flash_reinforce", "number"): (-0.375, 0.625, -0.375, -0.375),
    ("flash_reinforce", "group_mean"): (-0.4167, 0.5833, -0.4167, -0.0833),
    ("flash_reinforce", "agent"): (-0.4167, 0.5833, -0.4167, -0.0833),
}
ESTIMATORS = list(dict.fromkeys(estimator for estimator, _ in ADVANTAGES))
GROUPED = ["dr_grpo", "rloo", "group_norm"]


@dataclass
class Theirs:
    """The parts of OpenRLHF that turn responses into gradients."""

    torch: Any
    executor: Any
    generator: ModuleType
    maker: Any
    experience: Any
    loss: Any
    agent: Any


@pytest.fixture(scope="module")
def theirs() -> Iterator[Theirs]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(SHIMS))
    patch.setenv("DS_ACCELERATOR", "cpu")
    if getattr(sys.modules.get("openrlhf.utils"), "__file__", None) is None:
        # Other tests load OpenRLHF's client without the rest of it.
        for name in [name for name in sys.modules if name.split(".")[:2] == ["openrlhf", "utils"]]:
            del sys.modules[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import openrlhf.trainer.ppo_utils.samples_generator as generator
        import torch
        from openrlhf.models.loss import PolicyLoss
        from openrlhf.trainer.ppo_utils.experience import Experience
        from openrlhf.trainer.ppo_utils.experience_maker import RemoteExperienceMaker
        from openrlhf.utils.agent import SingleTurnAgentExecutor
    spec = importlib.util.spec_from_file_location("agent_module", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield Theirs(
        torch,
        SingleTurnAgentExecutor,
        generator,
        RemoteExperienceMaker,
        Experience,
        PolicyLoss(),
        module.AgentExecutor,
    )
    patch.undo()
    for name in [name for name in sys.modules if name.split(".")[0] in ("flash_attn", "vllm")]:
        del sys.modules[name]


class Tokenizer:
    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        return {"input_ids": self.torch.tensor([[ord(char) for char in text]])}

    def decode(self, tokens: Sequence[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, tokens))


class Engine:
    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = list(answers)

    async def generate(self, tokens: list[int], params: Any, **_: Any) -> SimpleNamespace:
        ids = [ord(char) for char in self.answers.pop(0)]
        output = SimpleNamespace(token_ids=ids, text="", finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[output])


def client() -> AsyncDeepGym:
    script = {RIGHT: lambda x: 2 * x, LONG: lambda x: 2 * x, WRONG: lambda x: x, LOST: lambda x: 2 * x}
    fault = Fault("provider", Phase.OPENED)
    return AsyncDeepGym(provider=FaultyProvider(FakeProvider(script), fault, answers=[LOST]))


def responses(theirs: Theirs, mode: str, *groups: Sequence[str]) -> list[list[dict[str, Any]]]:
    """What OpenRLHF's executor gives back for each group: by the agent file, or by what an endpoint answers too."""
    judge = None
    if mode == "agent":
        executor = theirs.agent(ENV, client())
    else:
        score = 0.0 if mode == "number" else mode
        judge = Judge(Settings(labels=Labels(ENV), failure=score), client())  # type: ignore[arg-type]
        executor = theirs.executor()
        executor.reward_endpoints = ["a file"]
        executor.reward_func = judge.answer

    async def run() -> list[list[dict[str, Any]]]:
        found = []
        for number, answers in enumerate(groups):
            params, engine = SimpleNamespace(max_tokens=64, logprobs=None), Engine(answers)
            begun = [
                executor.execute(f"prompt {number}: ", None, params, 256, Tokenizer(theirs.torch), engine)
                for _ in answers
            ]
            # An endpoint without group_size waits for siblings that are there; here the judged ones are first.
            found.append(
                list(await asyncio.gather(*begun)) if mode == "agent" else [await one for one in begun]
            )
        return found

    try:
        return asyncio.run(run())
    finally:
        if judge is not None:
            judge.close()


@dataclass
class Felt:
    advantages: list[list[float]]
    """Of each sample's tokens that are trained on."""
    gradients: list[float]
    """How much each sample moves the policy: the sum over its tokens' log-probabilities."""
    loss: float


def felt(theirs: Theirs, found: Sequence[dict[str, Any]], estimator: str, size: int = 4) -> Felt:
    torch = theirs.torch
    generator = theirs.generator.SamplesGenerator.__new__(theirs.generator.SamplesGenerator)
    experiences = [generator._process_response_into_experience(one, max_len=256) for one in found]
    for index, experience in enumerate(experiences):
        experience.index = [index]
    batch = theirs.experience.concat_experiences(experiences, 0)
    batch.kl = torch.zeros_like(batch.action_mask, dtype=torch.float)
    batch.values = torch.zeros_like(batch.kl)
    args = SimpleNamespace(
        rollout=SimpleNamespace(n_samples_per_prompt=size, max_new_tokens=64),
        algo=SimpleNamespace(
            advantage=SimpleNamespace(estimator=estimator, gamma=1.0, lambd=1.0, no_std_norm=False)
        ),
        reward=SimpleNamespace(
            clip_range=(-10, 10),
            overlong_buffer_len=None,
            overlong_penalty_factor=1.0,
            stop_properly_penalty_coef=None,
        ),
    )
    maker = theirs.maker.__new__(theirs.maker)
    maker.args, maker.strategy, maker.kl_ctl = args, SimpleNamespace(args=args), SimpleNamespace(value=0.0)
    maker.advantage_estimator = estimator
    (batch,) = maker.compute_advantages_and_returns([batch])
    mask = batch.action_mask.bool()
    log_probs = torch.zeros_like(batch.advantages, requires_grad=True)
    loss = theirs.loss(
        log_probs, torch.zeros_like(log_probs), batch.advantages, action_mask=batch.action_mask
    )[0]
    loss.backward()
    return Felt(
        [row[kept].tolist() for row, kept in zip(batch.advantages, mask, strict=True)],
        log_probs.grad.abs().sum(-1).tolist(),
        loss.item(),
    )


@pytest.mark.parametrize(("estimator", "mode"), ADVANTAGES)
def test_each_estimator_s_advantages_are_those_of_the_table(
    theirs: Theirs, estimator: str, mode: str
) -> None:
    first, second = responses(theirs, mode, FIRST, SECOND)
    found = felt(theirs, first + second, estimator)
    assert [len(tokens) for tokens in found.advantages] == [TOKENS] * 3 + [
        1 if mode == "agent" else TOKENS
    ] + [TOKENS] * 4
    assert [tokens[0] for tokens in found.advantages[:4]] == pytest.approx(
        ADVANTAGES[estimator, mode], abs=1e-4
    )
    assert all(len(set(tokens)) == 1 for tokens in found.advantages)
    # An advantage's share of the gradient grows with the tokens that have it.
    tokens = sum(len(tokens) for tokens in found.advantages)
    expected = [sum(map(abs, advantages)) / tokens for advantages in found.advantages]
    assert found.gradients == pytest.approx(expected, abs=1e-5)
    assert math.isfinite(found.loss)


@pytest.mark.parametrize("estimator", GROUPED)
@pytest.mark.parametrize("mode", ["group_mean", "agent"])
def test_with_a_group_s_baseline_the_sample_moves_nothing_and_its_siblings_keep_their_proportions(
    theirs: Theirs, estimator: str, mode: str
) -> None:
    first, second = responses(theirs, mode, FIRST, SECOND)
    found = felt(theirs, first + second, estimator)
    assert found.gradients[3] < 1e-7
    (alone,) = responses(theirs, mode, FIRST[:3])
    judged = [tokens[0] for tokens in felt(theirs, alone, estimator, 3).advantages]
    scale = {"dr_grpo": 1.0, "rloo": 8 / 9, "group_norm": math.sqrt(3 / 2)}[estimator]
    assert [tokens[0] for tokens in found.advantages[:3]] == pytest.approx(
        [scale * one for one in judged], abs=1e-4
    )


def test_with_a_batch_s_baseline_the_agent_file_leaves_a_tenth_of_the_push(theirs: Theirs) -> None:
    pushes = {}
    for mode in ("number", "group_mean", "agent"):
        first, second = responses(theirs, mode, FIRST, SECOND)
        pushes[mode] = felt(theirs, first + second, "reinforce").gradients[3]
    assert pushes["number"] == pytest.approx(0.0968, abs=1e-4)
    assert pushes["group_mean"] == pytest.approx(0.0225, abs=1e-4)
    assert pushes["agent"] == pytest.approx(0.0027, abs=1e-4)


def test_reinforce_baseline_centres_over_tokens_so_long_answers_move_what_was_neutral(theirs: Theirs) -> None:
    # OpenRLHF takes the mean over all tokens of the batch off: 0.75 of 40 tokens and -0.25 of 30 aren't 0.
    found = {}
    for mode in ("number", "group_mean", "agent"):
        first, second = responses(theirs, mode, FIRST, [LONG, WRONG, WRONG, WRONG])
        found[mode] = felt(theirs, first + second, "reinforce_baseline")
    advantages = {mode: one.advantages[3][0] for mode, one in found.items()}
    assert advantages == pytest.approx({"number": -0.9129, "group_mean": -0.4172, "agent": -0.4388}, abs=1e-4)
    pushes = {mode: one.gradients[3] for mode, one in found.items()}
    assert pushes == pytest.approx({"number": 0.0830, "group_mean": 0.0379, "agent": 0.0043}, abs=1e-4)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_group_without_any_verdict_trains_nothing_with_the_agent_file_and_a_group_s_baseline(
    theirs: Theirs, estimator: str
) -> None:
    second, lost = responses(theirs, "agent", SECOND, [LOST] * 4)
    found = felt(theirs, second + lost, estimator)
    # Its reward is the mean of what was judged last, which here is the batch's mean too.
    assert found.gradients[4:] == pytest.approx([0.0] * 4, abs=1e-6)
    assert all(math.isfinite(gradient) for gradient in found.gradients)
    # Even where an optimizer's step sees no other sample.
    if estimator in GROUPED:
        alone = felt(theirs, lost, estimator)
        assert (alone.loss, alone.gradients) == (0.0, [0.0] * 4)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_not_a_number_spoils_its_group_and_with_a_batch_s_statistics_all_groups(
    theirs: Theirs, estimator: str
) -> None:
    first, second = responses(theirs, "unsafe_nan", FIRST, SECOND)
    found = felt(theirs, first + second, estimator)
    spoilt = [math.isnan(tokens[0]) for tokens in found.advantages]
    assert spoilt == [True] * 4 + [estimator not in GROUPED] * 4
    assert math.isnan(found.loss)


@pytest.mark.parametrize("mode", ["drop_group", "agent"])
def test_dynamic_filtering_drops_the_group_of_drop_group_and_samples_another(
    theirs: Theirs, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = responses(theirs, mode, FIRST, SECOND, SECOND)
    generator = theirs.generator.SamplesGenerator.__new__(theirs.generator.SamplesGenerator)
    generator.args = SimpleNamespace(algo=SimpleNamespace(dynamic_filtering_range=(0.0, 1.0)))
    monkeypatch.setattr(
        generator,
        "_dispatch_prompts_to_vllm",
        lambda prompts, labels, **_: [groups[int(name)] for name in prompts],
    )
    ray = SimpleNamespace(wait=lambda refs, **_: (refs[:1], refs[1:]), get=lambda ref: ref)
    monkeypatch.setattr(theirs.generator, "ray", ray)
    prompts = iter([(None, [str(number)], [None], [None]) for number in range(3)])
    kept, consumed, _ = generator._generate_vllm(prompts, 2, True, max_len=256)
    dropped = mode == "drop_group"
    assert consumed == (3 if dropped else 2)
    logs = [experience.info["no_verdict"].item() for experience in kept]
    assert logs == ([0.0] * 8 if dropped else [0.0, 0.0, 0.0, 1.0] + [0.0] * 4)


def test_without_filtering_drop_group_is_felt_as_group_mean(theirs: Theirs) -> None:
    for estimator in GROUPED:
        first, second = responses(theirs, "drop_group", FIRST, SECOND)
        found = felt(theirs, first + second, estimator)
        expected = ADVANTAGES[estimator, "group_mean"]
        assert [tokens[0] for tokens in found.advantages[:4]] == pytest.approx(expected, abs=1e-4)


def test_a_penalty_for_length_passes_the_sample_by_that_was_left_out(theirs: Theirs) -> None:
    (found,) = responses(theirs, "agent", FIRST)
    generator = theirs.generator.SamplesGenerator.__new__(theirs.generator.SamplesGenerator)
    lost = generator._process_response_into_experience(found[3], max_len=256)
    assert (lost.response_length.item(), lost.truncated.item()) == (1, False)
    assert generator._process_response_into_experience(found[0], max_len=256).response_length.item() == TOKENS
