"""What ``deepgym doctor verl CONFIG`` says of a run's settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from deepgym.plugins import Finding
from deepgym_verl import settings, settings_file
from deepgym_verl.settings_file import Settings

pytest.importorskip("yaml", reason="verl brings it")

FUNCTION = "reward.custom_reward_function"
ESTIMATOR = "algorithm.adv_estimator"
LOOP = "actor_rollout_ref.rollout.agent.default_agent_loop"
REFILL = "trainer.v1.sampler.sync_refill_failed_groups"
LOSS = "actor_rollout_ref.actor.loss_agg_mode"
CUT = "actor_rollout_ref.rollout.multi_turn.max_tool_response_length"
RAY = "ray_kwargs.ray_init.num_cpus"
#: Nothing is wrong with these.
GOOD = {
    f"{FUNCTION}.path": "pkg://deepgym_verl.reward",
    f"+{FUNCTION}.reward_kwargs.env": "two_sum",
    LOOP: "deepgym_single_turn",
    ESTIMATOR: "deepgym_grpo",
    REFILL: "True",
    RAY: "32",
}
LEGACY = {**GOOD, "trainer.use_v1": "False"}


@pytest.fixture(autouse=True)
def unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEEPGYM_VERL_PATCH_GRPO", raising=False)


def of(
    folder: Path, changed: dict[str, str | None], base: dict[str, str] | None = None
) -> dict[str, Finding]:
    """Findings by name, for overrides one a line; ``None`` leaves one out."""
    given = {**(GOOD if base is None else base), **changed}
    path = folder / "run.txt"
    path.write_text("".join(f"{key}={value}\n" for key, value in given.items() if value is not None))
    return {finding.name: finding for finding in settings.findings_of(path)}


def said(findings: dict[str, Finding]) -> dict[str, str]:
    return {name: finding.status for name, finding in findings.items()}


def test_settings_with_which_nothing_is_wrong_are_one_line(tmp_path: Path) -> None:
    (finding,) = of(tmp_path, {}).values()
    assert (finding.name, finding.status) == ("run.txt", "ok")
    assert finding.detail == f"v1, sync; {ESTIMATOR}=deepgym_grpo; {LOOP}=deepgym_single_turn"
    (finding,) = of(tmp_path, {}, LEGACY).values()
    assert finding.detail.startswith("legacy; ")


@pytest.mark.parametrize(
    ("changed", "name", "status", "part"),
    [
        (
            {"custom_reward_function.path": "mine.py"},
            "custom_reward_function.path",
            "fail",
            "ignores this key",
        ),
        ({"reward_model.reward_manager": "dapo"}, "reward_model.reward_manager", "fail", "ignores this key"),
        ({"sandbox_fusion.url": "here"}, "sandbox_fusion.url", "fail", "ignores this key"),
        (
            {"reward.reward_manager.name": "rate_limited"},
            "reward.reward_manager.name",
            "fail",
            "reward of 0.0",
        ),
        ({"reward.reward_manager.name": "remote"}, "reward.reward_manager.name", "fail", "no async function"),
        ({f"{FUNCTION}.path": None, LOOP: None}, f"{FUNCTION}.path", "warn", "built-in scorer"),
        ({f"{FUNCTION}.path": "deepgym_verl.reward"}, f"{FUNCTION}.path", "fail", "takes that for a file"),
        (
            {f"{FUNCTION}.path": "/x/deepgym_verl/reward.py"},
            f"{FUNCTION}.path",
            "fail",
            "takes that for a file",
        ),
        ({f"+{FUNCTION}.reward_kwargs.evn": "x"}, f"{FUNCTION}.reward_kwargs", "fail", "did you mean env?"),
        ({f"+{FUNCTION}.reward_kwargs.env": "two_sun"}, f"{FUNCTION}.reward_kwargs", "fail", "two_sum"),
        ({f"+{FUNCTION}.reward_kwargs.deadline": "0"}, f"{FUNCTION}.reward_kwargs", "fail", "above 0"),
        ({REFILL: None}, REFILL, "warn", "isn't replaced"),
        ({REFILL: "false"}, REFILL, "warn", "isn't replaced"),
        ({ESTIMATOR: "grpo"}, ESTIMATOR, "warn", "only judged sample"),
        ({RAY: "10"}, RAY, "warn", "it is 10; the v1 trainer sets 10 aside"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(
    tmp_path: Path, changed: dict[str, str | None], name: str, status: str, part: str
) -> None:
    findings = of(tmp_path, changed)
    assert said(findings) == {name: status}
    assert part in findings[name].detail
    assert findings[name].remedy


@pytest.mark.parametrize(
    ("changed", "name", "status", "part"),
    [
        ({ESTIMATOR: "grpo"}, ESTIMATOR, "fail", "as a 0 in its group's baseline"),
        ({ESTIMATOR: "rloo"}, ESTIMATOR, "fail", "as a 0 in its group's baseline"),
        ({LOOP: None}, LOOP, "warn", "ends at the first sample without a verdict"),
        ({f"+{FUNCTION}.reward_kwargs.lost": "empty"}, f"{FUNCTION}.reward_kwargs.lost", "warn", "only mask"),
        ({LOSS: "seq-mean-token-sum"}, LOSS, "warn", "divides by all sequences"),
    ],
)
def test_what_is_wrong_under_the_legacy_trainer_is_named(
    tmp_path: Path, changed: dict[str, str | None], name: str, status: str, part: str
) -> None:
    findings = of(tmp_path, changed, LEGACY)
    assert said(findings) == {name: status}
    assert part in findings[name].detail


def test_the_legacy_trainer_needs_neither_replacement_nor_processors(tmp_path: Path) -> None:
    assert said(of(tmp_path, {REFILL: None, RAY: "1"}, LEGACY)) == {"run.txt": "ok"}


@pytest.mark.parametrize("estimator", ["gae", "opo", "reinforce_plus_plus", "deepgym_rloo"])
def test_an_estimator_without_a_groups_baseline_needs_no_change(tmp_path: Path, estimator: str) -> None:
    assert said(of(tmp_path, {ESTIMATOR: estimator}, LEGACY)) == {"run.txt": "ok"}


def test_the_patch_of_grpo_is_reckoned_with_and_is_for_grpo_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "DEEPGYM_VERL_PATCH_GRPO=1" in of(tmp_path, {ESTIMATOR: "grpo"}, LEGACY)[ESTIMATOR].remedy
    monkeypatch.setenv("DEEPGYM_VERL_PATCH_GRPO", "1")
    assert said(of(tmp_path, {ESTIMATOR: "grpo"}, LEGACY)) == {"run.txt": "ok"}
    assert said(of(tmp_path, {ESTIMATOR: "grpo"})) == {"run.txt": "ok"}
    assert said(of(tmp_path, {ESTIMATOR: "rloo"}, LEGACY)) == {ESTIMATOR: "fail"}
    assert "DEEPGYM_VERL_PATCH_GRPO" not in of(tmp_path, {ESTIMATOR: "rloo"}, LEGACY)[ESTIMATOR].remedy


@pytest.mark.parametrize(
    ("lost", "mode", "status"),
    [("empty", "sync", "fail"), ("auto", "sync", None), ("empty", "colocate_async", None)],
)
def test_group_filtering_ends_a_sync_run_at_a_group_without_any_row(
    tmp_path: Path, lost: str, mode: str, status: str | None
) -> None:
    key = "algorithm.filter_groups.enable"
    changed = {key: "True", f"+{FUNCTION}.reward_kwargs.lost": lost, "trainer.v1.trainer_mode": mode}
    assert of(tmp_path, changed).get(key, Finding("", "ok", "")).status == (status or "ok")


def test_masking_under_v1_is_as_masking_under_the_legacy_trainer(tmp_path: Path) -> None:
    changed = {ESTIMATOR: "grpo", f"+{FUNCTION}.reward_kwargs.lost": "mask"}
    assert said(of(tmp_path, changed)) == {ESTIMATOR: "fail"}


def test_an_async_mode_needs_no_replacement(tmp_path: Path) -> None:
    assert said(of(tmp_path, {REFILL: None, "trainer.v1.trainer_mode": "colocate_async"})) == {
        "run.txt": "ok"
    }


@pytest.mark.parametrize(
    ("changed", "most"),
    [
        ({LOOP: "deepgym_agent", f"+{FUNCTION}.reward_kwargs.env": None}, 20480),
        ({LOOP: "deepgym_agent", f"+{FUNCTION}.reward_kwargs.env": "[fix_the_program, two_sum]"}, 20480),
        ({f"+{FUNCTION}.reward_kwargs.env": "fix_the_program"}, 20480),
    ],
)
def test_an_agent_whose_tools_are_cut_short_is_a_warning(
    tmp_path: Path, changed: dict[str, str | None], most: int
) -> None:
    findings = of(tmp_path, changed)
    assert said(findings) == {CUT: "warn"}
    assert (
        findings[CUT].detail
        == f"verl cuts what tools show an agent after 256 characters; they can show {most}"
    )
    assert findings[CUT].remedy == f"{CUT}={most}"
    assert said(of(tmp_path, {**changed, CUT: str(most)})) == {"run.txt": "ok"}


def test_without_a_number_ray_counts_this_machines_processors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert "Ray counts 2 here" in of(tmp_path, {RAY: None})[RAY].detail
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert said(of(tmp_path, {RAY: None})) == {"run.txt": "ok"}
    units = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
    assert said(of(tmp_path, {RAY: "4", units: "1"})) == {"run.txt": "ok"}


def test_reward_kwargs_that_are_null_fail_as_they_would_in_verl(tmp_path: Path) -> None:
    changed = {f"+{FUNCTION}.reward_kwargs.env": None, f"{FUNCTION}.reward_kwargs": "null"}
    assert said(of(tmp_path, changed)) == {f"{FUNCTION}.reward_kwargs": "fail"}


def test_somebody_elses_function_and_loop_have_options_of_their_own(tmp_path: Path) -> None:
    theirs = {f"{FUNCTION}.path": "mine.py", LOOP: None, f"+{FUNCTION}.reward_kwargs.anything": "1"}
    assert said(of(tmp_path, {**theirs, f"+{FUNCTION}.reward_kwargs.env": None})) == {"run.txt": "ok"}


def read(folder: Path, name: str, text: str) -> Settings:
    path = folder / name
    path.write_text(text)
    return Settings.read(path)


def test_a_whole_configuration_is_read(tmp_path: Path) -> None:
    text = (
        "trainer: {use_v1: false}\nalgorithm:\n  adv_estimator: rloo\ncustom_reward_function: {path: null}\n"
    )
    found = read(tmp_path, "ppo.yaml", text)
    assert found.get("trainer.use_v1") is False
    assert found.get(ESTIMATOR) == "rloo"
    assert found.get(REFILL) is False, "verl's default"
    assert found.get("custom_reward_function.path") is None
    assert found.has("custom_reward_function.path")
    assert not found.has(f"{FUNCTION}.path")


def test_the_overrides_that_hydra_has_written_down_are_read(tmp_path: Path) -> None:
    found = read(tmp_path, "overrides.yaml", f"- {ESTIMATOR}=grpo\n- +a.b={{c:1}}\n- trainer.use_v1=False\n")
    assert (found.get(ESTIMATOR), found.get("trainer.use_v1")) == ("grpo", False)


def test_a_script_is_read_with_its_variables_quotes_and_comments(tmp_path: Path) -> None:
    script = """\
#!/bin/bash
set -x
export adv=deepgym_grpo
n=8
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=${adv} \\
    'trainer.use_v1=True' \\
    actor_rollout_ref.rollout.n=$n \\
    trainer.v1.trainer_mode=$MODE \\
    +reward.custom_reward_function.reward_kwargs.env="['two_sum', coin_change]" \\
    "+a.b=one two" a.c='{x: 1, y: [2]}' $@
# algorithm.adv_estimator=grpo
echo "it's done
"""
    found = read(tmp_path, "run.sh", script)
    assert found.get(ESTIMATOR) == "deepgym_grpo"
    assert found.get("actor_rollout_ref.rollout.n") == 8
    assert found.get("trainer.use_v1") is True
    assert found.get("trainer.v1.trainer_mode") == "sync", "what isn't known is left at verl's default"
    assert found.get(f"{FUNCTION}.reward_kwargs.env") == ["two_sum", "coin_change"]
    assert (found.get("a.b"), found.get("a.c")) == ("one two", {"x": 1, "y": [2]})
    assert found.get("nothing.of.the.kind") is None


def test_the_last_of_several_overrides_counts_and_a_value_gives_way_to_what_is_below_it(
    tmp_path: Path,
) -> None:
    found = read(tmp_path, "run.txt", "a.b=1\na.b=2\na.b.c=3\nd.e=: : [\nf.g=[x, y] # z\nh.i=1 h.j=2\n")
    assert found.get("a.b.c") == 3
    assert found.get("a.b.c.d") is None
    assert found.get("d.e") == ": : ["
    assert found.get("f.g") == ["x", "y"]
    assert found.get("h") == {"i": 1, "j": 2}


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.yaml", "a: [", "it is no YAML"),
        ("a.yaml", "", "no settings"),
        ("a.yml", "42", "no settings"),
        ("a.sh", "echo hello\nPATH=/x", "no settings"),
        ("a.yaml", "- 1\n- 2\n", "no settings"),
    ],
)
def test_a_file_without_settings_fails_and_says_why(tmp_path: Path, name: str, text: str, why: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    (finding,) = settings.findings_of(path)
    assert (finding.name, finding.status, why in finding.detail) == (name, "fail", True)


def test_a_file_that_cannot_be_read_fails_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_bytes(b"\xff\xfe")
    for name in ("a.sh", "none.yaml"):
        (finding,) = settings.findings_of(tmp_path / name)
        assert (finding.status, "can't be read" in finding.detail) == ("fail", True)


def test_without_pyyaml_the_line_that_installs_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (finding,) = of(tmp_path, {}).values()
    assert (finding.status, "pip install pyyaml" in finding.detail) == ("fail", True)


def test_what_a_recipe_writes_is_as_it_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deepgym_verl import overrides
    from deepgym_verl.recipe import settings as recipe
    from deepgym_verl.spelling import config_file, shell_command

    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    asked: list[dict[str, Any]] = [
        {},
        {"legacy": True},
        {"dapo": True},
        {"function": True},
        {"trainer_mode": "colocate_async"},
        {"env": "fix_the_program"},
    ]
    for given in asked:
        env = given.pop("env", "two_sum")
        (tmp_path / "run.sh").write_text(shell_command(overrides(env, **given)))
        (tmp_path / "run.yaml").write_text(config_file(recipe(env, **given)))
        for name in ("run.sh", "run.yaml"):
            findings = settings.findings_of(tmp_path / name)
            assert [finding for finding in findings if finding.status != "ok"] == [], given


def test_every_default_is_one_of_something_looked_at() -> None:
    source = Path(settings.__file__).read_text()
    for key in settings_file._DEFAULTS:
        assert key in source, key
