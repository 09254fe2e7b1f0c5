"""What an agent loop hands to verl: a judged row, or what leaves a sample out under the trainer at hand.

=========================  ======================================================================
v1, ``sync``               raises: this sample alone is dropped
v1, the async modes        ``[]``: this sample alone is dropped; raises if every sibling was lost,
                           so that verl replaces the group
v1, validation             a masked row with ``error`` 1.0: a dropped one would vanish from ``error``,
                           and a batch without rows ends the run
legacy                     a masked row with ``error`` 1.0
=========================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import versions
from .info import info_of, lost_info
from .reward import no_verdict
from .surroundings import in_validation, trainer_mode, under_v1, warn_of_estimator

if TYPE_CHECKING:
    from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput

    from deepgym.models import RunResult

    from .options import Lost
    from .siblings import Group

__all__ = ["judged_row", "left_out"]

#: The first verl whose validation leaves ``None`` out of its means; before, it ends the run.
_LEAVES_OUT_NONE = (0, 9, 1)


def judged_row(
    loop: AgentLoopBase, output: AgentLoopOutput, result: RunResult, seconds: float, steps: int = 0
) -> AgentLoopOutput:
    """The row of a sample that has a verdict."""
    _end_with_the_policy(loop, output)
    output.reward_score = float(result.score)
    output.metrics.compute_score = seconds
    output.extra_fields["reward_extra_info"] = info_of(result, seconds, steps)
    return output


async def left_out(
    loop: AgentLoopBase,
    output: AgentLoopOutput,
    result: RunResult,
    row: Mapping[str, Any],
    group: Group,
    lost: Lost,
    seconds: float,
    steps: int = 0,
) -> Any:
    """What becomes of a sample without a verdict: a masked row or ``[]``.

    Raises:
        NoVerdictError: verl is to count this sample as failed.
    """
    if not under_v1(row):
        warn_of_estimator(loop.config)
        return _masked(loop, output, info_of(result, seconds, steps), seconds)
    if await in_validation(row):
        blank = versions.numbers(versions.installed() or "0.9.1") >= _LEAVES_OUT_NONE
        told = lost_info(seconds, steps) if blank else info_of(result, seconds, steps)
        return _masked(loop, output, told, seconds)
    if lost == "mask":
        warn_of_estimator(loop.config)
        return _masked(loop, output, info_of(result, seconds, steps), seconds)
    if lost == "auto":
        lost = "raise" if trainer_mode(loop.config) == "sync" or group.all_lost else "empty"
    if lost == "raise":
        raise no_verdict(result)
    return []


def _masked(
    loop: AgentLoopBase, output: AgentLoopOutput, info: dict[str, Any], seconds: float
) -> AgentLoopOutput:
    _end_with_the_policy(loop, output)
    output.response_mask = [0] * len(output.response_mask)
    output.reward_score = 0.0
    output.metrics.compute_score = seconds
    output.extra_fields["reward_extra_info"] = info
    return output


def _end_with_the_policy(loop: AgentLoopBase, output: AgentLoopOutput) -> None:
    """Have the response end with a token of the policy's: verl puts the reward on the last one.

    Estimators that go token by token (GAE, REINFORCE++) don't see it where the mask is 0, as after the text
    of a tool that ended the episode. An empty response gets the end-of-sequence token. It is the mask that
    tells: for a trajectory without a token verl hands out its prompt as the response.
    """
    mask = output.response_mask
    count = len(mask)
    while count and not mask[count - 1]:
        count -= 1
    if count:
        output.response_ids, output.response_mask = output.response_ids[:count], mask[:count]
        if output.response_logprobs is not None:
            output.response_logprobs = output.response_logprobs[:count]
        return
    eos = loop.tokenizer.eos_token_id
    output.response_ids, output.response_mask = [0 if eos is None else eos], [1]
    if loop.rollout_config.get("calculate_log_probs") or output.response_logprobs is not None:
        output.response_logprobs = [0.0]
