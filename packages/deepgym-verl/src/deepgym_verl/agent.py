"""The agent loop ``deepgym_agent``: verl's own tool agent, whose tools act in a session of DeepGym's.

The tools are the environment's. A failure of ours never becomes a tool's text: the episode ends there, and
the sample is left out.
"""

from __future__ import annotations

import logging
import time
from dataclasses import fields
from typing import Any

from verl.experimental.agent_loop.tool_agent_loop import AgentState, ToolAgentLoop
from verl.tools.schemas import OpenAIFunctionToolSchema, ToolResponse

from deepgym.environments.tools import tool_schemas

from . import siblings
from .episode import OVER, Episode, LostError
from .judge import MASKED
from .leaving_out import judged_row, left_out
from .loops import judge_of, label_in
from .options import Options
from .surroundings import warn_once

__all__ = ["DeepGymAgent"]

logger = logging.getLogger(__name__)


class _Tool:
    """What verl asks of a tool besides calling it."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.tool_schema = OpenAIFunctionToolSchema.model_validate(schema)
        self.name: str = self.tool_schema.function.name


class _Server:
    """The model's server, and whether it failed: what else is raised in the model's turn isn't its doing."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self.failed = False

    async def generate(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await self._server.generate(*args, **kwargs)
        except BaseException:
            self.failed = True
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


class DeepGymAgent(ToolAgentLoop):
    """Turns of the model and tools, then graded. One instance, and one session, for each trajectory.

    Raises:
        OptionsError: an option is unknown or wrong, or there is no such environment.
    """

    server_manager: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        own = {field.name: kwargs.pop(field.name) for field in fields(Options) if field.name in kwargs}
        super().__init__(*args, **kwargs)
        self._judge = judge_of(self.config, own)
        self.server_manager = _Server(self.server_manager)
        self._episode: Episode | None = None

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> Any:
        """A row; what leaves the sample out where our side failed (see ``leaving_out``).

        Raises:
            NoVerdictError: there is no verdict, and verl is to count the sample as failed.
            UnknownLabelError, OptionsError: the row names no environment for agents.
        """
        env = self._judge.episode_env(label_in(kwargs))
        self._offer([_Tool(schema) for schema in tool_schemas(env.tools)])
        group = siblings.join(kwargs.get("uid"))
        episode = self._episode = Episode(self._judge, env)
        episode.begin()
        try:
            output = await super().run(sampling_params, **kwargs)
            began = time.monotonic()
            result = await episode.grade()
            seconds, steps = time.monotonic() - began, episode.steps
            MASKED.record(result)
            if result.has_verdict:
                group.judged += 1
                return judged_row(self, output, result, seconds, steps)
            lost = self._judge.options.lost
            return await left_out(self, output, result, kwargs, group, lost, seconds, steps)
        finally:
            group.leave()
            await episode.close()

    def _offer(self, tools: list[_Tool]) -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.tool_schemas = [
            tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for tool in tools
        ]

    async def _call_tool(
        self, tool_call: Any, tools_kwargs: dict[str, Any], agent_data: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Whatever is wrong with a call is the policy's: the session tells it, and it costs a step."""
        assert self._episode is not None
        call = {"name": tool_call.name, "arguments": tool_call.arguments}
        seen = await self._episode.act(call)
        if seen is None:
            return ToolResponse(text=OVER), 0.0, {}
        reward = seen.result.reward if seen.result is not None else None
        return ToolResponse(text=self._cut(seen.text)), reward or 0.0, {}

    async def _handle_generating_state(self, agent_data: Any, *args: Any, **kwargs: Any) -> Any:
        """The model's turn, and what verl reads in it."""
        most = self.rollout_config.get("max_model_len")
        if most and agent_data.assistant_turns and len(agent_data.prompt_ids) + 2 > most:
            # A server refuses a prompt without room for an answer. It is the policy that filled it.
            return AgentState.TERMINATED
        try:
            return await super()._handle_generating_state(agent_data, *args, **kwargs)
        except Exception as error:
            if self.server_manager.failed:
                raise
            return self._unread(error)

    async def _handle_processing_tools_state(self, agent_data: Any) -> Any:
        """The tools' turn, after which the trajectory ends where the episode has."""
        try:
            state = await super()._handle_processing_tools_state(agent_data)
        except LostError:
            return AgentState.TERMINATED
        except Exception as error:  # noqa: BLE001 - see _unread
            return self._unread(error)
        assert self._episode is not None
        return AgentState.TERMINATED if self._episode.over else state

    def _unread(self, error: Exception) -> Any:
        """The end of a trajectory whose text verl fails to handle: graded as it stands.

        Raised, it would have the sample dropped, and a policy could rid itself of its zeros by such a text.
        """
        logger.warning("an episode ends here, for verl can't handle what the policy wrote", exc_info=error)
        return AgentState.TERMINATED

    def _cut(self, text: str) -> str:
        """``text`` as verl's settings for a tool's response want it."""
        most, side = self.max_tool_response_length, self.tool_response_truncate_side
        if len(text) <= most:
            return text
        place = "actor_rollout_ref.rollout.multi_turn"
        warn_once(
            "tool response",
            f"{place}.max_tool_response_length={most} cuts what tools show the policy, here {len(text)} "
            f"characters (at the side that {place}.tool_response_truncate_side={side} says); give it more",
        )
        if side == "left":
            return "(cut) ..." + text[len(text) - most :]
        if side == "right":
            return text[:most] + "... (cut)"
        half = most // 2
        return text[:half] + "... (cut) ..." + text[len(text) - half :]
