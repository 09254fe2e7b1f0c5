"""verl's own configuration takes every setting of a recipe, in each of the forms, and reads it back."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from deepgym_verl.recipe import overrides, settings
from deepgym_verl.spelling import COMMAND, config_file, override, shell_command

#: Every setting that there is, in three runs and more.
RUNS: dict[str, dict[str, Any]] = {
    "grpo": {"env": "easy", "train": "train.parquet", "val": "val.parquet", "model": "Qwen/Qwen3-0.6B"},
    "dapo": {"env": "easy", "model": "m", "dapo": True, "metric": "score", "gpus": 2, "batch": 16, "n": 16},
    "agent": {
        "env": ["easy", "fix_the_program"],
        "model": "m",
        "max_sessions": 4,
        "tool_format": "qwen3_coder",
    },
    "agents": {"agent": True, "prompt_length": 2048, "response_length": 8192},
    "legacy": {"env": "two_sum", "legacy": True, "estimator": "deepgym_rloo"},
    "async": {"env": "two_sum", "trainer_mode": "colocate_async", "lost": "raise", "deadline": 600.5},
    "masked": {"env": "two_sum", "lost": "mask", "mode": "docker", "max_parallel": 3},
    "function": {"env": ["two_sum"], "function": True},
    "overlong": {"env": "hard", "overlong": 512, "response_length": 4096, "dapo": True},
}
EVERY = pytest.mark.parametrize("run", RUNS.values(), ids=list(RUNS))
#: Texts that mean something to Hydra, to YAML or to a shell.
ODD = [
    "a b.parquet",
    "it's.parquet",
    "two''quotes",
    'say "so"',
    "back\\slash",
    "end\\",
    "\\'",
    "a,b",
    "[a]",
    "{a: b}",
    "a=b",
    "null",
    "True",
    "no",
    "1e3",
    "1_000",
    "~/here",
    "#x",
    "a: b",
    "$HOME",
    "`id`",
    "été",
    "",
    " ",
    "pkg://deepgym_verl.reward",
    "/a/b-c_d.e",
]


def composed(given: list[str]) -> Any:
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=given)


def read(config: Any, wanted: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: OmegaConf.select(config, key.lstrip("+"), throw_on_missing=True) for key in wanted}
    return {
        key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
        for key, value in found.items()
    }


@EVERY
def test_verls_configuration_takes_each_override_and_has_its_value(run: dict[str, Any]) -> None:
    wanted = settings(**run)
    assert len(wanted) > 5
    assert read(composed(overrides(**run)), wanted) == wanted


@EVERY
def test_a_key_has_a_plus_only_where_verl_does_not_have_it(run: dict[str, Any]) -> None:
    plain = composed([])
    for key in settings(**run):
        above, _, name = key.lstrip("+").rpartition(".")
        # A key whose value must be given is one too, though it isn't "in".
        known = list((OmegaConf.select(plain, above) or {}).keys())
        assert (name not in known) == key.startswith("+"), key


@EVERY
def test_a_shell_gives_verl_the_same_overrides(run: dict[str, Any]) -> None:
    script = f"python() {{ printf '%s\\0' \"$@\"; }}\n{shell_command(overrides(**run))}\n"
    said = subprocess.run(["bash", "-euc", script], check=True, capture_output=True, text=True).stdout
    assert said.split("\0")[:-1] == [*COMMAND.split()[1:], *overrides(**run)]


@EVERY
def test_the_configuration_file_says_the_same_as_the_overrides(run: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(config_file(settings(**run)), encoding="utf-8")
    with initialize_config_dir(str(tmp_path), version_base=None):
        found = compose("mine")
    assert OmegaConf.to_container(found) == OmegaConf.to_container(composed(overrides(**run)))


@EVERY
def test_the_doctor_finds_nothing_to_mend_in_any_form(run: dict[str, Any], tmp_path: Path) -> None:
    from deepgym_verl.settings import findings_of

    forms = [config_file(settings(**run)), shell_command(overrides(**run)), "\n".join(overrides(**run))]
    for number, text in enumerate(forms):
        path = tmp_path / f"{number}.{'txt' if number else 'yaml'}"
        path.write_text(text, encoding="utf-8")
        found = findings_of(path)
        # How many cores a machine has is none of a recipe's.
        wrong = [each for each in found if each.status != "ok" and "num_cpus" not in each.name]
        assert found
        assert wrong == []


@pytest.mark.parametrize("text", ODD)
def test_a_text_arrives_as_it_is_whatever_is_in_it(text: str, tmp_path: Path) -> None:
    parser = OverridesParser.create()
    assert parser.parse_override(override("a.b", text)).value() == text
    assert parser.parse_override(override("a.b", [text, "x", text])).value() == [text, "x", text]
    path = tmp_path / "odd.yaml"
    path.write_text(config_file({"+a.b": [text], "+a.c": text}), encoding="utf-8")
    found = OmegaConf.load(path)
    assert [found.a.b, found.a.c] == [[text], text]


@pytest.mark.parametrize("name", ["grpo", "dapo", "agent"])
def test_with_a_model_a_run_passes_verls_own_checks(name: str) -> None:
    from verl.utils.config import validate_config

    config = composed(overrides(**RUNS[name]))
    assert config.actor_rollout_ref.rollout.multi_turn.enable is (name == "agent")
    validate_config(config, use_reference_policy=False, use_critic=False)


def test_the_estimators_of_a_recipe_are_known_to_verl() -> None:
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    from deepgym_verl.recipe import _ESTIMATORS

    assert len(_ESTIMATORS) == 2
    for name in _ESTIMATORS:
        assert (
            get_adv_estimator_fn(composed(overrides(estimator=name)).algorithm.adv_estimator).__name__ == name
        )


def test_the_options_arrive_at_the_function_and_at_the_loops() -> None:
    from verl.trainer.ppo.reward import get_custom_reward_fn

    from deepgym_verl.loops import judge_of

    config = composed(overrides("two_sum", deadline=600, lost="mask", max_parallel=2))
    function = get_custom_reward_fn(config)
    assert function is not None
    assert (function.args[0].__module__, function.args[0].__name__) == (
        "deepgym_verl.reward",
        "compute_score",
    )
    assert function.args[1] == {"env": ["two_sum"], "deadline": 600, "lost": "mask", "max_parallel": 2}
    options = judge_of(config, {}).options
    assert (options.env, options.deadline, options.lost, options.max_parallel) == (
        ("two_sum",),
        600.0,
        "mask",
        2,
    )


@pytest.mark.parametrize(("tokens", "penalty"), [(10, 0.0), (90, 0.0), (95, -0.5), (100, -1.0)])
def test_verls_own_manager_takes_the_overlong_penalty_off_what_the_function_returns(
    tokens: int, penalty: float
) -> None:
    from verl.experimental.reward_loop.reward_manager.dapo import DAPORewardManager

    config = composed(overrides("two_sum", overlong=10, response_length=100))
    assert config.reward.reward_manager.name == "dapo"
    answer = asyncio.run(_graded(DAPORewardManager, config, tokens))
    assert float(answer["reward_score"]) == pytest.approx(0.25 + penalty)
    assert answer["reward_extra_info"] == {"score": 0.25}


async def _graded(manager: Any, config: Any, tokens: int) -> dict[str, Any]:
    import torch

    from verl import DataProto

    async def compute_score(**row: Any) -> dict[str, float]:
        assert row["solution_str"] == "said"
        return {"score": 0.25}

    mask = torch.tensor([[1] * tokens + [0] * (100 - tokens)])
    data = DataProto.from_dict(
        tensors={"responses": torch.ones(1, 100, dtype=torch.long), "attention_mask": mask},
        non_tensors={
            "data_source": ["deepgym/two_sum"],
            "reward_model": [{"ground_truth": "two_sum"}],
            "extra_info": [{"env": "two_sum"}],
        },
    )
    words = SimpleNamespace(decode=lambda ids, skip_special_tokens: "said")
    found: dict[str, Any] = await manager(config, words, compute_score).run_single(data)
    return json.loads(json.dumps(found, default=float))
