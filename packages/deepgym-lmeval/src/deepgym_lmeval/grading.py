"""All answers of a task judged in one batch, and a look at the sandbox before a model is asked anything."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deepgym.environments import Environment, load_environment
from deepgym.exceptions import SandboxError
from deepgym.integrations.judging import Judging, least_deadline, share_of_ranks
from deepgym.rewards import RewardFunction

from .graded import Graded

if TYPE_CHECKING:
    from deepgym.client import DeepGym
    from deepgym.models import RunResult

__all__ = ["Grader"]

logger = logging.getLogger(__name__)

#: Of a batch's time: this many times what it could take if every run used up its limits, and so many seconds.
_PATIENCE = 3.0
_LEAST = 3600.0
_DOCTOR = "run: deepgym doctor local"


class Grader:
    """Judges codes with one client: the given one, or one of its own that is opened when first needed.

    Works in forked children, where it opens its own client.
    """

    def __init__(self, dg: DeepGym | None = None, max_parallel: int | None = None) -> None:
        self._rewards = RewardFunction(dg=dg, extract=False)
        self._max_parallel = max_parallel
        self._tried: set[str] = set()

    @property
    def unsafe(self) -> bool:
        """Whether answers could do to this machine whatever its user can.

        Raises:
            SandboxError: the provider can't isolate a run here; the text has the remedy.
        """
        return bool(self._rewards.client().provider.capabilities.isolation == "unsafe")

    def grade(self, pairs: Sequence[tuple[Environment, str]], label: str) -> list[Graded]:
        """Run *i* judged as item *i*. What our side failed has no verdict; nothing raises for it.

        A bar on standard error shows how far it is. An interrupt by the user is raised.
        """
        if not pairs:
            return []
        envs, codes = [env for env, _ in pairs], [code for _, code in pairs]
        provider = self._rewards.client().provider
        parallel = share_of_ranks(provider, self._max_parallel)
        bar = _Bar(len(pairs), label)
        rewards = RewardFunction(
            dg=self._rewards.client(), extract=False, observers=[bar], max_parallel=parallel
        )
        try:
            judging = Judging(rewards, _deadline(envs, parallel or getattr(provider, "slots", None) or 1))
            return [Graded.of(result) for result in judging.results(codes, envs).results]
        finally:
            bar.close()

    def smoke(self, environments: Sequence[Environment]) -> None:
        """Judge right answers and an empty one, once: a broken judge should cost seconds, not a night.

        Tried are a built-in environment and the first of ``environments``.

        Raises:
            SandboxError: a run of them has no verdict, or the judge can't tell right from wrong.
        """
        known = load_environment("two_sum")
        new = {env.name: env for env in (known, *environments[:1]) if env.reference is not None}
        tried = [(env, env.reference or "") for name, env in new.items() if name not in self._tried]
        if known.name not in self._tried:
            tried.append((known, ""))
        for (env, code), graded in zip(tried, self.grade(tried, "a trial"), strict=True):
            if not graded.has_verdict:
                what = f"{graded.error_type}: {graded.error}"
                raise SandboxError(f"answers to {env.name} can't be judged here: {what}; {_DOCTOR}")
            if graded.passed != bool(code) and env == known:
                raise SandboxError(f"an answer to {env.name} is judged wrongly here; {_DOCTOR}")
            if graded.passed != bool(code):
                logger.warning("the reference of %s doesn't pass (score %s)", env.name, graded.score)
        self._tried.update(new)

    def close(self) -> None:
        """Close the client that was opened here. It is opened anew if it is needed again."""
        self._rewards.close()


class _Bar:
    """Observer that moves a progress bar."""

    def __init__(self, total: int, label: str) -> None:
        from tqdm import tqdm

        self._bar: Any = tqdm(total=total, desc=f"Judging {label}", unit="run")
        self._none = 0

    def on_phase(self, index: int, phase: object) -> None:
        """Phases aren't shown."""

    def on_result(self, index: int, result: RunResult) -> None:
        """Count one finished run."""
        if not result.has_verdict:
            self._none += 1
            self._bar.set_postfix_str(f"{self._none} without a verdict", refresh=False)
        self._bar.update()

    def close(self) -> None:
        self._bar.close()


def _deadline(envs: Sequence[Environment], parallel: int) -> float:
    """Seconds after which what hasn't begun hangs on our side: no loop of an answer takes that long."""
    worst = sum(least_deadline([env]) for env in envs)
    return max(_LEAST, least_deadline(envs), _PATIENCE * worst / parallel)
