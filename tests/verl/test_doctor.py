"""``deepgym doctor verl`` beside a real verl, and beside one that a module of verl's own kind has changed."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

import pytest

from deepgym.plugins import Finding
from deepgym_verl import check, settings
from deepgym_verl.check import findings

pytestmark = [pytest.mark.local_sandbox]

#: verl imports it last: what it changes is as if it were verl's.
CHANGED = "changed_verl"


def troubles(found: list[Finding]) -> dict[str, str]:
    return {one.name: f"{one.status}: {one.detail}" for one in found if one.status != "ok"}


def few(found: dict[str, str]) -> dict[str, str]:
    """``found`` without what this machine's processors are to blame for."""
    return {name: said for name, said in found.items() if name != "Ray's processors"}


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A module that verl imports in the probe's process: what is written into it is done there."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", CHANGED)
    return tmp_path / f"{CHANGED}.py"


def test_the_installed_verl_leaves_out_what_has_no_verdict() -> None:
    found = {finding.name: finding for finding in findings()}
    assert few(troubles(list(found.values()))) == {}
    assert found["verl"].detail == f"{version('verl')} (>=0.9,<0.10)"
    for name in (
        "compute_score",
        "deepgym_single_turn",
        "deepgym_agent",
        "compute_score in verl's reward manager",
    ):
        assert found[name].detail == "reference 1, empty answer 0"
    for trainer in ("legacy", "v1"):
        assert found[f"advantages, {trainer} trainer"].detail == (
            "of [1, 1, 0, none] deepgym_grpo makes [0.577, 0.577, -1.155, 0]; "
            "grpo [0.866, 0.866, -0.866, 0], so don't use it"
        )
    processors = found["Ray's processors"]
    assert "the v1 trainer sets 10 aside" in processors.detail
    assert processors.status == ("ok" if (os.cpu_count() or 1) > 10 else "warn")


def test_without_plugins_everything_but_the_names_works_and_the_patch_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "none")
    monkeypatch.setenv("DEEPGYM_VERL_PATCH_GRPO", "1")
    found = {finding.name: finding for finding in findings()}
    assert few(troubles(list(found.values()))) == {
        "plugins": "fail: VERL_USE_EXTERNAL_PLUGINS=none keeps deepgym out: verl knows neither loops nor estimators"
    }
    for trainer in ("legacy", "v1"):
        assert found[f"advantages, {trainer} trainer"].detail.endswith("; grpo too")


def test_what_verl_has_changed_is_found_and_what_stands_is_not(changed: Path) -> None:
    changed.write_text(
        "import deepgym_verl.plugin as plugin\n"
        "from verl.experimental.agent_loop import tool_agent_loop\n"
        "from verl.trainer.ppo import core_algos\n"
        # Nothing but verl calls it.
        "del tool_agent_loop.ToolAgentLoop._call_tool\n"
        # A baseline in which every row counts.
        "core_algos.ADV_ESTIMATOR_REGISTRY['deepgym_grpo'] = core_algos.compute_grpo_outcome_advantage\n"
        # A manager that turns outages into zeros and takes our function.
        "del plugin._WHEN_IMPORTED['verl.experimental.reward_loop.reward_manager.limited']\n"
    )
    found = few(troubles(findings()))
    tool_call = "verl.experimental.agent_loop.tool_agent_loop:ToolAgentLoop._call_tool"
    moved = "[0.866, 0.866, -0.866, 0], not [0.577, 0.577, -1.155, 0]; verl without the lost row"
    assert set(found) == {
        "parts of verl that aren't its public interface",
        "advantages, legacy trainer",
        "advantages, v1 trainer",
        "rate_limited",
    }
    assert found["parts of verl that aren't its public interface"] == f"fail: gone or changed: {tool_call}"
    assert f"deepgym_grpo makes {moved}" in found["advantages, legacy trainer"]
    assert f"deepgym_grpo makes {moved}" in found["advantages, v1 trainer"]
    assert "isn't refused" in found["rate_limited"]


def test_a_registry_that_is_gone_is_a_finding_for_what_needs_it_and_the_rest_is_registered(
    changed: Path,
) -> None:
    changed.write_text(
        "from verl.experimental.agent_loop import agent_loop\n"
        "agent_loop.loops = agent_loop.__dict__.pop('_agent_loop_registry')\n"
    )
    found = few(troubles(findings()))
    for name in ("deepgym_single_turn", "deepgym_agent", "names that import verl adds"):
        assert "no attribute '_agent_loop_registry'" in found[name]
    parts = "parts of verl that aren't its public interface"
    assert found[parts] == (
        "fail: gone or changed: verl.experimental.agent_loop.agent_loop:_agent_loop_registry"
    )
    # The estimators don't need it, nor does the reward function.
    assert set(found) == {
        "names that import verl adds",
        parts,
        "deepgym_single_turn",
        "deepgym_agent",
        "a run without a verdict, legacy trainer",
        "an agent's, legacy trainer",
        "a run without a verdict, v1 trainer",
        "a run without a verdict, v1's validation",
        "v1's validation metrics",
    }


def test_what_is_taken_for_verls_defaults_are_its_defaults() -> None:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    import verl
    from deepgym_verl.settings_file import _DEFAULTS

    folder = str(Path(verl.__file__).with_name("trainer") / "config")
    with initialize_config_dir(config_dir=folder, version_base=None):
        config = compose(config_name="ppo_trainer")
    assert {key: OmegaConf.select(config, key) for key in _DEFAULTS} == _DEFAULTS
    for key in settings._OLD:
        assert OmegaConf.select(config, key, default="not there") is None


@pytest.mark.parametrize(
    ("path", "loads"),
    [
        ("pkg://deepgym_verl.reward", True),
        ("pkg://deepgym_verl", True),
        ("deepgym_verl.reward", False),
        (str(Path(settings.__file__).with_name("reward.py")), False),
    ],
)
def test_verl_loads_our_function_from_the_paths_that_are_taken_for_ours(
    path: str, loads: bool, tmp_path: Path
) -> None:
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import get_custom_reward_fn

    chosen = {"path": path, "name": "compute_score", "reward_kwargs": {"env": "two_sum"}}
    config = OmegaConf.create({"reward": {"custom_reward_function": chosen}})
    try:
        assert callable(get_custom_reward_fn(config))
        found = True
    except (ImportError, FileNotFoundError, RuntimeError):
        found = False
    assert found == loads
    written = tmp_path / "run.txt"
    written.write_text(f"reward.custom_reward_function.path={path}\n")
    said = {each.name: each.status for each in settings.findings_of(written)}
    assert said.get("reward.custom_reward_function.path") == (None if loads else "fail")


def test_a_verl_that_breaks_as_it_is_imported_is_one_finding(changed: Path) -> None:
    changed.write_text("raise RuntimeError('no accelerator of any kind')\n")
    found = few(troubles(findings()))
    assert list(found) == ["import verl"]
    assert "no accelerator of any kind" in found["import verl"]


def test_no_part_of_verl_is_imported_by_the_check_itself() -> None:
    import subprocess
    import sys

    code = "import sys, deepgym_verl.check\nprint(sorted({'verl', 'torch', 'ray'} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
    assert check.__all__ == ["findings"]
