"""The endpoint that OpenRLHF's trainer asks for rewards, as a router and as an app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from deepgym.integrations.labels import Envs

from .endpoint import Endpoint, json_answer

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym

__all__ = ["PATH", "Endpoint", "create_app", "create_openrlhf_router"]

#: Where rewards are asked for.
PATH = "/get_reward"
#: Names of environments that are told, at most.
_NAMES = 20


def create_openrlhf_router(
    envs: Envs = None, dg: AsyncDeepGym | None = None, *, infra_failure_score: object, **options: Any
) -> APIRouter:
    """A router with ``POST /get_reward``, ``GET /health`` and ``GET /metrics``, for an app of yours.

    When the app is shut down, ``router.endpoint.close()`` answers what is held; a FastAPI that leaves out the
    lifespan of a router that it includes has to be told to call it.

    Args:
        envs: The environment of every sample; or several, or a suite, of which a sample's label names one; or
            ``None``: a label may name any built-in one.
        dg: The client; by default one with the local sandbox.
        infra_failure_score: What a sample without a verdict gets: a number, ``"group_mean"``,
            ``"drop_group"`` or ``"unsafe_nan"`` (see ``deepgym_openrlhf.failure``).
        options: ``group_size`` (the trainer's ``n_samples_per_prompt``, which lets a sample without a
            verdict wait for siblings that are still being generated), ``sibling_wait`` (seconds for which
            such a group is waited for), ``max_parallel`` (runs at once), ``token`` (what a request must know;
            without one only this machine may ask), ``max_body`` (bytes) and ``budget`` (seconds from a
            request's arrival to its answer; OpenRLHF's five attempts by default).

    Raises:
        ValueError: ``infra_failure_score`` is none, or an environment's limits don't fit into the time for
            which OpenRLHF waits.
        TypeError: ``dg`` isn't an ``AsyncDeepGym``.
        UnknownNameError, InvalidEnvironmentError: there is no such environment.
    """
    endpoint = Endpoint(envs, dg, infra_failure_score=infra_failure_score, **options)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await endpoint.close()

    router = APIRouter(lifespan=lifespan)
    router.add_route(PATH, endpoint.reward, methods=["POST"])
    router.add_route("/", endpoint.reward, methods=["POST"])

    async def health(request: Request) -> Response:
        status = "stopping" if endpoint.grading.stopped else "ok"
        found: dict[str, object] = {"status": status, "waiting": endpoint.attempts.going}
        if endpoint.enters(request):
            found["environments"] = [env.name for env in endpoint.grading.labels.declared[:_NAMES]]
        return json_answer(found)

    async def metrics(request: Request) -> Response:
        if not endpoint.enters(request):
            return PlainTextResponse("the token is missing or wrong", status_code=401)
        gauges = {
            "open_requests": endpoint.attempts.going,
            "left_requests": endpoint.attempts.left,
            "held_bytes": endpoint.room.taken,
        }
        return PlainTextResponse(endpoint.grading.tally.text(**gauges))

    router.add_route("/health", health, methods=["GET"])
    router.add_route("/metrics", metrics, methods=["GET"])
    router.endpoint = endpoint  # type: ignore[attr-defined]
    return router


def create_app(
    envs: Envs = None, dg: AsyncDeepGym | None = None, *, infra_failure_score: object, **options: Any
) -> FastAPI:
    """An app with this router alone; arguments and errors are those of ``create_openrlhf_router``."""
    router = create_openrlhf_router(envs, dg, infra_failure_score=infra_failure_score, **options)
    # Older versions of FastAPI leave out the lifespan of a router that they include.
    app = FastAPI(
        title="DeepGym rewards for OpenRLHF",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=router.lifespan_context,
    )
    app.include_router(router)
    app.state.endpoint = router.endpoint  # type: ignore[attr-defined]
    return app
