"""The agent loop ``deepgym_single_turn``: verl's own single turn, then graded.

Chosen by a row's ``agent_name`` or ``actor_rollout_ref.rollout.agent.default_agent_loop``. It reads the
options of ``deepgym_verl.options`` from the configuration's ``reward_kwargs``, and from its own entry of an
agent-loop file, which wins.
"""

from __future__ import annotations

import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop

from . import siblings
from .judge import Judge, judge_for, label_of
from .leaving_out import judged_row, left_out
from .options import Options

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DeepGymSingleTurn", "judge_of", "label_in"]


class DeepGymSingleTurn(SingleTurnAgentLoop):
    """One turn of the model, graded in a sandbox. One instance for each trajectory.

    Raises:
        OptionsError: an option is unknown or wrong, or there is no such environment.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = {field.name: kwargs.pop(field.name) for field in fields(Options) if field.name in kwargs}
        super().__init__(*args, **kwargs)
        self._judge = judge_of(self.config, own)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        """A row; what leaves the sample out where our side failed (see ``leaving_out``).

        Raises:
            NoVerdictError: there is no verdict, and verl is to count the sample as failed.
            UnknownLabelError, OptionsError: the row names no environment, or one for an agent.
        """
        group = siblings.join(kwargs.get("uid"))
        try:
            output = await super().run(sampling_params, **kwargs)
            text = self.tokenizer.decode(output.response_ids, skip_special_tokens=True)
            began = time.monotonic()
            result = await self._judge.result(label_in(kwargs), text)
            seconds = time.monotonic() - began
            if result.has_verdict:
                group.judged += 1
                return judged_row(self, output, result, seconds)
            lost = self._judge.options.lost
            return await left_out(self, output, result, kwargs, group, lost, seconds)
        finally:
            group.leave()


def judge_of(config: Any, own: Mapping[str, Any]) -> Judge:
    """This process's judge for the options in a trainer's configuration; ``own`` ones win.

    Raises:
        OptionsError: an option is unknown or wrong, or there is no such environment.
    """
    function = config.reward.get("custom_reward_function") or {}
    return judge_for(Options.read({**(function.get("reward_kwargs") or {}), **own}))


def label_in(row: Mapping[str, Any]) -> object:
    """What says which environment an agent loop's row is for."""
    truth = (row.get("reward_model") or {}).get("ground_truth")
    return label_of(row.get("extra_info"), truth, row.get("data_source"))
