"""What a recipe says for each kind of run, and which settings don't go together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from deepgym import load_environment
from deepgym.environments import list_multi_turn_environments, load_multi_turn_environment
from deepgym.exceptions import DeepGymError, UnknownNameError
from deepgym_verl import overrides
from deepgym_verl.options import OptionsError
from deepgym_verl.plugin import LOOPS
from deepgym_verl.recipe import RecipeError, settings
from deepgym_verl.rows import RowsError, verl_rows
from deepgym_verl.spelling import override

ROLLOUT = "actor_rollout_ref.rollout"
TURNS = f"{ROLLOUT}.multi_turn"
LOOP = f"{ROLLOUT}.agent.default_agent_loop"
KWARGS = "+reward.custom_reward_function.reward_kwargs"


def test_the_shortest_recipe_is_the_estimator_the_loop_the_function_and_the_trainer() -> None:
    assert settings() == {
        "algorithm.adv_estimator": "deepgym_grpo",
        f"{ROLLOUT}.n": 8,
        LOOP: "deepgym_single_turn",
        "reward.custom_reward_function.path": "pkg://deepgym_verl.reward",
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.v1.sampler.sync_refill_failed_groups": True,
    }
    assert overrides() == [f"{key}={value}" for key, value in settings().items()]


def test_the_loops_that_a_recipe_names_are_ours() -> None:
    assert {settings("two_sum")[LOOP], settings("fix_the_program")[LOOP]} == set(LOOPS)


def test_an_agents_turns_and_tools_fit_its_environments() -> None:
    limits = load_multi_turn_environment("fix_the_program").limits
    found = settings("fix_the_program")
    assert found[LOOP] == "deepgym_agent"
    assert {key: found[key] for key in found if key.startswith(TURNS)} == {
        f"{TURNS}.enable": True,
        f"{TURNS}.format": "hermes",
        f"{TURNS}.max_assistant_turns": limits.steps + 1,
        f"{TURNS}.max_tool_response_length": limits.output + 4096,
    }


def test_the_largest_limits_of_several_environments_count() -> None:
    small = load_multi_turn_environment("fix_the_program").limits
    most = [load_multi_turn_environment(name).limits for name in list_multi_turn_environments()]
    found = settings(list_multi_turn_environments())
    assert found == {**found, **{key: value for key, value in settings(agent=True).items() if key != LOOP}}
    assert found[f"{TURNS}.max_assistant_turns"] == 1 + max(each.steps for each in most) >= 1 + small.steps
    assert found[f"{TURNS}.max_tool_response_length"] == 4096 + max(each.output for each in most)


def test_where_not_all_rows_are_for_agents_each_row_names_its_loop() -> None:
    mixed = ["two_sum", "fix_the_program"]
    assert settings(mixed)[LOOP] == settings(agent=True)[LOOP] == "deepgym_single_turn"
    assert settings(mixed)[f"{TURNS}.enable"] is True
    assert [row["agent_name"] for row in verl_rows(mixed)] == list(LOOPS)


def test_the_legacy_trainer_gets_a_loop_that_masks() -> None:
    found = settings("two_sum", legacy=True, lost="mask")
    assert found["trainer.use_v1"] is False
    assert found[LOOP] == "deepgym_single_turn"
    assert not [key for key in found if key.startswith("trainer.v1")]


@pytest.mark.parametrize("mode", ["colocate_async", "separate_async"])
def test_only_a_sync_run_has_to_be_told_to_replace_groups(mode: Any) -> None:
    found = settings("two_sum", trainer_mode=mode)
    assert found["trainer.v1.trainer_mode"] == mode
    assert "trainer.v1.sampler.sync_refill_failed_groups" not in found


def test_dapo_clips_higher_and_filters_groups() -> None:
    added = {**settings("two_sum", dapo=True)}
    for key in settings("two_sum"):
        del added[key]
    assert added == {
        "actor_rollout_ref.actor.clip_ratio_low": 0.2,
        "actor_rollout_ref.actor.clip_ratio_high": 0.28,
        "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": "acc",
    }


def test_the_metric_of_dapo_is_one_that_every_sample_has() -> None:
    from deepgym_verl.info import KEYS
    from deepgym_verl.recipe import _METRICS

    # verl itself knows "reward".
    assert set(_METRICS) - {"reward"} < set(KEYS)
    assert settings("two_sum", dapo=True, metric="score")["algorithm.filter_groups.metric"] == "score"
    with pytest.raises(RecipeError, match="metric='accuracy': one of acc, score, reward"):
        settings("two_sum", dapo=True, metric="accuracy")


def test_the_overlong_penalty_is_for_the_function_so_no_loop_is_named() -> None:
    found = settings("two_sum", overlong=512, response_length=4096)
    assert LOOP not in found
    assert found["reward.reward_manager.name"] == "dapo"
    assert found["+reward.reward_kwargs.max_resp_len"] == found["data.max_response_length"] == 4096
    assert found["+reward.reward_kwargs.overlong_buffer_cfg.len"] == 512


def test_the_function_alone_grades_where_no_loop_is_named() -> None:
    assert LOOP not in settings("two_sum", function=True)


def test_the_options_that_are_given_are_said_and_no_others() -> None:
    found = settings("two_sum", mode="docker", lost="empty", deadline=600, max_parallel=2, max_sessions=3)
    assert {key.rpartition(".")[2]: found[key] for key in found if key.startswith(KWARGS)} == {
        "env": ["two_sum"],
        "mode": "docker",
        "lost": "empty",
        "deadline": 600,
        "max_parallel": 2,
        "max_sessions": 3,
    }
    assert [key for key in settings("two_sum", lost=None) if key.startswith(KWARGS)] == [f"{KWARGS}.env"]


def test_with_a_model_the_rest_of_a_first_run_is_said_too() -> None:
    added = {**settings("two_sum", model="Qwen/Qwen3-0.6B", gpus=2, batch=16)}
    for key in settings("two_sum"):
        del added[key]
    assert added == {
        "data.train_batch_size": 16,
        "actor_rollout_ref.model.path": "Qwen/Qwen3-0.6B",
        "actor_rollout_ref.actor.ppo_mini_batch_size": 16,
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.tensor_model_parallel_size": 1,
        "trainer.n_gpus_per_node": 2,
        "trainer.logger": ["console"],
    }


def test_paths_are_said_from_the_root_and_names_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "number"
    folder.mkdir()
    (folder / "environment.toml").write_text(
        'name = "number"\ntask = "Print 42."\n'
        '[verify]\nkind = "cases"\n[[verify.cases]]\nstdin = ""\nstdout = "42"\n'
    )
    (tmp_path / "two_sum").mkdir()
    found = settings(["./number", "coin_change"], train="a.parquet")
    assert found[f"{KWARGS}.env"] == [str(folder), "coin_change"]
    assert settings(Path("number/environment.toml"))[f"{KWARGS}.env"] == [str(folder / "environment.toml")]
    assert settings("two_sum")[f"{KWARGS}.env"] == ["two_sum"]
    assert found["data.train_files"] == [str(tmp_path / "a.parquet")]
    files = settings(train=["~/a.parquet", "hdfs://host/a.parquet"])["data.train_files"]
    assert files == [os.path.expanduser("~/a.parquet"), "hdfs://host/a.parquet"]


@pytest.mark.parametrize(
    ("env", "given", "said"),
    [
        ("two_sum", {"modus": "local"}, "'modus' is no setting; they are train, val, n, model"),
        ("two_sum", {"n": 0}, "n=0: at least 1"),
        ("two_sum", {"n": 1}, "n=1: with deepgym_grpo a prompt's only sample teaches nothing"),
        ("two_sum", {"batch": 0}, "batch=0: at least 1"),
        ("two_sum", {"trainer_mode": "async"}, "trainer_mode='async': one of sync, colocate_async"),
        ("two_sum", {"legacy": True, "dapo": True}, r"has no group filtering \(dapo\)"),
        ("two_sum", {"legacy": True, "trainer_mode": "colocate_async"}, "has no mode colocate_async"),
        ("two_sum", {"legacy": True, "lost": "raise"}, "lost=raise: under verl's legacy trainer"),
        ("two_sum", {"legacy": True, "lost": "empty"}, "lost=empty: under verl's legacy trainer"),
        ("two_sum", {"dapo": True, "lost": "empty"}, "lost=empty: with dapo a group without any row ends"),
        ("two_sum", {"overlong": 512}, "overlong=512 needs a response_length that is above it"),
        ("two_sum", {"overlong": 512, "response_length": 512}, "overlong=512 needs a response_length"),
        ("fix_the_program", {"function": True}, "an agent's work isn't one"),
        ("fix_the_program", {"overlong": 5, "response_length": 9}, "overlong: .* an agent's work isn't one"),
        ("two_sum", {"function": True, "legacy": True}, "the legacy trainer ends at the first run without"),
        ("two_sum", {"function": True, "lost": "mask"}, "lost=mask is for agent loops"),
        ("two_sum", {"agent": True}, "agent=True: of the environments none is for an agent"),
        ("fix_the_program", {"agent": False}, "agent=False: of the environments there are some for an agent"),
        (load_environment("two_sum"), {}, "a configuration holds names and paths, not Environment"),
        ("two_sum", {"lost": "drop"}, "lost='drop': one of auto, raise, empty, mask"),
        ("two_sum", {"deadline": -1}, "deadline=-1: a number of seconds above 0"),
        ("two_sum", {"deadline": 1}, "give a longer deadline or lower the limit"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_with_what_would(
    env: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionsError, match=said):
        overrides(env, **given)


def test_lost_empty_is_refused_only_where_it_ends_the_run() -> None:
    assert settings("two_sum", dapo=True, lost="empty", trainer_mode="colocate_async")
    assert settings("two_sum", lost="empty")
    assert settings("two_sum", n=1, estimator="reinforce_plus_plus")[f"{ROLLOUT}.n"] == 1


def test_an_unknown_environment_and_one_that_is_named_twice_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="two_sum"):
        overrides("two_sums")
    with pytest.raises(RowsError, match="two environments are named 'two_sum'"):
        overrides(["easy", "two_sum"])


def test_a_text_that_hydra_would_resolve_is_refused() -> None:
    with pytest.raises(DeepGymError, match=r"Hydra would take \$\{\.\.\.\} for a reference"):
        override("a", ["x${b}"])


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("pkg://deepgym_verl.reward", "a=pkg://deepgym_verl.reward"),
        ("/a b/c", "a='/a b/c'"),
        ("it's", "a='it\\'s'"),
        ("a\\", "a='a\\\\'"),
        ("null", "a='null'"),
        ("", "a=''"),
        (["x", "y,z"], "a=[x,'y,z']"),
        (True, "a=True"),
        (0.28, "a=0.28"),
    ],
)
def test_a_value_is_quoted_for_hydra_only_where_it_must_be(value: Any, written: str) -> None:
    assert override("a", value) == written
