"""Thousands of requests at once: none is lost or swapped, and none stands in another's way."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deepgym import AsyncDeepGym
from deepgym.testing.fakes import FakeProvider
from deepgym.testing.laws import ADD, GOOD, HALF, SCRIPT
from deepgym_openrlhf import create_app

MANY = 2000

Serve = Callable[..., Any]


#: An endpoint whose judge waits for somebody to ask for ``/open``; the score of each answer is what it returns.
_PROGRAM = """
import runpy, sys, uvicorn
from deepgym import AsyncDeepGym
from deepgym.testing.behaviours import Behaviour
from deepgym.testing.laws import PROGRAM
from deepgym_openrlhf import create_app
many = int(sys.argv[3])
codes = {f"def add(a, b):\\n    return {n}": Behaviour.reports(n / many, False) for n in range(many)}
gate = runpy.run_path(sys.argv[1])["Gate"](codes, slots=16)
app = create_app(PROGRAM, AsyncDeepGym(provider=gate), infra_failure_score=-1.0)

@app.get("/open")
async def open_gate() -> dict[str, int]:
    gate.open_gate()
    return {"busiest": gate.busiest, "runs": sum(gate.started.values()), "most": max(gate.started.values(), default=0)}

print("here", flush=True)
uvicorn.run(app, port=int(sys.argv[2]), log_config=None, backlog=4096)
"""


def status_of(pid: int, name: str) -> int:
    """A number out of a process's status: ``VmRSS`` and ``VmHWM`` are kilobytes."""
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@pytest.fixture
def open_files() -> Any:
    """Two thousand connections have two ends each in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * MANY + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"this process may open {hard} files, and {needed} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_thousand_at_once_are_answered_each_with_its_own_score(
    client: SimpleNamespace, open_files: None
) -> None:
    import aiohttp

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    here = str(Path(__file__).with_name("conftest.py"))
    command = [sys.executable, "-c", _PROGRAM, here, str(port), str(MANY)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    padding = "\nand so on" * 500

    async def asked(session: Any, path: str) -> Any:
        try:
            async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                return await answer.json() if path != "metrics" else await answer.text()
        except aiohttp.ClientError:
            return None

    async def main() -> tuple[list[dict[str, Any]], Any, str, int]:
        trainer = client.Trainer(f"http://127.0.0.1:{port}/get_reward")
        async with aiohttp.ClientSession() as session:
            while await asked(session, "health") is None:
                await asyncio.sleep(0.02)
            before = status_of(process.pid, "VmRSS")
            samples = [
                asyncio.ensure_future(
                    trainer.sample(
                        client.fenced(f"def add(a, b):\n    return {n}"), {"n": n}, f"p{n}{padding}\n"
                    )
                )
                for n in range(MANY)
            ]
            while (await asked(session, "health"))["waiting"] < MANY:
                await asyncio.sleep(0.05)
            held = await asked(session, "metrics")
            await asked(session, "open")
            found = await asyncio.gather(*samples)
            return found, await asked(session, "open"), held, status_of(process.pid, "VmHWM") - before

    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        found, counts, held, grown = asyncio.run(main())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert [sample["reward"] for sample in found] == [[number / MANY] for number in range(MANY)]
    assert {sample["extra_logs"]["deepgym_verdict"][0] for sample in found} == {1.0}
    assert counts["runs"] == MANY
    assert counts["most"] == 1
    assert counts["busiest"] <= 16
    # Of 20 MB of bodies the code is kept: some thirty bytes of each.
    assert f"deepgym_open_requests {MANY}\n" in held
    assert MANY * 29 < int(re.findall(r"deepgym_held_bytes (\d+)", held)[0]) < MANY * 33
    # 43 KB a connection were measured, most of it the server's own.
    assert grown < MANY * 100


def test_when_the_room_is_full_requests_wait_unread_and_are_answered_all_the_same(
    client: SimpleNamespace, serve: Serve, kit: SimpleNamespace
) -> None:
    def build() -> Any:
        app = create_app(ADD, AsyncDeepGym(provider=kit.Gate(shut=False)), infra_failure_score=-1.0)
        app.state.endpoint.room.size = 150_000
        return app

    served = serve(build)

    async def main() -> list[dict[str, Any]]:
        trainer = client.Trainer(served.url)
        codes = [HALF, GOOD] * 30
        prompts = [f"{number}{'x' * 60_000}\n" for number in range(60)]
        return await asyncio.gather(
            *(trainer.sample(client.fenced(code), prompt=p) for code, p in zip(codes, prompts, strict=True))
        )

    assert [sample["reward"] for sample in asyncio.run(main())] == [[0.5], [1.0]] * 30
    assert served.endpoint.room.taken == 0


def test_bodies_that_are_half_sent_dont_block_others_and_leave_nothing_behind(
    client: SimpleNamespace, serve: Serve
) -> None:
    served = serve(
        lambda: create_app(ADD, AsyncDeepGym(provider=FakeProvider(SCRIPT)), infra_failure_score=-1.0)
    )
    head = f"POST /get_reward HTTP/1.1\r\nHost: x\r\nContent-Length: {60 << 20}\r\n\r\n".encode()

    async def main() -> None:
        slow = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(64)]
        for _, writer in slow:
            writer.write(head + b'{"query": ["')
            await writer.drain()
        headless = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(64)]
        for _, writer in headless:
            writer.write(head[:20])
        trainer = client.Trainer(served.url)
        found = await asyncio.gather(*(trainer.sample(client.fenced(HALF)) for _ in range(64)))
        assert [sample["reward"] for sample in found] == [[0.5]] * 64
        while served.endpoint.room.taken < 64 * 12:
            await asyncio.sleep(0.01)
        for _, writer in [*slow, *headless]:
            writer.close()
            await writer.wait_closed()
        while served.endpoint.room.taken:
            await asyncio.sleep(0.01)

    asyncio.run(main())


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_beyond_the_limit_is_told_so(client: SimpleNamespace, serve: Serve, announced: bool) -> None:
    import aiohttp

    served = serve(
        lambda: create_app(
            ADD, AsyncDeepGym(provider=FakeProvider(SCRIPT)), infra_failure_score=-1.0, max_body=1 << 20
        )
    )
    body = json.dumps({"query": ["x" * (2 << 20)]}).encode()

    async def pieces() -> Any:
        for start in range(0, len(body), 1 << 16):
            yield body[start : start + (1 << 16)]

    async def main() -> int:
        data = io.BytesIO(body) if announced else pieces()
        async with aiohttp.ClientSession() as session, session.post(served.url, data=data) as answer:
            return answer.status

    assert asyncio.run(main()) == 413


def test_this_process_isnt_left_with_open_connections(client: SimpleNamespace, serve: Serve) -> None:
    served = serve(
        lambda: create_app(ADD, AsyncDeepGym(provider=FakeProvider(SCRIPT)), infra_failure_score=-1.0)
    )

    async def main() -> None:
        trainer = client.Trainer(served.url)
        await trainer.sample(client.fenced(GOOD))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            await asyncio.gather(*(trainer.sample(client.fenced(GOOD)) for _ in range(20)))
        while len(os.listdir("/proc/self/fd")) > before + 2:
            await asyncio.sleep(0.01)

    asyncio.run(main())
