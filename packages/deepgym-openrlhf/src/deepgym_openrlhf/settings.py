"""What the agent file and the Python file are told, by environment variables: OpenRLHF constructs both bare.

``DEEPGYM_OPENRLHF_ENV``           environment (name or folder) or suite (name or JSONL file), several with
                                   commas between; or ``labels``: each sample's label names a built-in one
``DEEPGYM_OPENRLHF_FAILURE``       what a sample without a verdict gets: a number, ``group_mean`` or
                                   ``drop_group``; the agent file leaves it out if this isn't set
``DEEPGYM_OPENRLHF_STOP_AFTER``    the agent file ends the training run after so many samples in a row without
                                   a verdict; 0: never (default: 64)
``DEEPGYM_OPENRLHF_SECONDS``       how long a sample may wait for its verdict (default: 3600)
``DEEPGYM_OPENRLHF_MODE``          name of the sandbox provider (default: ``local``)
``DEEPGYM_OPENRLHF_MAX_PARALLEL``  runs at once (default: as many as the provider has room for)
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deepgym.exceptions import DeepGymError
from deepgym.integrations.labels import Labels

from .failure import InfraFailureScore, checked

if TYPE_CHECKING:
    from deepgym.client import AsyncDeepGym

    from .grading import Grading

__all__ = ["PREFIX", "STOP_AFTER", "Settings", "SettingsError"]

PREFIX = "DEEPGYM_OPENRLHF_"
#: Samples in a row without a verdict after which an agent file ends the training run.
STOP_AFTER = 64
#: Seconds that a sample may wait for its verdict where no client of OpenRLHF's waits for an answer.
SECONDS = 3600.0
_BY_LABEL = "labels"


class SettingsError(DeepGymError, ValueError):
    """A variable that is missing or wrong; the message names it and says what it may be."""


@dataclass(frozen=True)
class Settings:
    """The variables' values, checked."""

    labels: Labels
    failure: InfraFailureScore | None = None
    """``None``: not said."""
    stop_after: int = STOP_AFTER
    seconds: float = SECONDS
    mode: str = "local"
    max_parallel: int | None = None

    @classmethod
    def read(
        cls,
        variables: Mapping[str, str] | None = None,
        *,
        labels: Labels | None = None,
        failure: bool = False,
    ) -> Settings:
        """The settings in ``variables``, by default this process's.

        Args:
            variables: Names and texts.
            labels: Instead of ``DEEPGYM_OPENRLHF_ENV``.
            failure: Whether ``DEEPGYM_OPENRLHF_FAILURE`` must be set.

        Raises:
            SettingsError: a variable is missing or wrong, or its name is none of these.
        """
        given = os.environ if variables is None else variables
        found = {name[len(PREFIX) :]: given[name].strip() for name in given if name.startswith(PREFIX)}
        for name in found:
            if name not in _NAMES and name not in _OTHERS:
                raise SettingsError(f"{PREFIX}{name} is no setting; they are {_listed()}")
        if failure and not found.get("FAILURE"):
            raise _missing(
                "FAILURE", "what a sample without a verdict gets: a number, group_mean or drop_group"
            )
        stop_after = _whole("STOP_AFTER", found.get("STOP_AFTER", ""), 0)
        return cls(
            labels=_labels(found.get("ENV", "")) if labels is None else labels,
            failure=_failure(found.get("FAILURE", "")),
            stop_after=STOP_AFTER if stop_after is None else stop_after,
            seconds=_seconds(found.get("SECONDS", "")),
            mode=found.get("MODE") or "local",
            max_parallel=_whole("MAX_PARALLEL", found.get("MAX_PARALLEL", ""), 1),
        )

    def grading(self, dg: AsyncDeepGym | None, failure: InfraFailureScore) -> Grading:
        """What grades, with ``dg`` or a new client.

        Raises:
            SettingsError: there is no such provider, or an environment's limits are longer than a sample may
                wait.
        """
        from .grading import Grading

        client = self.client() if dg is None else dg
        try:
            return Grading(self.labels, client, failure, max_parallel=self.max_parallel, budget=self.seconds)
        except ValueError as error:
            raise SettingsError(f"{PREFIX}SECONDS={self.seconds:g} is too short: {error}") from error

    def client(self) -> AsyncDeepGym:
        """A new client.

        Raises:
            SettingsError: there is no such provider, or it can't be had here.
        """
        from deepgym.client import AsyncDeepGym

        try:
            return AsyncDeepGym(self.mode, max_parallel=self.max_parallel)
        except DeepGymError as error:
            raise SettingsError(f"{PREFIX}MODE={self.mode!r}: {error}") from error


_NAMES = ("ENV", "FAILURE", "STOP_AFTER", "SECONDS", "MODE", "MAX_PARALLEL")
#: The endpoint's.
_OTHERS = ("TOKEN",)


def _listed() -> str:
    return ", ".join(PREFIX + name for name in _NAMES)


def _missing(name: str, what: str) -> SettingsError:
    return SettingsError(
        f"{PREFIX}{name} isn't set in this process: {what}. Ray's workers have the variables of `ray start`, "
        "not those of the shell that submits a job; pass it with --runtime-env-json "
        f"""'{{"env_vars": {{"{PREFIX}{name}": "..."}}}}' there"""
    )


def _labels(text: str) -> Labels:
    if not text:
        raise _missing("ENV", "an environment, a suite, a JSONL file, or labels")
    if text == _BY_LABEL:
        return Labels(None)
    names = [name.strip() for name in text.split(",")]
    try:
        return Labels([name for name in names if name])
    except (DeepGymError, ValueError, OSError) as error:
        raise SettingsError(f"{PREFIX}ENV={text!r:.200}: {error}") from error


def _failure(text: str) -> InfraFailureScore | None:
    if not text:
        return None
    score: object = text
    with contextlib.suppress(ValueError):
        score = float(text)
    try:
        return checked(score)
    except ValueError as error:
        raise SettingsError(f"{PREFIX}FAILURE={text!r:.60}: {error}") from error


def _whole(name: str, text: str, least: int) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise SettingsError(f"{PREFIX}{name}={text!r:.60}: a whole number, at least {least}")
    return int(text)


def _seconds(text: str) -> float:
    if not text:
        return SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds > 0):
        raise SettingsError(f"{PREFIX}SECONDS={text!r:.60}: a number of seconds above 0")
    return seconds
