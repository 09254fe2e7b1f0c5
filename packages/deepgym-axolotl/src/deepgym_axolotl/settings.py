"""The ``deepgym:`` section of an Axolotl file, and how it reaches the reward function.

Axolotl gives a reward function no configuration. The plugin, which the training process itself sets up before
it looks the function up, leaves the section in an environment variable: there it is for processes that this
one starts, too (``trl.reward_num_workers``), however they are started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from deepgym.exceptions import DeepGymError

__all__ = ["VARIABLE", "ConfigError", "DeepGymArgs", "DeepGymSection", "Setup"]

#: The environment variable that holds a ``Setup`` as JSON.
VARIABLE = "DEEPGYM_AXOLOTL"

Share = Annotated[float, Field(ge=0.0, lt=1.0)]
#: Seconds that ranks wait for one another where nothing is said.
TIMEOUT = 1800.0


class ConfigError(DeepGymError, ValueError):
    """A run's file can't be trained from as it is; the message has the key, the reason and the remedy."""


class DeepGymSection(BaseModel):
    """What ``deepgym:`` may hold. An unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    env: str | None = None
    """An environment, or its folder's path, for every row."""
    envs: tuple[str, ...] | None = None
    """Several of them; a row's ``env_column`` names its own."""
    suite: str | None = None
    """A suite, or the path of a JSONL file, likewise. With none of the three a row may name any environment.
    """
    env_column: str = "env_id"
    extract: bool = True
    """Whether the answer is a completion's last fenced block, or all of its text."""
    max_parallel: Annotated[int, Field(gt=0)] | None = None
    deadline: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which no run of a batch is started any more."""
    no_verdict: Literal["none", "group_mean"] = "none"
    """What a run without a verdict becomes: left out of its group, or the mean of its judged siblings."""
    dapo: bool = False
    """DAPO's arguments, where ``trl:`` says nothing else, and its soft penalty on overlong answers."""
    soft_punish_cache: Annotated[int, Field(ge=0)] | None = None
    """With ``dapo``: over how many tokens before ``trl.max_completion_length`` the penalty grows. By default
    a fifth of it, as in the paper; 0 for no penalty."""
    warn_above: Share = 0.05
    """Share of runs without a verdict above which the log warns."""
    stop_above: Share | None = None
    """Share above which training stops."""

    @field_validator("no_verdict", mode="before")
    @classmethod
    def _null(cls, value: object) -> object:
        return "none" if value is None else value

    @model_validator(mode="after")
    def _one_source(self) -> DeepGymSection:
        given = [name for name in ("env", "envs", "suite") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(given)}, not both")
        if self.envs is not None and not self.envs:
            raise ValueError("envs is empty; name at least one environment, or leave it out")
        if self.soft_punish_cache is not None and not self.dapo:
            raise ValueError("soft_punish_cache is for dapo: true")
        return self

    @property
    def names_environments(self) -> bool:
        """Whether the section says which environments there are; otherwise the rows do."""
        return (self.env, self.envs, self.suite) != (None, None, None)


class DeepGymArgs(BaseModel):
    """What the plugin adds to Axolotl's schema."""

    deepgym: DeepGymSection | None = None


class Setup(BaseModel):
    """What the reward function has to know of a run."""

    model_config = ConfigDict(frozen=True)

    section: DeepGymSection = DeepGymSection()
    num_generations: int | None = None
    max_completion_length: int | None = None
    ddp_timeout: float = TIMEOUT
    """Seconds that ranks wait for one another: no call of the reward function takes longer."""

    @property
    def overlong(self) -> int:
        """Tokens over which the penalty on overlong answers grows; 0 for no penalty."""
        if not self.section.dapo:
            return 0
        cache = self.section.soft_punish_cache
        return (self.max_completion_length or 0) // 5 if cache is None else cache

    @classmethod
    def of(cls, cfg: Mapping[str, Any]) -> Setup:
        """From a run's file, as it was read.

        Raises:
            ConfigError: the section has an unknown key or a value that it can't have.
        """
        raw = cfg.get("deepgym")
        if raw is not None and not isinstance(raw, Mapping):
            raise ConfigError(f"deepgym: is a section with keys such as env, not {raw!r}")
        trl = cfg.get("trl") or {}
        try:
            return cls(
                section=DeepGymSection.model_validate(dict(raw or {})),
                num_generations=trl.get("num_generations"),
                max_completion_length=trl.get("max_completion_length"),
                ddp_timeout=_timeout(cfg),
            )
        except ValidationError as error:
            raise ConfigError(_said(error)) from None

    @classmethod
    def current(cls) -> Setup:
        """That of this process; the defaults where no plugin left any."""
        text = os.environ.get(VARIABLE)
        return cls.model_validate_json(text) if text else cls()

    def leave(self) -> None:
        """Make it that of this process, and of those that it starts."""
        os.environ[VARIABLE] = self.model_dump_json()


def _timeout(cfg: Mapping[str, Any]) -> float:
    """Before 0.21 Axolotl hands ``ddp_timeout`` to no GRPO run; what counts is its environment variable."""
    from .versions import axolotl

    given = os.environ.get("AXOLOTL_NCCL_TIMEOUT")
    if given is None and (axolotl() or (0, 0)) >= (0, 21):
        given = cfg.get("ddp_timeout")
    return float(given or TIMEOUT)


def _said(error: ValidationError) -> str:
    lines = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"] if part != "section")
        if problem["type"] == "extra_forbidden":
            known = ", ".join(DeepGymSection.model_fields)
            lines.append(f"deepgym.{place}: there is no such key (there are: {known})")
        else:
            lines.append(f"deepgym.{place}: {problem['msg']}".replace("deepgym.: ", "deepgym: "))
    return "; ".join(lines)
