"""Agent file for ``--train.agent_func_path``: grades in the engine's process and leaves samples out for real.

OpenRLHF loads this file by its path, which ``deepgym openrlhf agent-path`` prints, and constructs
``AgentExecutor`` without arguments: the variables in ``deepgym_openrlhf.settings`` configure it.

A sample that has no verdict gets the mean of its judged siblings as its reward, so that its advantage is 0
and its siblings' baseline is theirs alone, and one token of it counts as the policy's: none would make
OpenRLHF's means over tokens not a number.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections import Counter, deque
from statistics import fmean
from typing import TYPE_CHECKING, Any

from openrlhf.utils.agent import SingleTurnAgentExecutor

from deepgym.integrations.labels import Envs, Labels
from deepgym.integrations.reward import MaskedRate
from deepgym_openrlhf.failure import DROPPED, InfraFailureScore, checked, waits
from deepgym_openrlhf.grading import log_of
from deepgym_openrlhf.settings import PREFIX, Settings

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym
    from deepgym.models import RunResult

__all__ = ["AgentExecutor"]

logger = logging.getLogger("deepgym_openrlhf.agent")

#: Judged samples whose mean stands in where no sibling was judged; before any was, the middle of a score.
_RECENT = 1000
_MIDDLE = 0.5
_LEFT_OUT: InfraFailureScore = "group_mean"


class AgentExecutor(SingleTurnAgentExecutor):
    """Generates as OpenRLHF's own executor does, and grades each response in the engine's event loop.

    Args:
        envs: Instead of ``DEEPGYM_OPENRLHF_ENV``.
        dg: The client; by default one for ``DEEPGYM_OPENRLHF_MODE``.
        failure: Instead of ``DEEPGYM_OPENRLHF_FAILURE``. By default, and with ``"group_mean"``, a sample
            without a verdict is left out; with ``"drop_group"`` too, and dynamic filtering drops its group;
            with a number it is trained on as having earned it.
        stop_after: Instead of ``DEEPGYM_OPENRLHF_STOP_AFTER``.

    Raises:
        SettingsError: a variable is missing or wrong, or too short for an environment's limits.
        ValueError: an argument is wrong.
    """

    def __init__(
        self,
        envs: Envs = None,
        dg: AsyncDeepGym | None = None,
        *,
        failure: object = None,
        stop_after: int | None = None,
    ) -> None:
        super().__init__()
        settings = Settings.read(labels=None if envs is None else Labels(envs))
        given = settings.failure if failure is None else checked(failure)
        self._score: InfraFailureScore = _LEFT_OUT if given is None else given
        self._seconds = settings.seconds
        self._grading = settings.grading(dg, self._score)
        self._groups = _Groups()
        self._masked = MaskedRate("deepgym_openrlhf")
        self._row = _Row(settings.stop_after if stop_after is None else stop_after)

    async def execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Generate one response, and grade it.

        Raises:
            RuntimeError: so many samples in a row have no verdict that training on would be without rewards.
        """
        call = inspect.signature(super().execute).bind(*args, **kwargs).arguments
        group = self._groups.join(call["sampling_params"], call["prompt"])
        try:
            # Siblings are begun in one go, so after this each of them has joined.
            await asyncio.sleep(0)
            output: dict[str, Any] = await super().execute(*args, **kwargs)
            began = time.monotonic()
            result = await self._graded(output, call["label"], call["hf_tokenizer"])
            output["extra_logs"] = log_of(result, time.monotonic() - began)
            if result.has_verdict:
                group.judged.append(result.score)
        finally:
            self._groups.leave(group)
        self._masked.record(result)
        self._row.count(result)
        if result.has_verdict:
            output.update(reward=result.score, scores=result.score)
        else:
            await self._fill(output, group)
        return output

    async def _graded(self, output: dict[str, Any], label: object, tokenizer: Any) -> RunResult:
        begin, end = output["action_ranges"][0]
        # What the policy wrote, to the token: there is no prompt to tell from it.
        response = tokenizer.decode(output["observation_tokens"][begin:end], skip_special_tokens=False)
        return await self._grading.result(label, response, time.monotonic() + self._seconds)

    async def _fill(self, output: dict[str, Any], group: _Group) -> None:
        """Give ``output`` what a sample without a verdict gets."""
        if not waits(self._score):
            number = float("nan") if isinstance(self._score, str) else self._score
            output.update(reward=number, scores=number)
            return
        await group.over.wait()
        output.update(
            reward=group.mean,
            scores=DROPPED if self._score == "drop_group" else group.mean,
            action_ranges=[_one_token(output)],
        )
        if "truncated" in output:
            # A penalty for what was cut short would move this reward away from the mean.
            output["truncated"] = False


class _Group:
    """The samples of one prompt that are under way."""

    def __init__(self, key: tuple[int, str], params: object) -> None:
        self.key = key
        self.params = params
        """Held, so that no other group's has its identity."""
        self.open = 0
        self.judged: list[float] = []
        self.mean = _MIDDLE
        """Of the judged, once the group is over; of those judged last if none was."""
        self.over = asyncio.Event()


class _Groups:
    """Siblings by the sampling parameters: OpenRLHF gives all samples of one prompt the same object."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, str], _Group] = {}
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def join(self, params: object, prompt: str) -> _Group:
        key = (id(params), prompt)
        if key not in self._open:
            self._open[key] = _Group(key, params)
        group = self._open[key]
        group.open += 1
        return group

    def leave(self, group: _Group) -> None:
        group.open -= 1
        if group.open:
            return
        self._recent.extend(group.judged)
        if self._recent:
            group.mean = fmean(group.judged or self._recent)
        del self._open[group.key]
        group.over.set()


class _Row:
    """Samples in a row that have no verdict, of all of this process."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kinds: Counter[str] = Counter()

    def count(self, result: RunResult) -> None:
        if result.has_verdict:
            self._kinds.clear()
            return
        self._kinds[result.error_type or "unknown"] += 1
        row = self._kinds.total()
        if not self.most or row < self.most:
            return
        kinds = ", ".join(f"{kind} {number}" for kind, number in self._kinds.most_common())
        raise RuntimeError(
            f"deepgym_openrlhf: {row} samples in a row have no verdict ({kinds}; the last: "
            f"{result.error or 'no message'}). Sampling stops here, for training would go on without "
            f"rewards. {PREFIX}STOP_AFTER says how many may follow each other"
        )


def _one_token(output: dict[str, Any]) -> tuple[int, int]:
    """The response's first token. Where there is no response: the last of the prompt."""
    begin = min(output["action_ranges"][0][0], len(output["observation_tokens"]) - 1)
    return begin, begin + 1
