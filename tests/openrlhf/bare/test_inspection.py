"""``deepgym openrlhf check`` against endpoints that are right, and against each that isn't."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response

from deepgym.cli.outcome import UsageError
from deepgym.environments import load_environment
from deepgym.exceptions import UnknownNameError
from deepgym.plugins import Finding
from deepgym_openrlhf.asking import Asked, body
from deepgym_openrlhf.inspection import inspected

ENV = "two_sum"
RIGHT = (load_environment(ENV).reference or "").strip()
#: Right answers of this endpoint: the reference behind the prompt's last word.
TURN = "<|im_start|>assistant\n"


def rewards(data: dict[str, Any]) -> list[float]:
    """What a right endpoint gives: a query's text behind its last turn is the reference, or it isn't."""
    return [float(RIGHT in query.rpartition(TURN)[2]) for query in data["query"]]


def well(data: dict[str, Any]) -> dict[str, Any]:
    """A right endpoint's answer."""
    found = rewards(data)
    logs = {"extra_logs": {"no_verdict": [0.0] * len(found)}} if found else {}
    return {"rewards": found, "scores": found, **logs}


Answering = Callable[[dict[str, Any]], Any]


@contextmanager
def endpoint(
    answering: Answering = well, *, health: Any = None, token: str | None = None, strict: bool = True
) -> Iterator[str]:
    """The address of an endpoint that answers so; what isn't a request of OpenRLHF's is 422 if ``strict``."""
    app = FastAPI()

    @app.post("/get_reward")
    async def reward(request: Request) -> Response:
        if token is not None and request.headers.get("authorization") != Asked(url).authorization:
            return Response(status_code=401)
        try:
            data = json.loads(await request.body())
            fits = {len(data["query"]), len(data["prompts"]), len(data["labels"])} == {len(data["query"])}
        except (ValueError, TypeError, KeyError):
            fits = False
        if not fits:
            return Response("no", status_code=422 if strict else 200)
        found = answering(data)
        if isinstance(found, Response):
            return found
        return Response(json.dumps(found), media_type="application/json")

    @app.get("/health")
    async def healthy() -> Any:
        return health

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    user = "" if token is None else f"deepgym:{token}@"
    url = f"http://{user}127.0.0.1:{listener.getsockname()[1]}/get_reward"
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(uvicorn.Config(app, log_config=None, log_level="critical"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        assert started.wait(60)
        yield url
    finally:
        server.should_exit = True
        thread.join(60)


def failed(url: str, env: str | None = ENV) -> dict[str, str]:
    """What doesn't hold at ``url``, and why."""
    return {one.name: one.detail for one in inspected(url, env=env) if one.status == "fail"}


def test_a_right_endpoint_passes_all_of_it() -> None:
    with endpoint() as url:
        found = list(inspected(url, env=ENV))
    assert {one.name: one.detail for one in found if one.status != "ok"} == {}
    assert len(found) == 14


def test_an_endpoint_that_names_its_environment_needs_no_option() -> None:
    with endpoint(health={"environments": [ENV, "coin_change"]}) as url:
        assert "a right answer" in [one.name for one in inspected(url) if one.status == "ok"]


@pytest.mark.parametrize("health", [None, [], {"environments": 3}, {"environments": ["no_such_thing"]}])
def test_without_an_environment_the_shapes_are_tried_and_it_says_what_was_not(health: Any) -> None:
    with endpoint(health=health) as url:
        found = list(inspected(url))
    (warned,) = [one for one in found if one.status != "ok"]
    assert (warned.name, warned.status, warned.remedy) == ("a right answer", "warn", "name one: --env NAME")
    assert len(found) == 11


def change(**changed: Any) -> Answering:
    return lambda data: {**well(data), **changed}


SHAPES: dict[str, tuple[Answering, str]] = {
    "null": (change(rewards=[None], scores=[None]), "rewards holds something else than finite floats"),
    "a bare number": (change(rewards=0.5), "rewards is no list of 1"),
    "too many": (change(rewards=[0.5, 0.5]), "rewards is no list of 1"),
    "no scores": (lambda data: {"rewards": rewards(data)}, "scores is no list of 1"),
    "whole numbers": (change(rewards=[1], scores=[1]), "rewards holds something else than finite floats"),
    "not a number": (change(rewards=[float("nan")]), "rewards holds something else than finite floats"),
    "a log of text": (change(extra_logs={"why": ["lost"]}), "extra_logs.why holds something else"),
    "a log of nothing": (change(extra_logs={"why": None}), "extra_logs.why is no list of 1"),
    "logs in a list": (change(extra_logs=[]), "extra_logs is no object"),
    "text": (lambda data: Response(json.dumps(well(data)), media_type="text/plain"), "text/plain"),
    "an empty body": (lambda data: Response(b"", media_type="application/json"), "not a JSON object"),
}


@pytest.mark.parametrize(("answering", "why"), SHAPES.values(), ids=SHAPES)
def test_a_shape_that_ends_a_training_run_is_found(answering: Answering, why: str) -> None:
    with endpoint(answering) as url:
        assert why in failed(url)["one query"]


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
def test_a_status_that_is_not_200_ends_the_check_at_once(status: int) -> None:
    with endpoint(lambda data: Response("why", status_code=status)) as url:
        (finding,) = inspected(url, env=ENV)
    assert (finding.status, finding.detail) == ("fail", f"HTTP {status}: why")


def only(name: str, answering: Answering) -> str:
    with endpoint(answering) as url:
        found = failed(url)
    assert list(found) == [name]
    return found[name]


def test_an_empty_request_that_is_refused_is_found() -> None:
    why = only("an empty request", lambda data: well(data) if data["query"] else Response("no", 422))
    assert why.startswith("HTTP 422: no: OpenRLHF would send this five times")


def test_an_empty_request_with_rewards_is_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        return well(data) if data["query"] else {"rewards": [0.0], "scores": [0.0]}

    assert only("an empty request", answering).startswith("not empty lists but")


def test_a_prompt_that_is_graded_as_if_the_policy_had_written_it_is_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        found = [float(RIGHT in query) for query in data["query"]]
        return {"rewards": found, "scores": found}

    with endpoint(answering) as url:
        assert set(failed(url)) == {"an empty answer", "a prompt that was cut from the left"}


def test_special_tokens_that_stay_are_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        right = zip(rewards(data), data["query"], strict=True)
        found = [0.0 if query.startswith("<s>") else value for value, query in right]
        return {"rewards": found, "scores": found}

    assert only("special tokens", answering).startswith("rewards [0.0], not [1.0]")


def test_an_unknown_label_that_is_an_error_is_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        return Response("?", 500) if "no_such_environment_anywhere" in data["labels"] else well(data)

    assert only("labels", answering).startswith("HTTP 500")


def test_odd_text_that_is_an_error_is_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        return Response("?", 500) if any("\x00" in query for query in data["query"]) else well(data)

    assert only("odd text", answering).startswith("HTTP 500")


def test_an_endpoint_that_knows_one_query_a_request_is_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        found = well(data)
        return {name: value[:1] if isinstance(value, list) else value for name, value in found.items()}

    assert "rewards is no list of 3" in only("several queries in one request", answering)


def test_rewards_that_are_swapped_under_load_are_found() -> None:
    def answering(data: dict[str, Any]) -> Any:
        found = well(data)
        if re.search(TURN.replace("|", r"\|") + r"41\n", "".join(data["query"])):
            found["rewards"] = found["scores"] = [0.0]
        return found

    assert only("64 requests at once", answering).startswith("rewards [0.0], not [1.0]")


def test_the_second_of_two_equal_requests_that_gets_nothing_is_found() -> None:
    seen: list[str] = []

    def answering(data: dict[str, Any]) -> Any:
        seen.append(json.dumps(data))
        # The first was the right answer alone.
        third = seen.count(seen[-1]) == 3 and data["query"][0].endswith(f"{RIGHT}\n\n```")
        return Response("seen", 409) if third else well(data)

    assert only("the same request twice at once", answering).startswith("HTTP 409")


def test_a_judge_that_has_no_verdict_on_a_right_answer_is_found() -> None:
    with endpoint(change(extra_logs={"no_verdict": [1.0]})) as url:
        assert failed(url)["a right answer"].startswith("no verdict: it got [1.0]")


def test_nonsense_that_is_answered_as_if_it_were_a_request_is_found() -> None:
    with endpoint(strict=False) as url:
        assert list(failed(url)) == ["what OpenRLHF can't have sent"]


def test_an_address_with_the_token_is_enough_and_one_without_says_what_is_missing() -> None:
    with endpoint(token="a%2Cb") as url:
        found: dict[str, Finding] = {one.name: one for one in inspected(url, env=ENV)}
        assert found["a request without the token"].detail == "refused with 401"
        assert {one.status for one in found.values()} == {"ok"}
        bare = re.sub("//.*@", "//", url)
        (finding,) = inspected(bare, env=ENV)
        assert (finding.status, finding.detail) == ("fail", "HTTP 401: ")
        assert "token" in finding.remedy
        assert {one.status for one in inspected(bare, env=ENV, token="a,b")} == {"ok"}


def test_an_endpoint_that_takes_requests_without_its_token_is_found() -> None:
    with endpoint() as url:
        with_token = url.replace("//", "//deepgym:secret@")
        assert failed(with_token) == {
            "a request without the token": "HTTP 200: everybody who reaches the endpoint can use it"
        }


def test_an_endpoint_that_is_not_there_is_one_finding() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (finding,) = inspected(f"http://127.0.0.1:{taken.getsockname()[1]}/get_reward", env=ENV)
    assert (finding.name, finding.status) == ("one query", "fail")
    assert "ConnectionRefusedError" in finding.detail
    assert "deepgym openrlhf serve" in finding.remedy


@pytest.mark.parametrize("url", ["", "127.0.0.1:5000", "ftp://h/", "http://", "http://h:port/", "agent.py"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        list(inspected(url))


def test_an_unknown_environment_and_one_without_a_reference_are_refused(tmp_path: Any) -> None:
    (tmp_path / "environment.toml").write_text(
        'name = "bare"\ntask = "t"\n[verify]\nkind = "cases"\nfunction = "f"\ncases = [{ args = [1], expected = 1 }]\n'
    )
    with endpoint() as url:
        with pytest.raises(UnknownNameError, match="two_sum"):
            list(inspected(url, env="two_sam"))
        with pytest.raises(UsageError, match="bare has no reference"):
            list(inspected(url, env=str(tmp_path)))


def test_a_body_has_the_prompt_before_its_response_and_a_label_for_each() -> None:
    assert json.loads(body(("p", "r", None), ("q", "s", {"env": "e"}))) == {
        "query": ["pr", "qs"],
        "prompts": ["p", "q"],
        "labels": [None, {"env": "e"}],
    }
