"""What becomes of one request of OpenRLHF's trainer.

An endpoint answers every request that OpenRLHF can send with HTTP 200 and finite numbers, because anything
else is sent again and, after the fifth time, ends the training run.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from deepgym.integrations.labels import Envs, Labels

from .access import checked_token, may_enter
from .attempts import BUDGET, Attempts, Work
from .failure import checked
from .grading import Grading
from .room import Claim, GoneError, Room, SlowError, TooLongError
from .samples import Sample
from .wire import MAX_BODY, BadRequestError, read

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from deepgym.client import AsyncDeepGym

__all__ = ["Endpoint", "json_answer"]

logger = logging.getLogger(__name__)

#: Bytes of requests that are held at once; what comes beyond stays unread.
_HELD = 1 << 30
#: Bytes of a body from which on it is read in a thread, so that others don't wait for it.
_LARGE = 1 << 18
#: Seconds that work which was given up may take to say so.
_SETTLING = 10.0


class Endpoint:
    """What a router's requests share: the judge, the attempts that are going on, and the counters.

    Belongs to one event loop, and to one process: a server with several workers would have as many, and none
    would know the others' attempts and siblings.
    """

    def __init__(
        self,
        envs: Envs = None,
        dg: AsyncDeepGym | None = None,
        *,
        infra_failure_score: object,
        group_size: int | None = None,
        max_parallel: int | None = None,
        sibling_wait: float = 120.0,
        token: str | None = None,
        max_body: int = MAX_BODY,
        budget: float = BUDGET,
    ) -> None:
        self.token = checked_token(token)
        self.room = Room(max(_HELD, max_body), max_body)
        self.attempts: Attempts[bytes] = Attempts()
        self._sending: set[Response] = set()
        self.grading = Grading(
            Labels(envs),
            dg,
            checked(infra_failure_score),
            group_size=group_size,
            max_parallel=max_parallel,
            sibling_wait=sibling_wait,
            budget=budget,
        )

    async def reward(self, request: Request) -> Response:
        """Answer one request of the trainer's."""
        arrived, tally = time.monotonic(), self.grading.tally
        tally.requests += 1
        if not self.enters(request):
            return self._refused(401, "the token is missing or wrong", {"www-authenticate": "Basic"})
        claim = self.room.claim()
        try:
            body = await claim.body(request.receive, request.headers.get("content-length"))
            key, samples = await self._understood(body)
        except GoneError:
            return _nobody()
        except TooLongError:
            return self._refused(413, f"the body is longer than {self.room.most} bytes")
        except SlowError:
            return self._refused(408, "the rest of the body didn't come", {"connection": "close"})
        except BadRequestError as error:
            claim.keep(0)
            return self._refused(422, str(error))
        except BaseException:
            claim.keep(0)
            raise
        del body
        if not samples:
            claim.keep(0)
            tally.empty += 1
            return json_answer({"rewards": [], "scores": []})
        return await self._answered(request, self._work(key, samples, arrived, claim))

    def enters(self, request: Request) -> bool:
        """Whether the request may be answered."""
        return may_enter(self.token, request.headers.get("authorization"), request.scope.get("server"))

    async def close(self) -> None:
        """Answer what is held as what has no verdict, and close what was opened here."""
        self.grading.stop()
        await self.attempts.settle(_SETTLING)
        late = time.monotonic() + _SETTLING
        while (self.attempts.going or self._sending) and time.monotonic() < late:
            await asyncio.sleep(0.01)
        await self.grading.close()

    async def _understood(self, body: bytes) -> tuple[bytes, list[Sample]]:
        if len(body) < _LARGE:
            return self._read(body)
        return await asyncio.to_thread(self._read, body)

    def _read(self, body: bytes) -> tuple[bytes, list[Sample]]:
        samples = [self.grading.sample(query) for query in read(body)]
        return hashlib.sha256(body).digest(), samples

    def _work(self, key: bytes, samples: Sequence[Sample], arrived: float, claim: Claim) -> Work[bytes]:
        async def begin(stop: asyncio.Future[None]) -> bytes:
            return _encoded(await self.grading.answer(samples, arrived, stop))

        work, again = self.attempts.attach(key, begin)
        self.grading.tally.reattached += again
        claim.keep(0 if again else sum(sample.size for sample in samples))
        if not again:
            work.task.add_done_callback(lambda _: claim.keep(0))
        return work

    async def _answered(self, request: Request, work: Work[bytes]) -> Response:
        leaving = asyncio.create_task(_left(request))
        try:
            await asyncio.wait({work.task, leaving}, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # whoever left at this very moment has left
        except asyncio.CancelledError:
            # The server ends this request. If its client is still there, it is better answered now than not.
            if leaving.done():
                self.attempts.gone(work)
                raise
            work.give_up()
            try:
                await asyncio.wait({work.task}, timeout=_SETTLING)
            except asyncio.CancelledError:
                self.attempts.gone(work)
                raise
        finally:
            gone = leaving.done()
            leaving.cancel()
        if gone or not work.task.done():
            self.attempts.gone(work)
            return _nobody()
        self.attempts.answered(work)
        return _Answer(work.task.result(), self._sending)

    def _refused(self, status: int, why: str, headers: dict[str, str] | None = None) -> Response:
        self.grading.tally.refused += 1
        logger.warning("a request was refused with HTTP %d: %s", status, ascii(why))
        return JSONResponse({"detail": why}, status_code=status, headers=headers)


class _Answer(Response):
    """An answer that stands in ``sending`` until it is sent: a server that stops has to wait for that."""

    media_type = "application/json"

    def __init__(self, content: bytes, sending: set[Response]) -> None:
        super().__init__(content)
        self._sending = sending
        sending.add(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._sending.discard(self)


async def _left(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _nobody() -> Response:
    """What is said to a client that isn't there any more."""
    return Response(status_code=499)


def json_answer(content: object) -> Response:
    """``content`` as JSON."""
    return Response(_encoded(content), media_type="application/json")


def _encoded(content: object) -> bytes:
    # Not a number is sent only where it was asked for by its unsafe name.
    return json.dumps(content, separators=(",", ":")).encode()
