"""What a run of ``python -m verl.trainer.main_ppo`` needs said for rewards of DeepGym's.

``overrides`` are the settings as Hydra takes them on a command line; ``spelling`` writes them otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from deepgym.environments import MultiTurnEnvironment, list_multi_turn_environments
from deepgym.environments.multi_turn import EpisodeLimits

from .options import Lost, Options, OptionsError
from .rows import tasks_of
from .spelling import files, override, places

if TYPE_CHECKING:
    from deepgym.integrations.labels import TaskEnvs

__all__ = ["Mode", "RecipeError", "overrides", "settings"]

Mode = Literal["sync", "colocate_async", "separate_async"]
_ROLLOUT = "actor_rollout_ref.rollout"
_ACTOR = "actor_rollout_ref.actor"
_KWARGS = "+reward.custom_reward_function.reward_kwargs"
#: Ours, by name.
_ESTIMATORS = ("deepgym_grpo", "deepgym_rloo")
#: By which groups can be filtered: passed or not, the judge's score, and that less verl's own penalties.
_METRICS = ("acc", "score", "reward")
#: Characters that a session adds to a tool's output: remarks on how it ended.
_REMARKS = 4096


class RecipeError(OptionsError):
    """Settings that don't go together; the message says which, and what would do."""


@dataclass(frozen=True)
class _Recipe:
    """The arguments of ``overrides``."""

    train: Sequence[str] | str | None = None
    val: Sequence[str] | str | None = None
    n: int = 8
    model: str | None = None
    gpus: int = 1
    batch: int = 32
    prompt_length: int | None = None
    response_length: int | None = None
    estimator: str = "deepgym_grpo"
    trainer_mode: Mode = "sync"
    legacy: bool = False
    agent: bool | None = None
    tool_format: str = "hermes"
    function: bool = False
    dapo: bool = False
    metric: str = "acc"
    overlong: int | None = None
    mode: str = "local"
    max_parallel: int | None = None
    max_sessions: int | None = None
    deadline: float | None = None
    lost: Lost = "auto"


def overrides(env: TaskEnvs = None, **given: Any) -> list[str]:
    """Overrides for ``verl.trainer.main_ppo``, quoted for Hydra, not for a shell.

    Args:
        env: What grades: names, folders, suites or JSONL files, as for ``reward_kwargs.env``; paths become
            absolute. ``None``: each row names a built-in environment.
        train, val: Files that ``write_parquet`` wrote; ``None``: said elsewhere.
        n: Samples of a prompt.
        model: A name or path. With it the rest that a first run needs is said too: the engine (vLLM), the
            logger, ``gpus`` (of one node) and ``batch`` (prompts of a step).
        prompt_length, response_length: In tokens; verl's own default is 512 each.
        estimator: ``algorithm.adv_estimator``.
        trainer_mode: Of the v1 trainer.
        legacy: Use verl's legacy trainer.
        agent: Whether there are rows for agents; ``None``: as ``env`` says.
        tool_format: How the model writes calls of tools, ``rollout.multi_turn.format``.
        function: Grade with ``compute_score`` instead of an agent loop. The rows must have no ``agent_name``.
        dapo: Clip higher, and replace groups whose samples all have the same ``metric``.
        metric: ``acc`` (passed or not), ``score`` (the judge's), or ``reward`` (that less verl's penalties).
        overlong: Tokens before ``response_length`` in which a longer answer earns less (DAPO's soft penalty).
            verl applies it to what ``compute_score`` returns alone, so it implies ``function``.
        mode, max_parallel, max_sessions, deadline, lost: As in ``deepgym_verl.options``.

    Raises:
        RecipeError: settings that don't go together, or an unknown one.
        OptionsError: one of the last line is wrong.
        RowsError, UnknownNameError, InvalidEnvironmentError: there is no such environment.
    """
    return [override(key, value) for key, value in settings(env, **given).items()]


def settings(env: TaskEnvs = None, **given: Any) -> dict[str, Any]:
    """The same as keys and values. A key begins with ``+`` where verl's configuration doesn't have it yet."""
    known = [field.name for field in fields(_Recipe)]
    for name in given:
        if name not in known:
            raise RecipeError(f"{name!r} is no setting; they are {', '.join(known)}")
    recipe = _Recipe(**given)
    limits = _limits(env, recipe.agent)
    _check(recipe, bool(limits))
    own = ("mode", "max_parallel", "max_sessions", "deadline", "lost")
    kwargs = {name: getattr(recipe, name) for name in own if name in given and given[name] is not None}
    if env is not None:
        kwargs = {"env": places(env), **kwargs}
    Options.read(kwargs).labels()
    found = {
        **_data(recipe),
        **_model(recipe),
        "algorithm.adv_estimator": recipe.estimator,
        f"{_ROLLOUT}.n": recipe.n,
        **({} if _by_function(recipe) else _loops(limits, recipe, env)),
        "reward.custom_reward_function.path": "pkg://deepgym_verl.reward",
        **{f"{_KWARGS}.{name}": value for name, value in kwargs.items()},
        **_trainer(recipe),
        **(_dapo(recipe) if recipe.dapo else {}),
        **_overlong(recipe),
    }
    return {key: value for key, value in found.items() if value is not None}


def _check(recipe: _Recipe, agents: bool) -> None:
    if recipe.trainer_mode not in get_args(Mode):
        raise RecipeError(f"trainer_mode={recipe.trainer_mode!r}: one of {', '.join(get_args(Mode))}")
    for name in ("n", "gpus", "batch", "prompt_length", "response_length", "overlong"):
        value = getattr(recipe, name)
        if value is not None and value < 1:
            raise RecipeError(f"{name}={value}: at least 1")
    if recipe.n == 1 and recipe.estimator in _ESTIMATORS:
        raise RecipeError(f"n=1: with {recipe.estimator} a prompt's only sample teaches nothing; take more")
    if recipe.legacy and (recipe.dapo or recipe.trainer_mode != "sync"):
        other = "group filtering (dapo)" if recipe.dapo else f"mode {recipe.trainer_mode}"
        raise RecipeError(f"verl's legacy trainer has no {other}; leave legacy out")
    if recipe.legacy and recipe.lost in ("raise", "empty"):
        raise RecipeError(f"lost={recipe.lost}: under verl's legacy trainer a sample can only be masked")
    if recipe.dapo and recipe.lost == "empty" and recipe.trainer_mode == "sync":
        raise RecipeError("lost=empty: with dapo a group without any row ends a sync run; use auto")
    if recipe.metric not in _METRICS:
        raise RecipeError(f"metric={recipe.metric!r}: one of {', '.join(_METRICS)}")
    if recipe.overlong is not None and (recipe.response_length or 0) <= recipe.overlong:
        raise RecipeError(f"overlong={recipe.overlong} needs a response_length that is above it")
    if _by_function(recipe):
        _check_function(recipe, agents)


def _check_function(recipe: _Recipe, agents: bool) -> None:
    why = "overlong: verl takes it off in compute_score" if recipe.overlong else "function"
    if agents:
        raise RecipeError(f"{why}, which sees a text, and an agent's work isn't one; leave it out")
    if recipe.legacy:
        raise RecipeError(f"{why}, and there the legacy trainer ends at the first run without a verdict")
    if recipe.lost != "auto":
        raise RecipeError(f"{why}, and lost={recipe.lost} is for agent loops")


def _by_function(recipe: _Recipe) -> bool:
    return recipe.function or recipe.overlong is not None


def _limits(env: TaskEnvs, agent: bool | None) -> list[EpisodeLimits]:
    """Those of the environments for agents."""
    several = env if env is not None else list_multi_turn_environments() if agent else None
    tasks = [] if several is None else tasks_of(several)
    found = [task.limits for _, task in tasks if isinstance(task, MultiTurnEnvironment)]
    if agent is not None and agent != bool(found):
        kind = "none is" if agent else "there are some"
        raise RecipeError(f"agent={agent}: of the environments {kind} for an agent; leave it out")
    return found


def _loops(limits: list[EpisodeLimits], recipe: _Recipe, env: TaskEnvs) -> dict[str, Any]:
    every = env is not None and bool(limits) and len(limits) == len(tasks_of(env))
    loop = "deepgym_agent" if every else "deepgym_single_turn"
    found: dict[str, Any] = {f"{_ROLLOUT}.agent.default_agent_loop": loop}
    if limits:
        turns = f"{_ROLLOUT}.multi_turn"
        found[f"{turns}.enable"] = True
        found[f"{turns}.format"] = recipe.tool_format
        # A trajectory ends at the last turn before the calls in it are made.
        found[f"{turns}.max_assistant_turns"] = 1 + max(each.steps for each in limits)
        found[f"{turns}.max_tool_response_length"] = _REMARKS + max(each.output for each in limits)
    return found


def _data(recipe: _Recipe) -> dict[str, Any]:
    return {
        "data.train_files": files(recipe.train),
        "data.val_files": files(recipe.val),
        "data.max_prompt_length": recipe.prompt_length,
        "data.max_response_length": recipe.response_length,
    }


def _model(recipe: _Recipe) -> dict[str, Any]:
    if recipe.model is None:
        return {}
    return {
        "data.train_batch_size": recipe.batch,
        "actor_rollout_ref.model.path": recipe.model,
        f"{_ACTOR}.ppo_mini_batch_size": recipe.batch,
        f"{_ACTOR}.use_dynamic_bsz": True,
        f"{_ROLLOUT}.name": "vllm",
        f"{_ROLLOUT}.tensor_model_parallel_size": 1,
        "trainer.n_gpus_per_node": recipe.gpus,
        "trainer.logger": ["console"],
    }


def _trainer(recipe: _Recipe) -> dict[str, Any]:
    if recipe.legacy:
        return {"trainer.use_v1": False}
    found: dict[str, Any] = {"trainer.use_v1": True, "trainer.v1.trainer_mode": recipe.trainer_mode}
    if recipe.trainer_mode == "sync":
        found["trainer.v1.sampler.sync_refill_failed_groups"] = True
    return found


def _dapo(recipe: _Recipe) -> dict[str, Any]:
    return {
        f"{_ACTOR}.clip_ratio_low": 0.2,
        f"{_ACTOR}.clip_ratio_high": 0.28,
        f"{_ACTOR}.loss_agg_mode": "token-mean",
        "algorithm.filter_groups.enable": True,
        "algorithm.filter_groups.metric": recipe.metric,
    }


def _overlong(recipe: _Recipe) -> dict[str, Any]:
    if recipe.overlong is None:
        return {}
    place = "+reward.reward_kwargs"
    return {
        "reward.reward_manager.name": "dapo",
        f"{place}.max_resp_len": recipe.response_length,
        f"{place}.overlong_buffer_cfg.enable": True,
        f"{place}.overlong_buffer_cfg.len": recipe.overlong,
        f"{place}.overlong_buffer_cfg.penalty_factor": 1.0,
        f"{place}.overlong_buffer_cfg.log": False,
    }
