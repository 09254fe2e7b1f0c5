"""What ``import verl`` loads: names for the agent loops and the advantage estimators, when they are needed.

It must not slow verl down, so nothing of verl is imported here: what is to be done to a module of verl's is
done as soon as somebody else has imported it. Agent loops are registered by the name of their class, which
verl imports when a row asks for it.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

__all__ = ["LOOPS", "install"]

logger = logging.getLogger(__name__)

LOOPS = {
    "deepgym_single_turn": "deepgym_verl.loops.DeepGymSingleTurn",
    "deepgym_agent": "deepgym_verl.agent.DeepGymAgent",
}
_RATE_LIMITED = (
    "reward.reward_manager.name=rate_limited turns a run without a verdict into a reward of 0.0. Use naive "
    "(the default) or dapo: deepgym_verl bounds what runs at once by itself"
)


def _register_loops(module: Any) -> None:
    for name, target in LOOPS.items():
        module._agent_loop_registry.setdefault(name, {"_target_": target})


def _register_estimators(module: Any) -> None:
    from .advantages import ESTIMATORS, patch_grpo
    from .surroundings import PATCH

    for name, function in ESTIMATORS.items():
        module.ADV_ESTIMATOR_REGISTRY.setdefault(name, function)
    if os.environ.get(PATCH) == "1":
        patch_grpo(module)


def _is_ours(function: Any) -> bool:
    """Whether our ``compute_score`` is in it: as it is, or bound, or wrapped, as verl itself does."""
    waiting, seen = [function], set[int]()
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if str(getattr(each, "__module__", "")).startswith("deepgym_verl."):
            return True
        if isinstance(each, functools.partial):
            waiting += [each.func, *filter(callable, each.args)]
        waiting.append(getattr(each, "__wrapped__", None))
    return False


def _refuse_rate_limits(module: Any) -> None:
    manager = module.RateLimitedRewardManager
    begin = manager.__init__

    @functools.wraps(begin)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if _is_ours(getattr(self, "compute_score", None)):
            raise ValueError(_RATE_LIMITED)

    manager.__init__ = init


def _survive_a_masked_batch(module: Any) -> None:
    """Without a row to learn from, verl's comparison with the rollout's probabilities ends the run."""
    correct = module.compute_rollout_correction_and_add_to_batch

    @functools.wraps(correct)
    def compute(batch: Any, *args: Any, **kwargs: Any) -> Any:
        if not batch.batch["response_mask"].any():
            return batch, {}
        return correct(batch, *args, **kwargs)

    module.compute_rollout_correction_and_add_to_batch = compute


_WHEN_IMPORTED: dict[str, Callable[[Any], None]] = {
    "verl.experimental.agent_loop.agent_loop": _register_loops,
    "verl.trainer.ppo.core_algos": _register_estimators,
    "verl.experimental.reward_loop.reward_manager.limited": _refuse_rate_limits,
    "verl.trainer.ppo.rollout_corr_helper": _survive_a_masked_batch,
}


def _act(name: str, module: Any) -> None:
    """Do once what is to be done to a module. Never raises: verl has users that want nothing of us."""
    if getattr(module, "_deepgym_verl", False):
        return
    try:
        _WHEN_IMPORTED[name](module)
        module._deepgym_verl = True
    except Exception:
        logger.warning(
            "%s isn't as deepgym_verl knows it; `deepgym doctor verl` says more", name, exc_info=True
        )


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules above as everybody else does, and has something done once they are loaded."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _WHEN_IMPORTED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.pop("_deepgym_verl", None)  # where it is loaded again
        self._loader.exec_module(module)
        _act(module.__name__, module)

    def __getattr__(self, name: str) -> Any:  # get_source, get_filename and the like
        if name.startswith("__") or name == "_loader":
            raise AttributeError(name)
        return getattr(self._loader, name)


def install() -> None:
    """See to the modules that are loaded already, and to the others when they are. Twice does no harm."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    for name in _WHEN_IMPORTED:
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            _act(name, module)


install()
