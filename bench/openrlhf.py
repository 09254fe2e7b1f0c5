"""What the endpoint for OpenRLHF costs beside grading the same answers with ``run_batch``.

    python bench/openrlhf.py [--rounds 7] [--requests 256] [--profile] [--json]

256 requests at once, each with its own connection and a different answer to ``coin_change`` with 25 cases,
against one batch of the same answers. CPU milliseconds of the server and its judge, medians over interleaved
rounds; the client is a process of its own and isn't counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn

sys.path.insert(0, str(Path(__file__).parent))

from meter import Meter

from deepgym import AsyncDeepGym, load_environment
from deepgym.environments import Cases, Environment
from deepgym_openrlhf import create_app

#: What an endpoint may cost, as a multiple of the batch's CPU time.
TARGET = 1.15
PROMPT = "<|im_start|>user\nWrite the function.\n<|im_end|>\n<|im_start|>assistant\n"

#: Sends the requests that it is told to, all at once, and says what they earned.
CLIENT = """
import asyncio, json, sys

async def ask(port, body):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /get_reward HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Type: application/json\\r\\n"
    writer.write(f"{head}Content-Length: {len(body)}\\r\\n\\r\\n".encode() + body)
    answer = await reader.readuntil(b"\\r\\n\\r\\n")
    size = next(int(line[15:]) for line in answer.lower().splitlines() if line.startswith(b"content-length:"))
    found = json.loads(await reader.readexactly(size))
    writer.close()
    return found["rewards"][0]

async def all_of(port, bodies):
    return await asyncio.gather(*(ask(port, body) for body in bodies))

for line in sys.stdin:
    port, bodies = json.loads(line)
    print(json.dumps(asyncio.run(all_of(port, [body.encode() for body in bodies]))), flush=True)
"""


def environment() -> Environment:
    """``coin_change`` with 25 cases."""
    env = load_environment("coin_change")
    assert isinstance(env.verify, Cases)
    cases = (env.verify.cases * 25)[:25]
    return env.model_copy(update={"verify": env.verify.model_copy(update={"cases": cases})})


def answers(env: Environment, count: int, turn: int) -> list[str]:
    """So many right answers, no two of them the same."""
    return [f"{env.reference}\n# {turn} {number}\n" for number in range(count)]


def body(answer: str) -> str:
    """The request that OpenRLHF sends for an answer."""
    query = f"{PROMPT}Like this:\n```python\n{answer}```\n<|im_end|>"
    return json.dumps({"query": [query], "prompts": [PROMPT], "labels": [None]})


class Client:
    """The process that asks."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", CLIENT]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, line: str) -> list[float]:
        """What the requests of a line (see ``CLIENT``) earned."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
        found: list[float] = json.loads(self.process.stdout.readline())
        return found

    def close(self) -> None:
        """End it."""
        self.process.communicate()


async def measured(
    meter: Meter, client: Client, rounds: int, requests: int, profile: bool
) -> dict[str, dict[str, float]]:
    """Median CPU and wall milliseconds of both ways."""
    env = environment()
    async with AsyncDeepGym() as dg:
        app = create_app(env, dg, infra_failure_score="group_mean")
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, backlog=4096))
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]

        async def endpoint(codes: list[str]) -> list[float]:
            return await asyncio.to_thread(client.ask, codes[0])

        def line(codes: list[str]) -> str:
            return json.dumps([port, [body(code) for code in codes]]) + "\n"

        async def batch(codes: list[str]) -> list[float]:
            return [result.score for result in (await dg.run_batch(env, codes)).results]

        ways: dict[str, Callable[[list[str]], Awaitable[list[float]]]] = {
            "run_batch": batch,
            "endpoint": endpoint,
        }
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        wall: dict[str, list[float]] = {name: [] for name in ways}
        for turn in range(rounds + 1):
            for name, way in ways.items():
                codes = answers(env, requests, turn)
                if way is endpoint:
                    codes = [line(codes)]  # the trainer's work, not the server's
                before, began = meter.read(), time.perf_counter()
                found = await way(codes)
                spent, took = meter.read() - before, (time.perf_counter() - began) * 1000.0
                assert found == [1.0] * requests
                if turn:  # the first round warms up
                    cpu[name].append(spent)
                    wall[name].append(took)
        if profile:
            await profiled(endpoint, [line(answers(env, requests, rounds + 1))])
        server.should_exit = True
        await serving
    return {
        name: {
            "cpu_ms": statistics.median(cpu[name]) / requests,
            "wall_ms": statistics.median(wall[name]) / requests,
        }
        for name in ways
    }


async def profiled(way: Callable[[list[str]], Awaitable[list[float]]], codes: list[str]) -> None:
    """Print where the event loop's time goes."""
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    profiler.enable()
    await way(codes)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--requests", type=int, default=256)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--guard", action="store_true", help="fail if the endpoint costs more than the target"
    )
    options = parser.parse_args()
    client = Client()  # before the meter, which counts this process and what it starts from then on
    meter = Meter()
    try:
        found = asyncio.run(measured(meter, client, options.rounds, options.requests, options.profile))
    finally:
        meter.close()
        client.close()
    ratio = found["endpoint"]["cpu_ms"] / found["run_batch"]["cpu_ms"]
    if options.json:
        print(json.dumps({**found, "ratio": ratio, "exact": meter.exact}))
    else:
        for name, numbers in found.items():
            cpu, wall = numbers["cpu_ms"], numbers["wall_ms"]
            print(f"{name:10} {cpu:7.2f} ms CPU  {wall:7.2f} ms wall, each of {options.requests}")
        roughly = "" if meter.exact else ", roughly"
        print(f"the endpoint costs {ratio:.2f} x the batch's CPU time (target {TARGET}){roughly}")
    if options.guard and ratio > TARGET:
        raise SystemExit(f"{ratio:.2f} is more than {TARGET}")


if __name__ == "__main__":
    main()
