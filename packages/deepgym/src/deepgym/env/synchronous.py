"""``DeepGymEnv``: a task as a Gymnasium environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deepgym.env.arguments import EnvLike, answers_of, check_client, episode_of, seeded
from deepgym.env.base import HAS_GYMNASIUM, GymnasiumEnv
from deepgym.env.episodes import MAX_ACTION, MAX_OBSERVATION, Actions, Answers, Extract, Step
from deepgym.env.info import Info

if TYPE_CHECKING:
    from deepgym.client import DeepGym
    from deepgym.client.session import Session
    from deepgym.environments import Environment, MultiTurnEnvironment
    from deepgym.extract import Completion
    from deepgym.models import RunResult
    from deepgym.running.batch import Seeds

__all__ = ["DeepGymEnv"]


class DeepGymEnv(GymnasiumEnv):
    """A task behind Gymnasium's interface. Where Gymnasium is installed, a ``gymnasium.Env``.

    What ``reset`` shows is the task. With an ``Environment`` an action is an answer: the code is taken out
    of it as ``RewardFunction`` does (``extract=False``: it is code already; a callable does it your way), and
    what ``step`` shows is feedback that never tells what was expected. With a ``MultiTurnEnvironment`` an
    action is a tool call, or text for bash, and the episode lasts until the agent submits or meets a limit.

    At an episode's end ``info.has_verdict`` says whether its reward means anything; mask the sample where
    it is false.

    Args:
        env: An environment of either kind, its name, or the path of its folder.
        dg: The client to use; without it one is opened when it is needed, and closed by ``close``.
        max_turns: Answers in one episode of an ``Environment``; the first that passes ends it.
        render_mode: ``"ansi"``: ``render`` returns the last turn as text.
        extract: See above.

    Pickles, and works in a forked child, but for the sandbox of an agent's episode: there ``reset`` comes
    first. ``last_result`` is the newest ``RunResult``, kept when the next episode begins.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (as Gymnasium has it)

    def __init__(
        self,
        env: EnvLike,
        dg: DeepGym | None = None,
        *,
        max_turns: int = 1,
        render_mode: str | None = None,
        extract: Extract = True,
    ) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode must be None or 'ansi', not {render_mode!r:.80}")
        check_client(dg, awaited=False)
        self._episode = episode_of(env, max_turns, extract)
        self.dg = dg
        self.render_mode = render_mode
        self.last_result: RunResult | None = None
        self._own: DeepGym | None = None
        self._session: Session | None = None
        self._owner = os.getpid()
        if HAS_GYMNASIUM:
            from deepgym.env.spaces import AnyText

            self.action_space = AnyText(MAX_ACTION)
            self.observation_space = AnyText(MAX_OBSERVATION)

    @property
    def environment(self) -> Environment | MultiTurnEnvironment:
        """The task, as data."""
        return self._episode.env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, Info]:
        """Begin an episode; one that goes on is left, and its sandbox closed.

        ``seed`` draws the cases, or seeds the set-up; without one the environment's own does, each time.
        ``options`` are Gymnasium's; there are none here.

        Raises:
            ValueError: ``seed`` isn't from 0 to 2**63 - 1.
            SandboxError: the sandbox of an agent's episode couldn't be opened or set up.
        """
        seed = seeded(seed)
        super().reset(seed=seed)
        self._leave()
        if isinstance(self._episode, Answers):
            return self._episode.begin(seed)
        session = self._client().session(self._episode.env, seed=seed)
        self._session, self._owner = session, os.getpid()
        try:
            first = session.reset()
        except BaseException:
            self._leave()
            raise
        return self._episode.begin(session.seed, first)

    def step(self, action: Any) -> Step:
        """Run an answer, or let the agent act: observation, reward, terminated, truncated, info.

        The reward is 0.0 where there is no verdict, and until an agent's episode ends.

        Raises:
            SandboxError, TimeoutError, VerifierError: as ``DeepGym.run`` does; ``result`` has no verdict. An
                answer may be given again. An agent's episode is lost.
            SessionError: no episode has begun, or it is over.
            TypeError: an answer isn't text.
        """
        self._episode.check()
        if isinstance(self._episode, Actions):
            return self._act(self._episode, action)
        code = self._episode.code(action)
        result = self._client().run(self._episode.env, code, seed=self._episode.seed)
        self.last_result = result
        return self._episode.judged(action, result)

    def _act(self, episode: Actions, action: object) -> Step:
        session = self._session
        if session is None or self._owner != os.getpid():
            raise episode.ended("this episode's sandbox belongs to the environment that opened it")
        try:
            seen = session.step(action)
            final = session.score() if seen.done else None
        except BaseException as error:
            self._leave(f"the episode was lost: {type(error).__name__}")
            raise
        told = episode.seen(action, seen, final)
        self.last_result = told[4].result or self.last_result
        if seen.done:
            self._leave(episode.over)
        return told

    def step_batch(self, answers: Sequence[Completion], *, seed: Seeds = None) -> list[Step]:
        """Run many answers in parallel, each as an episode of its own; item ``i`` belongs to answer ``i``.

        The episode that ``step`` is in isn't touched. Runs without a verdict are among the results. ``seed``
        is one for all or one for each; without it the environment's own.

        Raises:
            TypeError, ValueError: the arguments don't fit, or the environment has episodes. Never for a run.
        """
        episode = answers_of(self._episode)
        batch = self._client().run_batch(episode.env, episode.codes(answers), seed=seed)
        return [episode.alone(result) for result in batch.results]

    def render(self) -> str | None:
        """The task, or the last turn, as text if the mode is ``"ansi"``; else ``None``."""
        return self._episode.shown() if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Close an open episode's sandbox, and the client if it is the environment's own. Usable again."""
        self._leave()
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def _leave(self, why: str | None = "the episode was left") -> None:
        session, self._session = self._session, None
        if isinstance(self._episode, Actions):
            self._episode.over = why
        if session is not None and self._owner == os.getpid():
            session.close()

    def _client(self) -> DeepGym:
        if self.dg is not None:
            return self.dg
        if self._own is None:
            from deepgym.client import DeepGym

            self._own = DeepGym()
        return self._own

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_own": None, "_session": None}
