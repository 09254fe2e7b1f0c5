"""What ``import verl`` loads of ours: cheap, once for each of verl's modules, and never in anybody's way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

#: Modules named like verl's, with as much in them as is touched.
MODULES = {
    "verl/__init__.py": "",
    "verl/experimental/__init__.py": "",
    "verl/experimental/agent_loop/__init__.py": "from .agent_loop import _agent_loop_registry\n",
    "verl/experimental/agent_loop/agent_loop.py": """
        _agent_loop_registry = {"single_turn_agent": {"_target_": "verl.x"}}
    """,
    "verl/experimental/reward_loop/__init__.py": "",
    "verl/experimental/reward_loop/reward_manager/__init__.py": "",
    "verl/experimental/reward_loop/reward_manager/limited.py": """
        class RateLimitedRewardManager:
            def __init__(self, config, tokenizer, compute_score, reward_router_address=None):
                self.config, self.compute_score = config, compute_score
    """,
    "verl/trainer/__init__.py": "",
    "verl/trainer/ppo/__init__.py": "",
    "verl/trainer/ppo/core_algos.py": """
        def compute_grpo_outcome_advantage(): "verl's"
        ADV_ESTIMATOR_REGISTRY = {"grpo": compute_grpo_outcome_advantage}
    """,
    "verl/trainer/ppo/rollout_corr_helper.py": """
        asked = []

        def compute_rollout_correction_and_add_to_batch(batch, config=None):
            asked.append(batch)
            if not any(batch.batch["response_mask"].rows):
                raise ValueError("response_mask must contain at least one valid token (1).")
            return batch, {"rollout_corr/x": 1.0}
    """,
    "verl/other.py": "value = 3\n",
    "torch.py": "class Tensor: pass\n",
}
_START = "import json, sys, importlib, logging\nsaid = []\n"
LOOPS = "verl.experimental.agent_loop.agent_loop"
ALGOS = "verl.trainer.ppo.core_algos"
LIMITED = "verl.experimental.reward_loop.reward_manager.limited"
HELPER = "verl.trainer.ppo.rollout_corr_helper"
ESTIMATORS = ["deepgym_grpo", "deepgym_rloo", "grpo"]

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """``run(program, **modules)``: what it says last, in a process that has those modules and some of its own."""

    def start(program: str, environ: dict[str, str] | None = None, **modules: str) -> Any:
        for name, text in {**MODULES, **modules}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        found = subprocess.run(
            [sys.executable, "-W", "error", "-c", _START + textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "PYTHONPATH": paths, "DEEPGYM_VERL_PATCH_GRPO": "", **(environ or {})},
        )
        assert found.returncode == 0, found.stderr
        start.stderr = found.stderr  # type: ignore[attr-defined]
        return json.loads(found.stdout.splitlines()[-1])

    return start


# --- what it costs ---------------------------------------------------------------------------------------------


def test_it_loads_neither_verl_nor_torch_nor_the_core(run: Run) -> None:
    loaded = run("""
        before = set(sys.modules)
        import deepgym_verl.plugin
        print(json.dumps(sorted(set(sys.modules) - before)))
    """)
    tops = {name.partition(".")[0] for name in loaded}
    assert not tops & {"verl", "torch", "ray", "numpy", "pydantic", "anyio", "deepgym", "transfer_queue"}
    assert {name for name in loaded if name.startswith("deepgym")} == {"deepgym_verl", "deepgym_verl.plugin"}
    assert tops <= set(sys.stdlib_module_names) | {"deepgym_verl"}


def test_it_is_what_verl_s_entry_point_names() -> None:
    try:
        found = distribution("deepgym-verl").entry_points
    except PackageNotFoundError:
        pytest.skip("deepgym-verl isn't installed")
    (plugin,) = [each for each in found if each.group == "verl.plugins"]
    assert (plugin.name, plugin.value) == ("deepgym", "deepgym_verl.plugin")


def test_a_process_that_needs_none_of_verl_s_modules_has_none_of_them_loaded(run: Run) -> None:
    loaded = run("""
        import deepgym_verl.plugin, verl.other
        print(json.dumps(sorted(name for name in sys.modules if name.startswith(("verl", "torch")))))
    """)
    assert loaded == ["verl", "verl.other"]


# --- what it does -----------------------------------------------------------------------------------------------


def test_loops_are_registered_by_name_once_verl_s_module_is_imported(run: Run) -> None:
    before, after, loaded = run(f"""
        import deepgym_verl.plugin
        before = "{LOOPS}" in sys.modules
        import verl.experimental.agent_loop
        registry = sys.modules["{LOOPS}"]._agent_loop_registry
        print(json.dumps([before, registry, "deepgym_verl.loops" in sys.modules]))
    """)
    assert not before
    assert after == {
        "single_turn_agent": {"_target_": "verl.x"},
        "deepgym_single_turn": {"_target_": "deepgym_verl.loops.DeepGymSingleTurn"},
        "deepgym_agent": {"_target_": "deepgym_verl.agent.DeepGymAgent"},
    }
    assert not loaded


def test_estimators_are_registered_once_verl_s_module_is_imported(run: Run) -> None:
    names, own, loaded = run(f"""
        import deepgym_verl.plugin
        loaded = "torch" in sys.modules
        import {ALGOS} as algos
        grpo = algos.ADV_ESTIMATOR_REGISTRY["grpo"]
        own = grpo is algos.compute_grpo_outcome_advantage and grpo.__module__ == "{ALGOS}"
        print(json.dumps([sorted(algos.ADV_ESTIMATOR_REGISTRY), own, loaded]))
    """)
    assert (names, own, loaded) == (ESTIMATORS, True, False)


@pytest.mark.parametrize(("value", "patched"), [("1", True), ("0", False), ("", False), ("true", False)])
def test_the_variable_has_grpo_replaced(value: str, patched: bool, run: Run) -> None:
    found = run(
        f"""
        import deepgym_verl.plugin
        import {ALGOS} as algos
        both = [algos.ADV_ESTIMATOR_REGISTRY["grpo"], algos.compute_grpo_outcome_advantage]
        print(json.dumps([each.__module__ for each in both]))
        """,
        {"DEEPGYM_VERL_PATCH_GRPO": value},
    )
    assert found == (["deepgym_verl.advantages"] * 2 if patched else [ALGOS] * 2)


_REFUSED = f"""
    import functools
    import deepgym_verl.plugin
    from {LIMITED} import RateLimitedRewardManager as Manager

    async def theirs(**row): ...

    from deepgym_verl.reward import compute_score, make_verl_compute_score

    def plain(raw, extra, **row): ...

    made = make_verl_compute_score("two_sum")
    functions = dict(
        theirs=theirs,
        none=None,
        callable=object(),
        ours=compute_score,
        made=made,
        partial=functools.partial(compute_score, env="two_sum"),
        merged=functools.partial(plain, compute_score, dict(env="two_sum")),
        partial_merged=functools.partial(plain, functools.partial(compute_score, env="two_sum"), dict()),
        theirs_merged=functools.partial(plain, theirs, dict()),
    )
    for name, function in functions.items():
        try:
            manager = Manager(dict(a=1), None, function)
            said.append([name, manager.compute_score is function and manager.config == dict(a=1)])
        except ValueError as error:
            said.append([name, str(error)])
    print(json.dumps(said))
"""


def test_rate_limits_are_refused_for_our_functions_alone(run: Run) -> None:
    found = dict(run(_REFUSED))
    for name in ("theirs", "none", "callable", "theirs_merged"):
        assert found[name] is True
    for name in ("ours", "made", "partial", "merged", "partial_merged"):
        assert "reward_manager.name=rate_limited" in found[name]
        assert "Use naive" in found[name]


_BATCHES = f"""
    import deepgym_verl.plugin
    import {HELPER} as helper

    class Mask:
        def __init__(self, *rows): self.rows = rows
        def any(self): return any(self.rows)

    class Batch:
        def __init__(self, *rows): self.batch = dict(response_mask=Mask(*rows))

    for rows in ((0, 0), (0, 1)):
        batch = Batch(*rows)
        back, metrics = helper.compute_rollout_correction_and_add_to_batch(batch, None)
        said.append([back is batch, metrics, len(helper.asked)])
    print(json.dumps(said))
"""


def test_a_batch_without_a_row_to_learn_from_is_not_compared(run: Run) -> None:
    assert run(_BATCHES) == [[True, {}, 0], [True, {"rollout_corr/x": 1.0}, 1]]


def test_modules_that_are_there_already_are_seen_to_at_once(run: Run) -> None:
    found = run(f"""
        import {LOOPS} as loops, {ALGOS} as algos, {LIMITED} as limited, {HELPER} as helper
        import deepgym_verl.plugin
        from deepgym_verl.reward import compute_score
        try:
            limited.RateLimitedRewardManager(None, None, compute_score)
        except ValueError as error:
            said.append(str(error)[:20])
        print(json.dumps([sorted(loops._agent_loop_registry), sorted(algos.ADV_ESTIMATOR_REGISTRY), said]))
    """)
    assert found[:2] == [["deepgym_agent", "deepgym_single_turn", "single_turn_agent"], ESTIMATORS]
    assert found[2] == ["reward.reward_manager"[:20]]


@pytest.mark.parametrize(
    "first", ["import verl.trainer.ppo.rollout_corr_helper, verl.trainer.ppo.core_algos", "pass"]
)
def test_installing_it_twice_does_no_harm(first: str, run: Run) -> None:
    finders, wrapped, names, calls = run(f"""
        {first}
        import deepgym_verl.plugin as plugin
        for _ in range(3):
            plugin.install()
        import {LIMITED} as limited, {ALGOS} as algos, {HELPER} as helper
        plugin.install()
        finders = sum(type(each).__module__ == "deepgym_verl.plugin" for each in sys.meta_path)
        wrapped = hasattr(limited.RateLimitedRewardManager.__init__.__wrapped__, "__wrapped__")
        calls = hasattr(helper.compute_rollout_correction_and_add_to_batch.__wrapped__, "__wrapped__")
        print(json.dumps([finders, wrapped, sorted(algos.ADV_ESTIMATOR_REGISTRY), calls]))
    """)
    assert (finders, wrapped, names, calls) == (1, False, ESTIMATORS, False)


def test_a_name_that_somebody_registered_before_stays_his(run: Run) -> None:
    loops, algos = run(
        f"""
        import deepgym_verl.plugin
        import {LOOPS} as loops, {ALGOS} as algos
        print(json.dumps([loops._agent_loop_registry["deepgym_agent"], algos.ADV_ESTIMATOR_REGISTRY["deepgym_grpo"]]))
        """,
        **{
            "verl/experimental/agent_loop/agent_loop.py": "_agent_loop_registry = {'deepgym_agent': 'mine'}\n",
            "verl/trainer/ppo/core_algos.py": "ADV_ESTIMATOR_REGISTRY = {'deepgym_grpo': 'mine'}\n",
        },
    )
    assert (loops, algos) == ("mine", "mine")


def test_a_module_that_is_loaded_again_is_seen_to_again(run: Run) -> None:
    assert (
        run(f"""
        import deepgym_verl.plugin
        import {ALGOS} as algos
        algos = importlib.reload(algos)
        print(json.dumps(sorted(algos.ADV_ESTIMATOR_REGISTRY)))
    """)
        == ESTIMATORS
    )


# --- what it leaves alone -----------------------------------------------------------------------------------------


def test_a_verl_that_it_does_not_know_works_and_is_said(run: Run) -> None:
    found = run(
        f"""
        logging.basicConfig(format="%(message)s")
        import deepgym_verl.plugin
        import {LOOPS} as loops, {LIMITED} as limited, {HELPER} as helper, {ALGOS} as algos
        print(json.dumps([loops.other, limited.other, helper.other, sorted(algos.ADV_ESTIMATOR_REGISTRY)]))
        """,
        **{
            "verl/experimental/agent_loop/__init__.py": "",
            "verl/experimental/agent_loop/agent_loop.py": "other = 1\n",
            "verl/experimental/reward_loop/reward_manager/limited.py": "other = 2\n",
            "verl/trainer/ppo/rollout_corr_helper.py": "other = 3\n",
        },
    )
    assert found == [1, 2, 3, ESTIMATORS]
    said = run.stderr  # type: ignore[attr-defined]
    for name in (LOOPS, LIMITED, HELPER):
        assert f"{name} isn't as deepgym_verl knows it; `deepgym doctor verl` says more" in said


def test_a_module_of_verl_s_that_fails_raises_its_own_error_and_can_be_tried_again(run: Run) -> None:
    found = run(
        f"""
        import os
        import deepgym_verl.plugin
        for _ in range(2):
            try:
                import {ALGOS}
            except ImportError as error:
                said.append([str(error), "{ALGOS}" in sys.modules])
        os.environ["WORKS"] = "1"
        import {ALGOS} as algos
        print(json.dumps([said, sorted(algos.ADV_ESTIMATOR_REGISTRY)]))
        """,
        **{
            "verl/trainer/ppo/core_algos.py": (
                "import os\n"
                "if 'WORKS' not in os.environ:\n    raise ImportError('no tensordict')\n"
                "ADV_ESTIMATOR_REGISTRY = {'grpo': None}\n"
            )
        },
    )
    assert found == [[["no tensordict", False]] * 2, ESTIMATORS]


def test_a_module_that_verl_does_not_have_is_not_found_as_ever(run: Run) -> None:
    found = run(f"""
        import os, verl
        os.remove(os.path.join(os.path.dirname(verl.__file__), "trainer", "ppo", "rollout_corr_helper.py"))
        importlib.invalidate_caches()
        import deepgym_verl.plugin
        try:
            import {HELPER}
        except ModuleNotFoundError as error:
            said.append([error.name, str(error)])
        print(json.dumps(said))
    """)
    assert found == [[HELPER, f"No module named '{HELPER}'"]]


def test_a_module_looks_as_it_would_without(run: Run) -> None:
    found = run(f"""
        import copy, inspect, importlib.util, pickle
        import deepgym_verl.plugin
        import {ALGOS} as algos
        loader = algos.__spec__.loader
        source = inspect.getsource(algos.compute_grpo_outcome_advantage)
        also = importlib.util.find_spec("{ALGOS}") is algos.__spec__
        said += [algos.__file__.endswith("core_algos.py"), source.startswith("def compute"), also]
        said += [loader.get_filename() == algos.__file__, "verl's" in loader.get_source("{ALGOS}")]
        said += [loader.is_package("{ALGOS}"), algos.__cached__.endswith(".pyc"), algos.__name__ == "{ALGOS}"]
        said += [type(copy.copy(loader)) is type(loader), hasattr(loader, "__no_such__")]
        print(json.dumps(said))
    """)
    assert found == [True, True, True, True, True, False, True, True, True, False]


def test_other_modules_are_found_by_others_alone(run: Run) -> None:
    found = run(f"""
        import deepgym_verl.plugin
        (finder,) = [each for each in sys.meta_path if type(each).__module__ == "deepgym_verl.plugin"]
        names = ["verl", "verl.other", "json", "torch", "verl.trainer.ppo", "{ALGOS}.x", "core_algos"]
        said.append([finder.find_spec(name) for name in names])
        import verl.other
        said.append(type(verl.other.__spec__.loader).__name__)
        print(json.dumps(said))
    """)
    assert found == [[None] * 7, "SourceFileLoader"]


def test_a_module_that_is_only_half_loaded_is_left_alone(run: Run) -> None:
    found = run(
        f"""
        logging.basicConfig(format="%(message)s")
        import {ALGOS} as algos, {LOOPS} as loops
        print(json.dumps([algos.ADV_ESTIMATOR_REGISTRY, len(loops._agent_loop_registry)]))
        """,
        **{"verl/trainer/ppo/core_algos.py": "import deepgym_verl.plugin\nADV_ESTIMATOR_REGISTRY = {}\n"},
    )
    assert found == [{}, 3]
    assert run.stderr == ""  # type: ignore[attr-defined]
