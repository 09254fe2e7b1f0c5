"""``deepgym openrlhf check``: what the trainer sends, sent to an endpoint, and whether that holds."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from deepgym.cli.outcome import UsageError
from deepgym.plugins import Finding

from .asking import Answer, Asked, body, request
from .wire import PAUSE

if TYPE_CHECKING:
    from deepgym.environments import Environment

__all__ = ["AT_ONCE", "inspected", "shape"]

#: Requests that are open at once.
AT_ONCE = 64
_PROMPT = "<|im_start|>user\nSolve the task in Python.\n{shown}<|im_end|>\n<|im_start|>assistant\n"
#: Where a client is when it gives an answer up; a real one waits for 180 s.
_PATIENCE = 0.5
#: A start that outlasts it.
_SLOW = "import time\ntime.sleep(1.5)\n"
_REATTACHED = re.compile(r"^deepgym_reattached_requests_total (\d+)", re.MULTILINE)
_LEFT = re.compile(r"^deepgym_left_requests (\d+)", re.MULTILINE)
_RUNS_ON = "the training run goes on"
_ENDS = "OpenRLHF would send this five times, and then the training run would end"


class Failed(Exception):
    """Something that doesn't hold; the text says what."""


def inspected(url: str, *, env: str | None = None, token: str | None = None) -> Iterator[Finding]:
    """Each thing that was tried, and how it stands.

    Args:
        url: The endpoint's address, as the trainer is given it.
        env: An environment that it serves. It needs a reference, which is what a right answer is taken from.
        token: The endpoint's, if the address doesn't hold it.

    Raises:
        UsageError: ``url`` is no address, or ``env`` has no reference.
        UnknownNameError, InvalidEnvironmentError: there is no such environment.
    """
    try:
        asked = Asked(url, token)
    except ValueError as error:
        raise UsageError(str(error)) from error
    first = asked.post(body(_sample("", env)))
    if first.status != 200:
        yield Finding("one query", "fail", _why(first), _remedy(first))
        return
    yield _finding("one query", lambda: f"HTTP 200, {_described(shape(first, 1))}")
    name = env or _named_by(asked)
    found = _reference(name, required=env is not None)
    if found is None:
        detail = "not tried, for want of an environment with a reference that it serves"
        yield Finding("a right answer", "warn", detail, "name one: --env NAME")
    inspection = Inspection(asked, found, label=name)
    for what, question in inspection.questions():
        yield _finding(what, question)


class Inspection:
    """Questions to one endpoint. Each returns what was found, or raises ``Failed``."""

    def __init__(self, asked: Asked, env: Environment | None, label: str | None) -> None:
        self.asked, self.env, self.label = asked, env, label
        self.right = "" if env is None else f"```python\n{env.reference}\n```"

    def questions(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Those that can be asked."""
        if self.env is not None:
            yield "a right answer", self.right_answer
            yield "a prompt that was cut from the left", self.cut_prompt
            yield "special tokens", self.special_tokens
        yield "a wrong answer", self.wrong_answer
        yield "an empty answer", self.empty_answer
        yield "labels", self.labels
        yield "odd text", self.odd_text
        yield "several queries in one request", self.several
        yield "an empty request", self.empty_request
        yield f"{AT_ONCE} requests at once", self.at_once
        yield "the same request twice at once", self.twice
        if self.env is not None:
            yield "an attempt that was given up, again", self.again
        yield "what OpenRLHF can't have sent", self.nonsense
        if self.asked.authorization is not None:
            yield "a request without the token", self.stranger

    def right_answer(self) -> str:
        """The reference."""
        return self._scored(self._sample(self.right), 1.0)

    def wrong_answer(self) -> str:
        """Code that does nothing of what was asked."""
        return self._scored(self._sample("```python\nprint('no')\n```"), 0.0)

    def empty_answer(self) -> str:
        """Nothing, behind a prompt that shows a right answer: it isn't the policy's."""
        sample = (_PROMPT.format(shown=self.right), "", self.label)
        return self._scored(sample, 0.0)

    def cut_prompt(self) -> str:
        """A query that begins in the middle of its prompt, which shows a right answer."""
        prompt = _PROMPT.format(shown=f"{'Think before you write. ' * 20}This is no answer:\n{self.right}\n")
        for response, expected in ((self.right, 1.0), ("I don't know.", 0.0)):
            query = prompt[200:] + response
            self._expect(self.asked.post(request([query], [prompt], [self.label])), [expected])
        return "a right answer 1, and 0 for one whose prompt shows the right one"

    def special_tokens(self) -> str:
        """A prompt with one before it, and code without a fence with some behind it."""
        assert self.env is not None
        prompt = _PROMPT.format(shown="")
        for end in ("<|im_end|>", "</s>", "<|im_end|>\n<|endoftext|>"):
            query = f"<s>{prompt}{self.env.reference}{end}"
            self._expect(self.asked.post(request([query], [prompt], [self.label])), [1.0])
        return "taken off"

    def labels(self) -> str:
        """What a data set's column may hold. None of it may end the training run."""
        kinds = {"an object": {"env": self.label}, "null": None, "unknown": "no_such_environment_anywhere"}
        found = []
        for kind, label in kinds.items():
            answered = self._answered(body((_PROMPT.format(shown=""), self.right, label)), 1)
            found.append(f"{kind} {answered['rewards'][0]:g}")
        return ", ".join(found)

    def odd_text(self) -> str:
        """Characters that no answer should have, and that some do."""
        for text in ("\ud800", "\x00", "```python\n" + "(" * 5000, "é" * 70_000):
            self._answered(body(self._sample(text)), 1)
        return f"answered; {_RUNS_ON}"

    def several(self) -> str:
        """More than one sample, as OpenRLHF before 0.9.1 sends them."""
        samples = [self._sample(text) for text in ("I don't know.", self.right, "")]
        expected = [0.0, 0.0 if self.env is None else 1.0, 0.0]
        self._expect(self.asked.post(body(*samples)), expected)
        return f"in order: {expected}"

    def empty_request(self) -> str:
        """None, as OpenRLHF 0.9.1 to 0.11.0 send to every address but the first."""
        answer = self.asked.post(request([], [], []))
        data = self._data(answer)
        if data.get("rewards") != [] or data.get("scores") != []:
            raise Failed(f"not empty lists but {answer.text:.200}")
        return "empty lists"

    def at_once(self) -> str:
        """Right and wrong answers in turn: none may be lost, and none may get another's reward."""
        texts = [self.right if number % 2 else "no" for number in range(AT_ONCE)]
        bodies = [body(self._sample(f"{number}\n{text}")) for number, text in enumerate(texts)]
        answers = self.asked.at_once(bodies)
        for number, answer in enumerate(answers):
            self._expect(answer, [float(number % 2 and self.env is not None)])
        slowest = max(answer.seconds for answer in answers)
        return f"each got its own reward, the last after {slowest:.1f} s"

    def twice(self) -> str:
        """Two samples of one prompt that say the same."""
        same = body(self._sample(self.right))
        for answer in self.asked.at_once([same, same]):
            self._expect(answer, [0.0 if self.env is None else 1.0])
        return "both are answered"

    def again(self) -> str:
        """An attempt whose client closes the connection and sends the same again."""
        assert self.env is not None
        sample = self._sample(f"```python\n{_SLOW}{self.env.reference}\n```")
        before, held = self._counted(_REATTACHED), self._counted(_LEFT)
        try:
            left = self.asked.leave(body(sample), _PATIENCE)
        except OSError as error:
            raise Failed(f"{type(error).__name__}: {error}") from error
        if left and held is not None:
            self._wait_for_more(_LEFT, held)
        self._expect(self.asked.post(body(sample)), [1.0])
        after = self._counted(_REATTACHED)
        if not left or before is None or after is None:
            return "answered"
        return "it got the reward of the run that had begun" if after > before else "answered; graded anew"

    def nonsense(self) -> str:
        """Bodies that aren't the trainer's: those are to be told so."""
        for content in (b"", b"{", b"[]", b'{"query": 1}', b'{"query": ["a", "b"], "prompts": ["a"]}'):
            answer = self.asked.post(content)
            if not 400 <= answer.status < 500:
                raise Failed(f"{content!r}: HTTP {answer.status} instead of an error of the client's")
        return "refused with a status of 400 to 499"

    def stranger(self) -> str:
        """Somebody who doesn't know the token."""
        answer = self.asked.post(body(self._sample("")), known=False)
        if answer.status != 401:
            raise Failed(f"HTTP {answer.status}: everybody who reaches the endpoint can use it")
        return "refused with 401"

    def _sample(self, response: str) -> tuple[str, str, object]:
        return _sample(response, self.label)

    def _scored(self, sample: tuple[str, str, object], expected: float) -> str:
        self._expect(self.asked.post(body(sample)), [expected])
        return f"reward {expected:g}"

    def _expect(self, answer: Answer, rewards: list[float]) -> None:
        data = self._checked(answer, len(rewards))
        logs = data.get("extra_logs", {})
        lost = [number for number, value in enumerate(logs.get("no_verdict", ())) if value]
        if lost and self.env is not None:
            raise Failed(f"no verdict: it got {data['rewards']}; see the endpoint's log")
        if self.env is not None and data["rewards"] != rewards:
            raise Failed(f"rewards {data['rewards']}, not {rewards}: {answer.text:.200}")

    def _answered(self, content: bytes, count: int) -> dict[str, Any]:
        return self._checked(self.asked.post(content), count)

    def _checked(self, answer: Answer, count: int) -> dict[str, Any]:
        self._data(answer)
        return shape(answer, count)

    def _data(self, answer: Answer) -> dict[str, Any]:
        if answer.status != 200:
            raise Failed(f"{_why(answer)}: {_ENDS}")
        return answer.data if isinstance(answer.data, dict) else {}

    def _counted(self, name: re.Pattern[str]) -> int | None:
        found = name.search(self.asked.get("/metrics").text)
        return None if found is None else int(found[1])

    def _wait_for_more(self, name: re.Pattern[str], than: int) -> None:
        """Wait until the endpoint has seen a closed connection. The trainer waits for ``PAUSE`` seconds."""
        until = time.monotonic() + 10 * PAUSE
        while (self._counted(name) or 0) <= than and time.monotonic() < until:
            time.sleep(PAUSE / 20)


def shape(answer: Answer, count: int) -> dict[str, Any]:
    """The answer, if OpenRLHF can make tensors of it for ``count`` samples.

    Raises:
        Failed: it can't; the text says what is wrong.
    """
    data = answer.data
    if answer.kind != "application/json" or not isinstance(data, dict):
        raise Failed(f"not a JSON object but {answer.kind or 'nothing'}: {answer.text:.100}; {_ENDS}")
    logs = data.get("extra_logs", {})
    if not isinstance(logs, dict):
        raise Failed("extra_logs is no object")
    columns = {"rewards": data.get("rewards"), "scores": data.get("scores")}
    for name, column in {**columns, **{f"extra_logs.{key}": value for key, value in logs.items()}}.items():
        if not isinstance(column, list) or len(column) != count:
            raise Failed(f"{name} is no list of {count}: {column!r:.100}")
        if not all(isinstance(value, float) and math.isfinite(value) for value in column):
            raise Failed(f"{name} holds something else than finite floats: {column!r:.100}")
    return data


def _described(data: dict[str, Any]) -> str:
    return f"lists of floats, extra_logs {', '.join(data.get('extra_logs', {})) or 'none'}"


def _sample(response: str, label: object) -> tuple[str, str, object]:
    return _PROMPT.format(shown=""), response, label


def _finding(name: str, question: Callable[[], str]) -> Finding:
    try:
        return Finding(name, "ok", question())
    except Failed as error:
        return Finding(name, "fail", str(error), "look into the endpoint's log")


def _named_by(asked: Asked) -> str | None:
    """The first environment that the endpoint says it has."""
    data = asked.get("/health").data
    names = data.get("environments") if isinstance(data, dict) else None
    return next((name for name in names if isinstance(name, str)), None) if isinstance(names, list) else None


def _reference(name: str | None, *, required: bool) -> Environment | None:
    from deepgym.environments import load_environment
    from deepgym.exceptions import DeepGymError

    if name is None:
        return None
    try:
        env = load_environment(name)
    except DeepGymError:
        if required:
            raise
        return None
    if env.reference is None and required:
        raise UsageError(f"{env.name} has no reference, which a right answer is taken from; name another")
    return None if env.reference is None else env


def _why(answer: Answer) -> str:
    return answer.text[:200] if answer.status == 0 else f"HTTP {answer.status}: {answer.text[:200]}"


def _remedy(answer: Answer) -> str:
    if answer.status == 401:
        return "give the token: --token-file FILE, or in the address as the trainer has it"
    if answer.status == 0:
        return "start it (deepgym openrlhf serve ...), and give the address that it prints"
    return "give the address that deepgym openrlhf serve prints, with its path"
