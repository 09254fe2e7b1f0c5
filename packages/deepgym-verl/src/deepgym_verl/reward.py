"""``compute_score`` for verl: ``reward.custom_reward_function.path=pkg://deepgym_verl.reward``.

A run without a verdict raises ``NoVerdictError``. verl's v1 trainer leaves that sample out (in its async
modes with its group); the legacy trainer stops, so give it the agent loop ``deepgym_single_turn``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from deepgym.exceptions import NoVerdictError

from .info import info_of
from .judge import Judge, judge_for, label_of
from .options import Options, options_of

if TYPE_CHECKING:
    from deepgym.integrations.labels import TaskEnvs
    from deepgym.models import RunResult

__all__ = ["ComputeScore", "compute_score", "make_verl_compute_score", "no_verdict", "scored"]

ComputeScore = Callable[..., Coroutine[Any, Any, "dict[str, Any]"]]
_REMEDY = (
    "verl's v1 trainer leaves this sample out; its legacy trainer (trainer.use_v1=False) ends here: give it "
    "actor_rollout_ref.rollout.agent.default_agent_loop=deepgym_single_turn instead, which masks the sample"
)


async def compute_score(
    data_source: object = None,
    solution_str: str = "",
    ground_truth: object = None,
    extra_info: object = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Grade one response, as verl asks for it. Never blocks the event loop that it is awaited in.

    Args:
        data_source: The row's; ``deepgym/...`` in rows of ours.
        solution_str: The decoded response.
        ground_truth: The row's; not a secret: the environment has the tests.
        extra_info: The row's; ``extra_info["env"]`` names the environment.
        kwargs: ``reward_kwargs`` of the configuration (see ``deepgym_verl.options``).

    Returns:
        ``score``, ``acc``, ``passed``, ``error``, ``model_fault``, ``seconds`` and ``steps``, always all of
        them and in this order.

    Raises:
        NoVerdictError: our side failed: there is no reward. ``result`` has what is known.
        OptionsError: a ``reward_kwargs`` is unknown or wrong.
        UnknownLabelError: the row names no environment.
    """
    grader = judge_for(Options.read(kwargs))
    return await scored(grader, label_of(extra_info, ground_truth, data_source), solution_str)


def make_verl_compute_score(env: TaskEnvs, **options: Any) -> ComputeScore:
    """A ``compute_score`` for ``env``, for a file of your own that verl loads.

    ::

        compute_score = make_verl_compute_score("./my_environment")

    Args:
        env: An environment, its name or folder; or a suite, or several, of which a row names one.
        options: As ``reward_kwargs`` (see ``deepgym_verl.options``).

    Raises:
        OptionsError: an option is unknown or wrong, or there is no such environment.
    """
    chosen = options_of(env, options)
    chosen.labels()

    async def compute_score(
        data_source: object = None,
        solution_str: str = "",
        ground_truth: object = None,
        extra_info: object = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        return await scored(judge_for(chosen), label_of(extra_info, ground_truth, data_source), solution_str)

    compute_score.__doc__ = "Grade one response, as ``deepgym_verl.reward.compute_score`` does."
    return compute_score


async def scored(grader: Judge, label: object, text: str) -> dict[str, Any]:
    """What ``compute_score`` returns for a response to the row of this label; raises as it does."""
    began = time.monotonic()
    result = await grader.result(label, text)
    if not result.has_verdict:
        raise no_verdict(result, _REMEDY)
    return info_of(result, time.monotonic() - began)


def no_verdict(result: RunResult, remedy: str = "") -> NoVerdictError:
    """The error for a result without a verdict."""
    why = f"no verdict ({result.error_type}: {result.error or 'no message'})"
    return NoVerdictError(f"{why}. {remedy}" if remedy else why, result)
