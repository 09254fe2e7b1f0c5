"""The episodes behind ``DeepGymEnv`` and ``AsyncDeepGymEnv``: what stands between two calls and comes back.

``Answers`` is an episode in which a task is answered at once, or in a few attempts; ``Actions`` one in which
an agent works in a sandbox. Neither runs anything, so that both environments share them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from deepgym.bounded import clean
from deepgym.env.feedback import feedback
from deepgym.env.info import Info
from deepgym.exceptions import SessionError
from deepgym.extract import Completion, extract_code

if TYPE_CHECKING:
    from deepgym.environments import Environment, MultiTurnEnvironment
    from deepgym.models import RunResult
    from deepgym.session.records import Observation

__all__ = ["MAX_ACTION", "MAX_OBSERVATION", "Actions", "Answers", "Extract", "Step"]

Extract = bool | Callable[[Completion], str]
#: Observation, reward, terminated, truncated, info.
Step = tuple[str, float, bool, bool, Info]

#: Characters.
MAX_ACTION = 1 << 24
MAX_OBSERVATION = 1 << 20

#: What would move a terminal's cursor, colour or clear it; policies write what is rendered.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class _Episode:
    """What both kinds share: how far the episode got, and whether a step may follow."""

    def __init__(self, env_name: str) -> None:
        self.env_name = env_name
        self.seed: int | None = None
        self.turn = 0
        self.over: str | None = "no episode has begun"
        """Why no step can follow, if none can."""
        self._last: tuple[object, ...] = ()

    def check(self) -> None:
        """Raise ``SessionError``, with the remedy, where no step can follow."""
        if self.over is not None:
            raise self.ended(self.over)

    def ended(self, why: str) -> SessionError:
        """End the episode; what to raise for a step in it."""
        self.over = why
        return SessionError(f"{why}; call reset() for a new one")

    def _begun(self, seed: int, task: str) -> tuple[str, Info]:
        self.seed, self.turn, self.over = seed, 0, None
        text = clean(task, MAX_OBSERVATION)
        self._last = (self.env_name, "\n", text)
        return text, self._info(None)

    def _info(self, result: RunResult | None, **more: object) -> Info:
        items = {
            "env_name": self.env_name,
            "seed": self.seed,
            "turn": self.turn,
            "has_verdict": result is not None and result.has_verdict,
            "passed": result is not None and result.passed,
            "score": 0.0 if result is None else result.score,
            "error_type": None if result is None else result.error_type,
            "cases_passed": 0 if result is None else sum(case.passed for case in result.cases),
            "cases_total": 0 if result is None else len(result.cases),
        }
        return Info({**items, **more}, result)

    def _show(self, action: object, text: str, reward: float) -> None:
        head = f"{self.env_name}, turn {self.turn}\n> "
        self._last = (
            head,
            action,
            "\n",
            text,
            f"\nreward {reward:.2f}",
            f"; {self.over}" if self.over else "",
        )

    def shown(self) -> str:
        """The task or the last turn, for a terminal."""
        text = clean("".join(map(str, self._last)), MAX_OBSERVATION)
        return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class Answers(_Episode):
    """An episode of up to ``turns`` answers to one task, each run afresh.

    The rewards of an episode add up to its best score: an answer earns what it is better by than all before.
    Otherwise a policy would earn most by never quite passing.
    """

    def __init__(self, env: Environment, turns: int, extract: Extract) -> None:
        if turns < 1:
            raise ValueError(f"max_turns={turns}: at least one answer must be allowed")
        super().__init__(env.name)
        self.env, self.turns, self._extract = env, turns, extract
        self._best = 0.0

    def begin(self, seed: int | None) -> tuple[str, Info]:
        """A new episode: the task, and an info without a verdict."""
        self._best = 0.0
        return self._begun(self.env.seed if seed is None else seed, self.env.task)

    def code(self, action: Completion) -> str:
        """The code to run for ``action``, as a ``RewardFunction`` takes it from a completion.

        Raises:
            TypeError: ``action`` isn't text (or a conversation), or the given ``extract`` returned none.
        """
        if callable(self._extract):
            code: object = self._extract(action)
        else:
            code = extract_code(action) if self._extract else action
        if not isinstance(code, str):
            raise TypeError(f"an answer is text, not {type(code).__name__}")
        return code

    def codes(self, answers: Sequence[Completion]) -> list[str]:
        """``code`` of each of ``answers``; a ``TypeError`` names the one that isn't text."""
        if isinstance(answers, (str, bytes)) or not isinstance(answers, Sequence):
            raise TypeError(f"answers must be a list with one answer per run, not {type(answers).__name__}")
        found = []
        for index, answer in enumerate(answers):
            try:
                found.append(self.code(answer))
            except TypeError as error:
                raise TypeError(f"answers[{index}]: {error}") from error
        return found

    def judged(self, action: object, result: RunResult) -> Step:
        """What ``step`` returns for the answer that ``result`` is of."""
        self.turn += 1
        reward = max(0.0, result.score - self._best)
        self._best = max(self._best, result.score)
        terminated = result.passed or self.turns == 1
        truncated = not terminated and self.turn >= self.turns
        text = feedback(self.env, result)
        if terminated:
            self.over = "the episode has ended with its answer"
        elif truncated:
            self.over = f"all {self.turns} attempts of this episode are used"
        if self.turns > 1 and not terminated:
            text += f"\nAttempt {self.turn} of {self.turns}." + (" Answer again." if not truncated else "")
        self._show(action, text, reward)
        return text, reward, terminated, truncated, self._told(result)

    def alone(self, result: RunResult) -> Step:
        """What ``step_batch`` returns for one answer: an episode of its own, beside the one that goes on."""
        alone = Answers(self.env, 1, self._extract)
        alone._begun(self.env.seed if result.seed is None else result.seed, self.env.task)
        return alone.judged("", result)

    def _told(self, result: RunResult) -> Info:
        return self._info(result, outcomes=[case.outcome for case in result.cases])


class Actions(_Episode):
    """An episode in a sandbox. A reward comes at its end, or from the step verifier where there is one."""

    def __init__(self, env: MultiTurnEnvironment) -> None:
        super().__init__(env.name)
        self.env = env

    def begin(self, seed: int, first: Observation) -> tuple[str, Info]:
        """A new episode, whose session has shown the task as ``first``."""
        return self._begun(seed, first.text)

    def seen(self, action: object, observation: Observation, final: RunResult | None) -> Step:
        """What ``step`` returns for ``observation``; ``final`` is the verdict on an episode that is over."""
        self.turn += 1
        result = observation.result if final is None else final
        reward = 0.0 if result is None else result.score
        truncated = observation.done and observation.ended in ("steps", "time")
        terminated = observation.done and not truncated
        if observation.done:
            self.over = f"the episode has ended ({observation.ended})"
        text = clean(observation.text, MAX_OBSERVATION)
        more: dict[str, object] = {
            "ended": observation.ended,
            "invalid": observation.invalid,
            "timed_out": observation.timed_out,
        }
        if observation.exit_code is not None:  # a stacked array of ints can't hold None
            more["exit_code"] = observation.exit_code
        self._show(action, text, reward)
        return text, reward, terminated, truncated, self._info(result, **more)
