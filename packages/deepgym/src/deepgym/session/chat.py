"""``ChatAgent``: a model behind an OpenAI-compatible server plays episodes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from deepgym.bounded import MAX_OUTPUT, clean
from deepgym.session.chat_server import ChatServer, ToolsRefusedError
from deepgym.session.records import Reply, Trajectory, Turn
from deepgym.session.spoken import described, spoken_calls

__all__ = ["ChatAgent"]

_SYSTEM = (
    "You work on a task in a Linux sandbox without a network. Look around, do the work, and check it. "
    "When it is ready to be graded, submit it, or answer without acting."
)
_NOTHING = "(no output)"
_REASONING = ("reasoning_content", "reasoning")
_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class ChatAgent:
    """Asks a chat model what to do next, once a turn; one agent plays any number of episodes at a time.

    Nothing is kept between turns: the conversation is built from the trajectory, whole. So an agent pickles,
    survives a fork, and works from several event loops.

    Args:
        base_url: As the server's documentation gives it, such as ``http://localhost:8000/v1``.
        model: Its name there.
        api_key: Sent as a bearer token.
        temperature: ``None``: the server's default.
        max_tokens: Of one reply. ``None`` leaves it to the server; then one that never ends costs ``timeout``
            seconds and its episode has no verdict.
        timeout: Seconds of one request.
        system: Your own system message; ``""`` for none.
        tools: ``native`` sends the tools and takes tool calls; ``text`` describes them in the system message
            and takes fenced blocks and ``<tool_call>`` tags out of the text; ``auto`` is native, takes the
            calls from the text of a message without tool calls while the model has made none, and turns to
            text where the server refuses tools, or where the first reply makes no call in either way: then
            it is asked once more.
        extra: Further fields of each request (``top_p``, ``stop``, ...); they win over the others.
        retries: Of a request that met a busy, failing or unreachable server.
        backoff: Seconds before the first retry, doubled for each further one.
        max_calls: Calls of one message that are made; the rest is dropped.

    Raises, when it is called:
        NetworkError, ProviderError: the server's failure: no verdict.
        ChatRequestError: the server refuses the request. Before the first action that is for its caller to
            see (an unknown model, a wrong URL); later, with a context that became too long, it is the
            agent's own 0.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = 4096,
        timeout: float = 600.0,
        system: str | None = None,
        tools: Literal["auto", "native", "text"] = "auto",
        extra: Mapping[str, Any] | None = None,
        retries: int = 5,
        backoff: float = 0.5,
        max_calls: int = 16,
    ) -> None:
        if tools not in ("auto", "native", "text"):
            raise ValueError(f"tools={tools!r}: use 'auto', 'native' or 'text'")
        self.model = model
        self.system = system
        self.tools = tools
        self.max_calls = max_calls
        self._server = ChatServer(
            base_url, api_key=api_key, timeout=timeout, retries=retries, backoff=backoff
        )
        options = {"temperature": temperature, "max_tokens": max_tokens}
        self._options = {name: value for name, value in options.items() if value is not None}
        self._options.update(extra or {})
        self._refused = False

    def __repr__(self) -> str:
        return f"<ChatAgent {self.model} at {self._server.name}>"

    async def __call__(self, trajectory: Trajectory) -> Reply:
        native = self.tools != "text" and not self._refused and not _spoke_first(trajectory)
        first = not trajectory.turns
        try:
            reply = await self._ask(trajectory, native)
        except ToolsRefusedError:
            if self.tools != "auto":
                raise
            self._refused = True
            return await self._ask(trajectory, native=False)
        if first and native and self.tools == "auto" and not reply.calls:
            # Some servers drop tools without a word where the model's template knows none: it never saw them.
            return await self._ask(trajectory, native=False)
        return reply

    async def _ask(self, trajectory: Trajectory, native: bool) -> Reply:
        body = self._body(trajectory, native)
        return self._reply(await self._server.complete(body, first=not trajectory.turns), trajectory)

    def _body(self, trajectory: Trajectory, native: bool) -> dict[str, Any]:
        system = _SYSTEM if self.system is None else self.system
        body: dict[str, Any] = {"model": self.model}
        if native:
            body.update(tools=list(trajectory.tools), tool_choice="auto")
        else:
            system = f"{system}\n\n{described(trajectory.tools)}".strip()
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": trajectory.task})
        for turn in trajectory.turns:
            messages += _messages(turn, native)
        return {**body, "messages": messages, **self._options}

    def _reply(self, answer: Mapping[str, Any], trajectory: Trajectory) -> Reply:
        choice = answer["choices"][0]
        said = choice["message"]
        text = _text(said.get("content"))
        message: dict[str, Any] = {"role": "assistant", "content": text}
        message.update({key: _text(said[key]) for key in _REASONING if said.get(key)})
        entries = said.get("tool_calls")
        calls: list[Any]
        if isinstance(entries, list) and entries:
            calls = list(_tool_calls(entries[: self.max_calls], len(trajectory.turns)))
            message["tool_calls"] = calls
            dropped = len(entries) - len(calls)
        elif self.tools == "native":
            calls, dropped = [], 0
        else:
            found = spoken_calls(text, fences=not any(_calls_of(turn) for turn in trajectory.turns))
            calls, dropped = found[: self.max_calls], max(0, len(found) - self.max_calls)
        metadata = {
            "model": self.model,
            "finish_reason": choice.get("finish_reason"),
            "usage": _usage(answer),
        }
        if dropped:
            metadata["dropped_calls"] = dropped
        return Reply(calls=tuple(calls), message=message, metadata=metadata)


def _spoke_first(trajectory: Trajectory) -> bool:
    """Whether the model's first calls stood in its text, so that it is spoken to in that way."""
    message = trajectory.turns[0].message if trajectory.turns else None
    return message is not None and not message.get("tool_calls")


def _text(content: object) -> str:
    """A message's text: content is text, ``None`` or parts, or what else a model made a server send."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(part for part in parts if isinstance(part, str))
    return clean(content, MAX_OUTPUT) if isinstance(content, str) else ""


def _usage(answer: Mapping[str, Any]) -> dict[str, int]:
    usage = answer.get("usage")
    found = usage if isinstance(usage, dict) else {}
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    return {name: found[name] for name in names if type(found.get(name)) is int}


def _tool_calls(entries: Sequence[object], turn: int) -> Iterator[dict[str, Any]]:
    """The entries in the form that goes back to the server: an id of its own for each, text for all else."""
    ids: set[str] = set()
    for index, entry in enumerate(entries):
        given = entry if isinstance(entry, dict) else {}
        function = given.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments, id_ = function.get("name"), function.get("arguments"), given.get("id")
        if not isinstance(id_, str) or not 0 < len(id_) <= 200 or id_ in ids:
            id_ = f"call_{turn}_{index}"
        ids.add(id_)
        if not isinstance(arguments, str):
            arguments = "{}" if arguments is None else json.dumps(arguments)
        yield {
            "id": clean(id_),
            "type": "function",
            "function": {
                "name": clean(name, 200) if isinstance(name, str) else "invalid",
                "arguments": clean(arguments, MAX_OUTPUT),
            },
        }


def _calls_of(turn: Turn) -> list[dict[str, Any]]:
    """The tool calls of a turn's message, one for each observation."""
    made: object = (turn.message or {}).get("tool_calls")
    if turn.message is None:
        made = [{"function": {"name": call.name, "arguments": call.arguments}} for call in turn.calls]
    return list(_tool_calls(made[: len(turn.observations)], 0)) if isinstance(made, list) else []


def _messages(turn: Turn, native: bool) -> list[dict[str, Any]]:
    """What the model said in a turn, and what it is shown of that."""
    said: dict[str, Any] = {"role": "assistant", "content": _text((turn.message or {}).get("content"))}
    calls = [_sendable(call) for call in _calls_of(turn)]
    texts = [seen.text or _NOTHING for seen in turn.observations]
    if native and calls:
        said["tool_calls"] = calls
        shown = zip(calls, texts, strict=False)
        return [
            said,
            *({"role": "tool", "tool_call_id": call["id"], "content": text} for call, text in shown),
        ]
    for call in calls:
        function = call["function"]
        said["content"] += (
            f'\n```json\n{{"name": "{function["name"]}", "arguments": {function["arguments"]}}}\n```'
        )
    return [said, {"role": "user", "content": "\n".join(texts)}]


def _sendable(call: dict[str, Any]) -> dict[str, Any]:
    """A tool call that no server refuses: templates parse the arguments, and names have an alphabet."""
    function = call["function"]
    name = _NOT_IN_A_NAME.sub("_", function["name"])[:64] or "invalid"
    arguments = function["arguments"]
    try:
        plain = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        plain = False
    if not plain:
        arguments = json.dumps({"malformed": arguments[:2000]})
    return {**call, "function": {"name": name, "arguments": arguments}}
