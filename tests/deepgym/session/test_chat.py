from __future__ import annotations

import json
import pickle
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anyio
import pytest

from deepgym import AsyncDeepGym
from deepgym.environments import EpisodeLimits, MultiTurnEnvironment, Program, ToolCall
from deepgym.environments.tools import read_call, tool_schemas
from deepgym.exceptions import DeepGymError, NetworkError, ProviderError, is_infrastructure_failure
from deepgym.models import RunResult
from deepgym.session.chat import ChatAgent
from deepgym.session.chat_server import ChatRequestError, ToolsRefusedError
from deepgym.session.episode import run_episode, run_episodes
from deepgym.session.records import Ended, Observation, Reply, Trajectory, Turn

pytestmark = pytest.mark.anyio

FENCE = "```"
TASK = "Make the file done."
ENV = MultiTurnEnvironment(name="folder", task=TASK, verify=Program(source="def verify(work): return True"))


class Server:
    """A real server on the loopback that gives the replies it was handed, in order; the last one for ever."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._last: Any = None
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                server.asked.append(json.loads(body))
                server.headers.append({key.lower(): value for key, value in self.headers.items()})
                server.paths.append(self.path)
                reply = server.next()
                if callable(reply):
                    reply = reply(self)
                if reply is not None:
                    answer(self, *reply)

            def log_message(self, *args: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # a client that hangs up is what some tests want

        self.http = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/v1"
        self._thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def will(self, *replies: Any) -> None:
        for reply in replies:
            self.replies.put(reply)

    def next(self) -> Any:
        if not self.replies.empty():
            self._last = self.replies.get()
        return self._last

    def agent(self, **options: Any) -> ChatAgent:
        return ChatAgent(self.url, "m", **{"backoff": 0.0, "timeout": 30.0, "retries": 3, **options})

    def close(self) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()
        self._thread.join()


def answer(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    for key, value in {"content-length": str(len(body)), **(headers or {})}.items():
        handler.send_header(key, value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def says(message: Any, **more: Any) -> tuple[int, bytes]:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "details": {"x": 1}}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return 200, json.dumps({"choices": [choice], "usage": usage, **more}).encode()


def text(content: Any) -> tuple[int, bytes]:
    return says({"role": "assistant", "content": content})


def calls(*made: Any, content: Any = None) -> tuple[int, bytes]:
    return says({"role": "assistant", "content": content, "tool_calls": list(made)})


def call(name: Any, arguments: Any, id_: Any = "call_a") -> dict[str, Any]:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": given}}


def refusal(status: int, message: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    return status, json.dumps({"error": {"message": message, "type": "x"}}).encode(), headers


def episode(*turns: Turn) -> Trajectory:
    return Trajectory(
        env_name="folder", env_digest=ENV.digest, task=TASK, tools=tuple(tool_schemas(ENV.tools)), turns=turns
    )


def after(reply: Reply, *seen: str) -> Turn:
    made = tuple(read_call(one)[0] for one in reply.calls)
    shown = tuple(Observation(text=one) for one in seen)
    return Turn(calls=made, observations=shown, message=reply.message)


def read(reply: Reply) -> list[tuple[str, dict[str, Any]]]:
    found = [read_call(one) for one in reply.calls]
    assert [wrong for _, wrong in found] == [None] * len(found)
    return [(one.name, one.arguments) for one, _ in found]


LS = call("bash", {"command": "ls"})
BASH_LS = ("bash", {"command": "ls"})


# native tool calls


async def test_the_first_request_holds_the_task_and_the_tools(server: Server) -> None:
    server.will(calls(LS))
    reply = await server.agent(temperature=0.5, extra={"top_p": 0.9}, api_key="secret")(episode())
    (asked,) = server.asked
    assert (asked["model"], asked["temperature"], asked["top_p"], asked["max_tokens"]) == (
        "m",
        0.5,
        0.9,
        4096,
    )
    assert asked["tools"] == tool_schemas(ENV.tools)
    assert asked["tool_choice"] == "auto"
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert asked["messages"][1]["content"] == TASK
    assert server.headers[0]["authorization"] == "Bearer secret"
    assert server.paths == ["/v1/chat/completions"]
    assert read(reply) == [BASH_LS]
    assert reply.metadata == {
        "model": "m",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


@pytest.mark.parametrize("end", ["", "/", "/chat/completions", "/chat/completions/", "?api-version=1"])
async def test_a_base_url_is_taken_as_people_give_it(server: Server, end: str) -> None:
    server.will(text("Done."))
    await ChatAgent(server.url + end, "m")(episode())
    assert server.paths[0].rstrip("/").startswith("/v1/chat/completions")
    assert server.paths[0].endswith("?api-version=1") == ("api-version" in end)


async def test_without_a_key_there_is_no_authorization(server: Server) -> None:
    server.will(text("Done."))
    await server.agent()(episode())
    assert "authorization" not in server.headers[0]


@pytest.mark.parametrize(("system", "roles"), [("Be brief.", ["system", "user"]), ("", ["user"])])
async def test_the_system_message_is_the_callers_if_there_is_one(
    server: Server, system: str, roles: list[str]
) -> None:
    server.will(text("Done."))
    await server.agent(system=system)(episode())
    messages = server.asked[0]["messages"]
    assert [message["role"] for message in messages] == roles
    assert messages[0]["content"] == (system or TASK)


async def test_several_calls_of_a_message_are_made_and_answered_one_by_one(server: Server) -> None:
    agent = server.agent()
    server.will(calls(LS, call("read_file", {"path": "a"}, "call_b"), content="Both."), text("Done."))
    first = await agent(episode())
    assert read(first) == [BASH_LS, ("read_file", {"path": "a"})]
    last = await agent(episode(after(first, "a\n", "")))
    assert last.calls == ()
    assert server.asked[1]["messages"][2:] == [
        {"role": "assistant", "content": "Both.", "tool_calls": list(first.calls)},
        {"role": "tool", "tool_call_id": "call_a", "content": "a\n"},
        {"role": "tool", "tool_call_id": "call_b", "content": "(no output)"},
    ]


async def test_calls_that_were_not_run_are_not_sent_back(server: Server) -> None:
    agent = server.agent()
    server.will(calls(LS, LS), text("Done."))
    first = await agent(episode())
    await agent(episode(after(first, "a\n")))
    _, _, said, shown = server.asked[1]["messages"]
    assert (len(said["tool_calls"]), shown["role"]) == (1, "tool")


async def test_ids_that_are_missing_or_double_are_replaced(server: Server) -> None:
    server.will(calls(*[call("bash", {"command": "ls"}, id_) for id_ in ("a", "a", None, 5, "", "x" * 300)]))
    reply = await server.agent()(episode())
    ids = [one["id"] for one in reply.calls if isinstance(one, dict)]
    assert (len(set(ids)), ids[0]) == (6, "a")
    assert all(isinstance(one, str) and one for one in ids)


async def test_calls_beyond_the_bound_are_dropped_and_counted(server: Server) -> None:
    server.will(calls(*[call("bash", {"command": "ls"}, f"c{number}") for number in range(10)]))
    reply = await server.agent(max_calls=4)(episode())
    assert reply.message is not None
    assert (len(reply.calls), len(reply.message["tool_calls"])) == (4, 4)
    assert reply.metadata["dropped_calls"] == 6


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (call("bash", '{"command": "l'), "aren't JSON"),
        (call("bash", "[]"), "must be an object"),
        (call("bash", {"command": 5}), "valid string"),
        (call("bash", {"cmd": "ls"}), "is missing"),
        (call("bash", '{"command": "\\ud800"}'), "unicode"),
        (call("rm", {}), "there is no tool 'rm'"),
        (call("b a/s\nh\u00e9", {}), "there is no tool"),
        (call(None, {}), "there is no tool 'invalid'"),
        ("bash", "there is no tool 'invalid'"),
        ({"function": ["bash"]}, "there is no tool 'invalid'"),
        ({}, "there is no tool 'invalid'"),
        ({"function": {"name": "bash", "arguments": None}}, "is missing"),
    ],
)
async def test_a_garbled_call_is_told_to_the_model_and_goes_back_in_a_form_no_server_refuses(
    server: Server, entry: Any, wrong: str
) -> None:
    agent = server.agent()
    server.will(calls(entry), text("Done."))
    reply = await agent(episode())
    _, told = read_call(reply.calls[0])
    assert told is not None
    assert wrong in told
    await agent(episode(after(reply, told)))
    _, _, said, shown = server.asked[1]["messages"]
    (sent,) = said["tool_calls"]
    assert isinstance(json.loads(sent["function"]["arguments"]), dict)
    assert sent["function"]["name"].replace("_", "").replace("-", "").isalnum()
    assert sent["function"]["name"].isascii()
    assert shown == {"role": "tool", "tool_call_id": sent["id"], "content": told}


async def test_arguments_that_a_server_sends_as_an_object_are_taken(server: Server) -> None:
    server.will(calls({"id": "a", "function": {"name": "bash", "arguments": {"command": "ls"}}}))
    assert read(await server.agent()(episode())) == [BASH_LS]


async def test_every_script_and_smile_goes_through(server: Server) -> None:
    command = "echo 'na\u00efve \u65e5\u672c \U0001f600 \u2028'"
    agent = server.agent()
    server.will(calls(call("bash", {"command": command}), content="\u2713 \ud800"), text("Done."))
    reply = await agent(episode())
    assert read(reply) == [("bash", {"command": command})]
    assert reply.message is not None
    assert reply.message["content"] == "\u2713 \ufffd"
    await agent(episode(after(reply, "\U0001f600\n")))
    assert json.loads(server.asked[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]) == {
        "command": command
    }


@pytest.mark.parametrize("content", [None, 5, {"text": "x"}, [], [5, {"type": "image"}]])
async def test_a_message_without_text_or_calls_ends_the_episode(server: Server, content: Any) -> None:
    server.will(text(content))
    reply = await server.agent()(episode())
    assert reply.calls == ()
    assert reply.message == {"role": "assistant", "content": ""}


async def test_bytes_that_are_no_utf_8_are_the_models_and_replaced(server: Server) -> None:
    body = b'{"choices": [{"message": {"content": "\xff ```bash\\nls\\n```", "tool_calls": null}}]}'
    server.will((200, body))
    reply = await server.agent()(episode())
    assert reply.message is not None
    assert reply.message["content"] == "\ufffd ```bash\nls\n```"


async def test_parts_of_a_text_are_joined(server: Server) -> None:
    server.will(text([{"type": "text", "text": f"{FENCE}bash\n"}, {"type": "text", "text": f"ls\n{FENCE}"}]))
    assert read(await server.agent()(episode())) == [("bash", {"command": "ls\n"})]


async def test_reasoning_is_kept_in_the_record_and_not_sent_back(server: Server) -> None:
    agent = server.agent()
    message = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [LS]}
    server.will(says(message), text("Done."))
    reply = await agent(episode())
    assert reply.message is not None
    assert reply.message["reasoning_content"] == "Hm."
    await agent(episode(after(reply, "a")))
    assert "reasoning_content" not in server.asked[1]["messages"][2]


async def test_a_turn_that_another_agent_made_is_told_as_tool_calls(server: Server) -> None:
    server.will(text("Done."))
    made = ToolCall(name="bash", arguments={"command": "ls"})
    await server.agent()(episode(Turn(calls=(made,), observations=(Observation(text="a"),))))
    _, _, said, shown = server.asked[0]["messages"]
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    assert (shown["role"], shown["tool_call_id"]) == ("tool", said["tool_calls"][0]["id"])


# calls in text


@pytest.mark.parametrize(
    ("said", "made"),
    [
        (f"Look:\n{FENCE}bash\nls\n{FENCE}\n", [("bash", {"command": "ls\n"})]),
        (f"{FENCE}sh\nls\n{FENCE}\nor\n{FENCE}python\nprint(1)\n{FENCE}", [("python", {"code": "print(1)\n"})]),
        (f"{FENCE}bash\nls\n{FENCE}\n{FENCE}text\nwhat it shows\n{FENCE}", [("bash", {"command": "ls\n"})]),
        (f"1. so:\n   {FENCE}bash\n   if :; then\n     ls\n   fi\n   {FENCE}", [("bash", {"command": "if :; then\n  ls\nfi\n"})]),
        (f"{FENCE}bash\nls", [("bash", {"command": "ls"})]),
        (f"~~~bash\ncat <<E\n{FENCE}\nE\n~~~", [("bash", {"command": f"cat <<E\n{FENCE}\nE\n"})]),
        (f"{FENCE}bash\r\nls\r\n{FENCE}\r\n", [("bash", {"command": "ls\n"})]),
        (f"{FENCE}bash\nsubmit\n{FENCE}", [("submit", {})]),
        (f'{FENCE}json\n{{"name": "read_file", "arguments": {{"path": "a"}}}}\n{FENCE}', [("read_file", {"path": "a"})]),
        (f'{FENCE}json\n{{"name": "read_file", "parameters": {{"path": "a\nb"}}}}\n{FENCE}', [("read_file", {"path": "a\nb"})]),
        ('<tool_call>{"name": "submit"}</tool_call>', [("submit", {})]),
        ('<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call><tool_call>{"name": "submit"}', [BASH_LS, ("submit", {})]),
        (f"{FENCE}bash\ncat > a <<E\n<tool_call>\nE\n{FENCE}", [("bash", {"command": "cat > a <<E\n<tool_call>\nE\n"})]),
        (f"<think>\n{FENCE}bash\nrm -r .\n{FENCE}\n</think>\nDone.", []),
        (f"{FENCE}\nls\n{FENCE}", []),
        (f'{FENCE}json\n{{"answer": 5}}\n{FENCE}', []),
        (f"{FENCE}bash\n\n{FENCE}", []),
        (f"{FENCE}bash{FENCE}", []),
        (f"````md\n{FENCE}bash\nls\n{FENCE}\n````", []),
        ("All done: `ls` shows it.", []),
    ],
)  # fmt: skip
async def test_the_last_block_of_a_text_is_the_action(
    server: Server, said: str, made: list[tuple[str, dict[str, Any]]]
) -> None:
    server.will(text(said))
    assert read(await server.agent(tools="text")(episode())) == made


@pytest.mark.parametrize(
    "said",
    [
        "<tool_call>ls</tool_call>",
        "<tool_call>[1, {}]</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        f'{FENCE}json\n{{"name": "bash", "arguments": {{"command": "ls}}\n{FENCE}',
        f"{FENCE}tool_call\nls\n{FENCE}",
        f'{FENCE}json\n{{"name": "bash", "arguments": {"[" * 100_000}\n{FENCE}',
    ],
)
async def test_a_garbled_call_in_a_text_is_told_to_the_model(server: Server, said: str) -> None:
    server.will(text(said))
    reply = await server.agent()(episode())
    assert reply.calls
    assert all(read_call(one)[1] for one in reply.calls)


async def test_in_text_mode_the_tools_are_described_and_what_they_showed_is_told_by_the_user(
    server: Server,
) -> None:
    agent = server.agent(tools="text")
    server.will(text(f"{FENCE}bash\nls\n{FENCE}"), text("Done."))
    reply = await agent(episode())
    await agent(episode(after(reply, "a\n")))
    assert "tools" not in server.asked[0]
    system, task = server.asked[0]["messages"]
    assert "write_file(path, content)" in system["content"]
    assert task == {"role": "user", "content": TASK}
    assert server.asked[1]["messages"][2:] == [
        {"role": "assistant", "content": f"{FENCE}bash\nls\n{FENCE}"},
        {"role": "user", "content": "a\n"},
    ]


async def test_a_model_that_calls_tools_natively_may_show_code_in_its_last_words(server: Server) -> None:
    agent = server.agent()
    server.will(calls(LS), text(f"Done. Try it:\n{FENCE}bash\npython done.py\n{FENCE}"))
    first = await agent(episode())
    assert (await agent(episode(after(first, "a")))).calls == ()


async def test_native_mode_takes_no_call_from_a_text(server: Server) -> None:
    server.will(text(f"{FENCE}bash\nls\n{FENCE}"))
    assert (await server.agent(tools="native")(episode())).calls == ()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, "registry/x does not support tools"),
        (404, "No endpoints found that support tool use"),
        (500, "tools param requires --jinja flag"),
    ],
)
async def test_a_server_that_refuses_tools_is_asked_in_text_from_then_on(
    server: Server, status: int, message: str
) -> None:
    agent = server.agent()
    server.will(refusal(status, message), text(f"{FENCE}bash\nls\n{FENCE}"))
    assert read(await agent(episode())) == [("bash", {"command": "ls\n"})]
    await agent(episode())
    assert ["tools" in asked for asked in server.asked] == [True, False, False]


async def test_native_mode_is_loud_about_a_server_that_refuses_tools(server: Server) -> None:
    server.will(refusal(400, "no tools here"))
    with pytest.raises(ToolsRefusedError, match="no tools here"):
        await server.agent(tools="native")(episode())


async def test_native_calls_so_far_are_told_as_text_once_a_server_refuses_tools(server: Server) -> None:
    agent = server.agent()
    server.will(calls(LS), refusal(400, "no tools"), text("Done."))
    first = await agent(episode())
    await agent(episode())
    server.will(text("Done."))
    await agent(episode(after(first, "a\n")))
    _, _, said, shown = server.asked[-1]["messages"]
    assert '{"name": "bash", "arguments": {"command": "ls"}}' in said["content"]
    assert "tool_calls" not in said
    assert shown == {"role": "user", "content": "a\n"}


# a server that fails


async def fails(agent: ChatAgent, *turns: Turn) -> DeepGymError:
    with pytest.raises(DeepGymError) as caught:
        await agent(episode(*turns))
    return caught.value


ACTED = after(Reply(calls=(LS,), message={"role": "assistant", "tool_calls": [LS]}), "a")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_a_busy_or_broken_server_is_asked_again(server: Server, status: int) -> None:
    server.will(refusal(status, "later"), refusal(status, "later"), calls(LS))
    assert read(await server.agent()(episode())) == [BASH_LS]
    assert len(server.asked) == 3


@pytest.mark.parametrize("status", [408, 429, 500, 503, 529])
async def test_one_that_stays_so_is_a_failure_of_the_infrastructure(server: Server, status: int) -> None:
    server.will(refusal(status, "no capacity"))
    error = await fails(server.agent(retries=2))
    assert isinstance(error, ProviderError)
    assert (error.status_code, len(server.asked)) == (status, 3)
    assert "no capacity" in str(error)
    assert is_infrastructure_failure(error)
    assert is_infrastructure_failure(pickle.loads(pickle.dumps(error)))


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_infrastructure_at_once_and_is_not_repeated(
    server: Server, status: int
) -> None:
    server.will(refusal(status, "Incorrect API key provided: sk-secret"))
    error = await fails(server.agent(api_key="sk-secret"))
    assert is_infrastructure_failure(error)
    assert len(server.asked) == 1
    assert "sk-secret" not in str(error)
    assert "sk-secret" not in repr(server.agent(api_key="sk-secret"))


BAD_BODIES = [
    b"",
    b"<html>gateway</html>",
    b'{"choices": [',
    b"\xff\xfe",
    b"[]",
    b"null",
    b"5",
    b"{}",
    b'{"choices": null}',
    b'{"choices": []}',
    b'{"choices": {}}',
    b'{"choices": [5]}',
    b'{"choices": [{}]}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": "hi"}]}',
    b'{"error": {"message": "upstream"}}',
    b'{"error": "upstream"}',
    b"[" * 200_000,
    b'{"choices": ' + b"9" * 10_000 + b"}",
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: body[:40].decode("latin-1"))
async def test_a_200_that_is_no_completion_is_the_servers_failure(server: Server, body: bytes) -> None:
    server.will((200, body))
    error = await fails(server.agent(retries=1), ACTED)
    assert isinstance(error, ProviderError)
    assert len(server.asked) == 2
    assert is_infrastructure_failure(error)
    assert "answered 200 with" in str(error)
    assert len(str(error)) < 1200


async def test_an_error_in_the_body_of_a_200_counts_as_what_it_says(server: Server) -> None:
    said = json.dumps({"error": {"code": 429, "message": "slow down"}}).encode()
    server.will((200, said), calls(LS))
    assert read(await server.agent()(episode())) == [BASH_LS]
    server.will((200, json.dumps({"error": {"code": 400, "message": "context"}}).encode()))
    assert isinstance(await fails(server.agent()), ChatRequestError)


async def test_a_huge_body_is_not_read_to_its_end(server: Server) -> None:
    sent = 0

    def flood(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.end_headers()
        try:
            while sent < 1 << 30:
                handler.wfile.write(b" " * (1 << 20))
                sent += 1 << 20
        except OSError:
            pass

    server.will(flood)
    error = await fails(server.agent(retries=0))
    assert is_infrastructure_failure(error)
    assert "more than" in str(error)
    assert sent < 1 << 30


async def test_a_huge_error_body_is_not_read_to_its_end(server: Server) -> None:
    server.will((400, b"x" * (4 << 20)))
    assert len(str(await fails(server.agent()))) < 1200


async def test_a_server_that_gives_no_answer_in_time_is_infrastructure(server: Server) -> None:
    def hang(handler: BaseHTTPRequestHandler) -> None:
        server.released.wait(60)

    server.will(hang)
    error = await fails(server.agent(timeout=1.0))
    assert isinstance(error, ProviderError)
    assert error.timed_out
    assert is_infrastructure_failure(error)
    assert len(server.asked) == 1


async def test_a_server_that_trickles_is_too_slow_as_well(server: Server) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            while not server.released.wait(0.01):
                handler.wfile.write(b" ")
        except OSError:
            pass

    server.will(trickle)
    error = await fails(server.agent(timeout=1.0))
    assert isinstance(error, ProviderError)
    assert error.timed_out


async def test_a_connection_that_breaks_is_tried_again(server: Server) -> None:
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.connection.shutdown(socket.SHUT_RDWR)

    server.will(hang_up, calls(LS))
    assert read(await server.agent()(episode())) == [BASH_LS]
    server.will(hang_up)
    error = await fails(server.agent(retries=1))
    assert isinstance(error, NetworkError)
    assert is_infrastructure_failure(error)


async def test_a_server_that_is_not_there_is_a_network_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        error = await fails(ChatAgent(url, "m", retries=1, backoff=0.0))
    assert isinstance(error, NetworkError)
    assert is_infrastructure_failure(error)
    assert "can't reach 127.0.0.1" in str(error)


async def test_a_body_that_is_not_in_its_encoding_is_the_servers_failure(server: Server) -> None:
    server.will((200, b"no gzip", {"content-encoding": "gzip"}))
    assert is_infrastructure_failure(await fails(server.agent(retries=0)))


@pytest.mark.parametrize("status", [400, 404, 405, 413, 422, 302, 204])
async def test_a_refusal_of_the_first_request_is_for_the_caller_to_see(server: Server, status: int) -> None:
    server.will(refusal(status, "no such model") if status != 204 else (204, b""))
    error = await fails(server.agent())
    assert isinstance(error, ChatRequestError)
    assert not is_infrastructure_failure(error)
    assert (error.status_code, len(server.asked)) == (status, 1)
    assert f"answered {status}" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), type(again)) == (str(error), ChatRequestError)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_context_that_became_too_long_is_not_infrastructure(server: Server, status: int) -> None:
    server.will(refusal(status, "maximum context length is 8192 tokens; a tool message has 9000"))
    error = await fails(server.agent(), ACTED)
    assert isinstance(error, ChatRequestError)
    assert not is_infrastructure_failure(error)


@pytest.mark.parametrize("status", [404, 405, 410, 302])
async def test_a_server_that_forgets_its_model_in_mid_episode_has_failed(server: Server, status: int) -> None:
    server.will(refusal(status, "no such model"))
    assert is_infrastructure_failure(await fails(server.agent(), ACTED))


# waiting


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("7", 7, 7), ("100000", 60, 60), ("0", 0, 0), ("soon", 0, 0), ("-5", 0, 0), ("", 0, 0), ("1e999", 0, 0),
     (formatdate(4e9, usegmt=True), 60, 60), (formatdate(0, usegmt=True), 0, 0)],
)  # fmt: skip
async def test_a_server_may_say_how_long_to_wait_up_to_a_bound(
    server: Server, monkeypatch: pytest.MonkeyPatch, header: str, least: float, most: float
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("deepgym.session.chat_server.pause", sleep)
    server.will(refusal(429, "slow", **{"retry-after": header}), calls(LS))
    await server.agent()(episode())
    assert len(waited) == 1
    assert least <= waited[0] <= most


async def test_a_server_that_does_not_speak_tls_is_a_network_failure(server: Server) -> None:
    agent = ChatAgent(server.url.replace("http:", "https:"), "m", retries=1, backoff=0.0)
    for one in (agent, pickle.loads(pickle.dumps(agent))):
        error = await fails(one)
        assert isinstance(error, NetworkError)
        assert is_infrastructure_failure(error)


async def test_the_wait_grows_and_is_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("deepgym.session.chat_server.pause", sleep)
    server.will(refusal(503, "down"))
    await fails(server.agent(retries=9, backoff=1.0))
    assert len(waited) == 9
    assert all(0 <= seconds <= min(60, 2**number) for number, seconds in enumerate(waited))


# construction


@pytest.mark.parametrize(
    "url", ["", "localhost:8000/v1", "ftp://x/v1", "http://", "http:///v1", "http://x:y"]
)
def test_what_is_no_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        ChatAgent(url, "m")


def test_a_key_that_no_header_can_hold_is_refused_at_once_and_not_shown() -> None:
    with pytest.raises(ValueError, match="api_key") as caught:
        ChatAgent("http://localhost:1/v1", "m", api_key="secret\n")
    assert "secret" not in str(caught.value)


def test_an_unknown_mode_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="'auto', 'native' or 'text'"):
        ChatAgent("http://localhost:1/v1", "m", tools="xml")  # type: ignore[arg-type]


def test_without_httpx_the_line_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError, match=r'pip install "deepgym\[chat\]==1\.'):
        ChatAgent("http://localhost:1/v1", "m")


def test_one_agent_works_in_several_loops_threads_and_copies(server: Server) -> None:
    server.will(calls(LS))
    agent = server.agent()
    copy = pickle.loads(pickle.dumps(agent))
    found: list[Reply] = []

    def work(one: ChatAgent, backend: str) -> None:
        found.append(anyio.run(one, episode(), backend=backend))

    threads = [
        threading.Thread(target=work, args=(one, backend))
        for one in (agent, copy)
        for backend in ("asyncio", "trio")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read(reply) for reply in found] == [[BASH_LS]] * 4


# whole episodes


class Session:
    """Runs nothing and passes what submitted."""

    def __init__(self) -> None:
        self.env = ENV
        self.seed = 0
        self.tools = tool_schemas(ENV.tools)
        self.id: str | None = "box"
        self.ended: Ended | None = None
        self.agent_seconds = self.session_seconds = 0.0
        self.steps = 0

    @property
    def done(self) -> bool:
        return self.ended is not None

    async def reset(self) -> Observation:
        return Observation(text=TASK)

    async def step(self, action: Any, /) -> Observation:
        self.steps += 1
        made, wrong = read_call(action, ENV.tools)
        if made.name == "submit":
            self.ended = "submitted"
        elif self.steps == 5:
            self.ended = "steps"
        return Observation(text=wrong or "fine", invalid=wrong is not None)

    async def score(self) -> RunResult:
        return RunResult(score=1.0, passed=True)

    async def close(self) -> None:
        pass


async def played(server: Server, *replies: Any, **options: Any) -> Trajectory:
    server.will(*replies)
    trajectory = await run_episode(Session, server.agent(**options))
    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory
    return trajectory


async def test_an_episode_is_played_to_its_end(server: Server) -> None:
    trajectory = await played(server, calls(LS), calls(call("submit", {})))
    assert (trajectory.ended, len(trajectory.turns)) == ("submitted", 2)
    assert trajectory.metadata["usage"] == {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
    assert trajectory.result is not None
    assert trajectory.result.reward == 1.0


async def test_a_model_that_only_sends_garbage_runs_into_the_step_limit(server: Server) -> None:
    trajectory = await played(server, calls(call("\x00", "\ud800{" * 50), "x", {"function": None}))
    assert trajectory.ended == "steps"


@pytest.mark.parametrize(
    ("replies", "reward", "ended"),
    [
        ([refusal(503, "down")], None, None),
        ([calls(LS), refusal(503, "down")], None, None),
        ([calls(LS), (200, b"<html>")], None, None),
        ([calls(LS), refusal(404, "model not found")], None, None),
        ([calls(LS), refusal(400, "maximum context length")], 0.0, "agent"),
    ],
)
async def test_whose_failure_it_was_decides_the_verdict(
    server: Server, replies: list[Any], reward: float | None, ended: str | None
) -> None:
    trajectory = await played(server, *replies, retries=1)
    assert trajectory.result is not None
    assert (trajectory.result.reward, trajectory.ended) == (reward, ended)
    assert trajectory.error


async def test_a_wrong_url_is_loud(server: Server) -> None:
    server.will(refusal(404, "Not Found"))
    with pytest.raises(ChatRequestError, match="answered 404: Not Found"):
        await run_episodes([Session() for _ in range(5)], server.agent())


async def test_one_agent_plays_many_episodes_at_a_time(server: Server) -> None:
    def play(handler: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        asked = server.asked[-1]
        turns = sum(message["role"] == "assistant" for message in asked["messages"])
        return calls(LS) if turns < 3 else calls(call("submit", {}))

    steps: Callable[[Trajectory], int] = lambda one: sum(len(turn.calls) for turn in one.turns)  # noqa: E731
    server.will(play)
    found = await run_episodes([Session() for _ in range(8)], server.agent(), max_parallel=1)
    assert [(steps(one), one.ended) for one in found] == [(4, "submitted")] * 8
    server.will(calls(LS))
    found = await run_episodes([Session() for _ in range(8)], server.agent(), max_parallel=8)
    assert [(steps(one), one.ended) for one in found] == [(5, "steps")] * 8


# on real sandboxes


@pytest.fixture
def real() -> MultiTurnEnvironment:
    source = "def verify(work):\n    return work.exists('done') and work.text('done') == 'it is\\n'\n"
    return MultiTurnEnvironment(
        name="folder", task=TASK, verify=Program(source=source), limits=EpisodeLimits(steps=4)
    )


@pytest.mark.local_sandbox
@pytest.mark.parametrize(
    ("replies", "reward", "ended"),
    [
        ([calls(call("write_file", {"path": "done", "content": "it is\n"})), calls(call("submit", {}))], 1.0, "submitted"),
        ([text(f"{FENCE}bash\ncat > done <<E\nit is\nE\n{FENCE}"), text("Done.")], 1.0, "submitted"),
        ([text(f"{FENCE}python\nopen('done', 'w').write('it was')\n{FENCE}"), text("Done.")], 0.0, "submitted"),
        ([calls(call("bash", '{"command": '))], 0.0, "steps"),
        ([calls(call("bash", {"command": "echo it is > done"})), refusal(400, "context length")], 0.0, "agent"),
        ([calls(call("bash", {"command": "echo it is > done"})), refusal(503, "down")], None, None),
        ([text("I give up.")], 0.0, "submitted"),
    ],
)  # fmt: skip
async def test_a_model_works_in_a_real_sandbox(
    server: Server, real: MultiTurnEnvironment, replies: list[Any], reward: float | None, ended: str | None
) -> None:
    server.will(*replies)
    async with AsyncDeepGym() as dg:
        trajectory = await dg.run_episode(real, server.agent(retries=0))
    assert trajectory.result is not None
    assert (trajectory.result.reward, trajectory.ended) == (reward, ended)
    assert (trajectory.env_name, trajectory.env_digest) == (real.name, real.digest)
    assert Trajectory.model_validate_json(trajectory.model_dump_json()) == trajectory


@pytest.mark.local_sandbox
async def test_the_model_sees_what_its_commands_printed(server: Server, real: MultiTurnEnvironment) -> None:
    server.will(calls(call("bash", {"command": "echo \u65e5\u672c; exit 3"})), text("Done."))
    async with AsyncDeepGym() as dg:
        await dg.run_episode(real, server.agent())
    shown = server.asked[1]["messages"][-1]
    assert shown["role"] == "tool"
    assert "\u65e5\u672c\n" in shown["content"]
    assert "3" in shown["content"]
