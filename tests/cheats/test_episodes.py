"""No cheat in an episode earns more than doing nothing, or hides its 0.

The cheats are files under ``episodes/<group>/``. The first line is the claim, in one sentence that says what it
does and which harness it beats. Lines of fields follow:

    wants: reward               a reward for work that isn't done; ``no verdict``: that its 0 isn't learned
    against: calls, runs        the environments it is for; without it, some small ones and a built-in one by turns
    slow                        it meets time limits, so it gets one environment

Then come its actions, each under a line ``=== bash``, ``=== python``, ``=== write PATH``, ``=== read PATH`` or
``=== submit``; ``=== generated`` is Python that sets ``ACTIONS``. Each line under ``=== variants`` is put in
VARIANT's place, for a play of its own.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from deepgym import DeepGym, RunResult
from deepgym.environments import MultiTurnEnvironment
from deepgym.session import Observation

from .episode_environments import KINDS, Place, built_in, places

pytestmark = [
    pytest.mark.local_sandbox,
    pytest.mark.skipif(
        os.environ.get("DEEPGYM_TEST_ISOLATION", "auto") not in ("auto", "namespaces"),
        reason="sessions need namespaces",
    ),
]

_FOLDER = Path(__file__).parent / "episodes"
_SECTION = re.compile(r"^=== (\w+)(?: (.*))?\n", re.MULTILINE)
_FIELDS = re.compile(r"wants: (reward|no verdict)(?:\nagainst: (.+))?(\nslow)?")
#: The small environments that a group's cheats are all played against; the others come by turns.
_ALWAYS = {"planted": ("reads", "runs", "calls"), "tree": ("reads", "path", "steps")}
#: Built-in environments whose honest episodes take longest: their turn comes less often.
_HEAVY = ("http_service", "refactor")
#: Characters of an observation's or a result's JSON.
_MOST_SEEN, _MOST = 1 << 17, 1 << 20
#: What a cheat says when it found something that it mustn't, and what a verifier's own file holds.
_SECRETS = ("STOLEN", "HIDDEN-FROM-THE-AGENT")
#: Cheats that spoil a sandbox for whoever would get it next.
_SPOILING = (
    "planted/shell_startup",
    "shell/kills_all",
    "shell/orphans",
    "tree/full_disk",
    "tree/no_permission",
)


@dataclass(frozen=True)
class Cheat:
    """One cheat, as its file tells it."""

    name: str
    claim: str
    wants: str
    against: tuple[str, ...]
    slow: bool
    plays: tuple[list[Any], ...]
    """The actions of each of its episodes."""

    def places(self) -> list[Place]:
        """Where it is played."""
        small, large = places(), built_in()
        light = [place for place in large if place.name not in _HEAVY]
        if self.against:
            return [place for place in (*small, *large) if place.name.split("/")[-1] in self.against]
        turn = zlib.crc32(self.name.encode())
        if self.slow:
            return [small[turn % len(small)]]
        always = _ALWAYS.get(self.name.split("/")[0], ())
        chosen = [place for place in small if place.name.split("/")[1] in always]
        rest = [place for place in small if place not in chosen]
        more = [rest[turn % len(rest)]] if chosen else [rest[turn % 6], rest[(turn + 2) % 6]]
        seldom = [*light * 3, *large]
        return [*chosen, *more, seldom[turn % len(seldom)]]


def _read(path: Path) -> Cheat:
    name = f"{path.parent.name}/{path.stem}"
    head, *sections = _SECTION.split(path.read_text(encoding="utf-8"))
    claim, fields = head.strip().split("\n", 1)
    found = _FIELDS.fullmatch(fields)
    if found is None or not claim.endswith("."):
        raise ValueError(f"{name}: a claim in one line with a full stop, and its fields, must come first")
    parts = list(zip(sections[::3], sections[1::3], sections[2::3], strict=True))
    variants = [text.splitlines() for kind, _, text in parts if kind == "variants"]
    plays = []
    for variant in variants[0] if variants else [""]:
        actions: list[Any] = []
        for kind, path_given, text in parts:
            if kind != "variants":
                actions += _actions(kind, path_given, text.replace("VARIANT", variant))
        plays.append(actions)
    against = tuple(found[2].split(", ")) if found[2] else ()
    return Cheat(name, claim, found[1], against, bool(found[3]), tuple(plays))


def _actions(kind: str, path: str | None, text: str) -> list[Any]:
    if kind == "generated":
        names: dict[str, Any] = {}
        exec(text, names)
        return list(names["ACTIONS"])
    arguments = {
        "bash": {"command": text},
        "python": {"code": text},
        "write": {"path": path, "content": text},
        "read": {"path": path},
        "submit": {},
    }[kind]
    return [{"name": {"write": "write_file", "read": "read_file"}.get(kind, kind), "arguments": arguments}]


_CHEATS = [_read(path) for path in sorted(_FOLDER.glob("*/*.txt"))]


def _name(result: RunResult) -> str:
    return f"{result.error_type} {result.error} score {result.score} {result.stderr[-400:]}"


def _sound(result: RunResult, most: float) -> None:
    text = result.model_dump_json()
    text.encode("utf-8")
    assert len(text) <= _MOST
    assert RunResult.model_validate_json(text) == result
    assert result.has_verdict, _name(result)
    assert result.score <= most, _name(result)
    assert not result.passed
    assert not any(secret in text for secret in _SECRETS), _name(result)


def _seen(seen: Observation, most: float) -> None:
    text = seen.model_dump_json(exclude={"result"})
    text.encode("utf-8")
    assert len(text) <= _MOST_SEEN
    assert Observation.model_validate_json(seen.model_dump_json()) == seen
    assert not any(secret in text for secret in _SECRETS), seen.text[-1000:]
    assert seen.done == (seen.ended is not None)
    if seen.result is not None:
        _sound(seen.result, most)


def _play(client: DeepGym, env: MultiTurnEnvironment, actions: Any, most: float = 1.0) -> RunResult:
    with client.session(env) as session:
        session.reset()
        for action in actions:
            seen = session.step(action)
            _seen(seen, most)
            if seen.done:
                assert session.done
                break
        result = session.score()
        assert session.score() == result
    return result


@cache
def _nothing(client: DeepGym, place: Place) -> float:
    result = _play(client, place.honest.model_copy(update={"reference": None}), ())
    assert result.has_verdict, _name(result)
    return result.score


def _honest(client: DeepGym, place: Place) -> None:
    env = place.honest
    with client.session(env) as session:
        session.reset()
        for call in env.reference or ():
            session.step(call)
        result = session.score()
    assert result.score == 1.0, _name(result)
    assert result.passed


@pytest.mark.parametrize("agent", _CHEATS, ids=lambda agent: agent.name)
def test_a_cheating_episode_earns_nothing_and_has_a_verdict(client: DeepGym, agent: Cheat) -> None:
    for place in agent.places():
        most = _nothing(client, place)
        for actions in agent.plays:
            _sound(_play(client, place.cheat, actions, most), most)
        _honest(client, place)


def test_a_session_that_is_reset_after_a_cheat_is_a_fresh_one(client: DeepGym) -> None:
    place = places()[0]
    with client.session(place.honest) as session:
        for agent in _CHEATS:
            if agent.name in _SPOILING:
                session.reset()
                for action in agent.plays[0]:
                    session.step(action)
        session.reset()
        for call in place.honest.reference or ():
            session.step(call)
        assert session.score().score == 1.0


def test_an_episode_without_actions_earns_nothing_anywhere(client: DeepGym) -> None:
    for place in (*places(), *built_in()):
        assert _nothing(client, place) == 0.0, place.name


def test_there_are_many_cheats_and_no_claim_stands_twice() -> None:
    assert len(_CHEATS) >= 100
    assert max(Counter(cheat.claim for cheat in _CHEATS).values()) == 1
    wants = Counter(cheat.wants for cheat in _CHEATS)
    assert min(wants["reward"], wants["no verdict"]) >= 30


def test_every_environment_meets_cheats_of_both_wants() -> None:
    met = {(place.name, cheat.wants) for cheat in _CHEATS for place in cheat.places()}
    for place in (*places(), *built_in()):
        assert {(place.name, "reward"), (place.name, "no verdict")} <= met
    known = {*KINDS, *(place.name for place in built_in())}
    assert all(known.issuperset(cheat.against) and cheat.places() for cheat in _CHEATS)
