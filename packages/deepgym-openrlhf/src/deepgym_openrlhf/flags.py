"""What the trainer's flags are called, which depends on its version."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from .versions import DOTTED, numbers

__all__ = ["NEW", "OLD", "Flags", "filtering_lines", "flags_of", "lines"]


@dataclass(frozen=True)
class Flags:
    """Names of the flags that matter here, and which versions have them."""

    versions: str
    reward: str
    """Takes an endpoint's address, or the path of a Python file."""
    agent: str
    """Takes an agent file's path."""
    label: str
    """Takes the name of the data set's column that becomes a sample's label."""
    samples: str
    """Takes the number of samples of a prompt."""
    filtering: str
    """Has groups sampled anew whose mean score is out of a range."""
    filtering_range: str
    estimator: str


OLD = Flags(
    versions="up to 0.10.1",
    reward="--remote_rm_url",
    agent="--agent_func_path",
    label="--label_key",
    samples="--n_samples_per_prompt",
    filtering="--dynamic_filtering",
    filtering_range="--dynamic_filtering_reward_range",
    estimator="--advantage_estimator",
)
NEW = Flags(
    versions="from 0.10.2 on",
    reward="--reward.remote_url",
    agent="--train.agent_func_path",
    label="--data.label_key",
    samples="--rollout.n_samples_per_prompt",
    filtering="--algo.dynamic_filtering_enable",
    filtering_range="--algo.dynamic_filtering_range",
    estimator="--algo.advantage.estimator",
)


def flags_of(version: str | None) -> tuple[Flags, ...]:
    """The names in the version ``version``; the newer and the older ones if it isn't known."""
    known = numbers(version or "")
    if not known:
        return (NEW, OLD)
    return (NEW,) if known >= DOTTED else (OLD,)


def lines(kind: str, value: str, version: str | None) -> list[str]:
    """The flag ``kind`` (a field of ``Flags``) with its value, as it is given to the trainer.

    A line for each spelling that it may have, with the versions that it is for if there are two.
    """
    return _written([f"{getattr(flags, kind)} {shlex.quote(value)}" for flags in flags_of(version)], version)


def filtering_lines(version: str | None) -> list[str]:
    """The flags that have a group sampled anew whose scores' mean isn't between 0 and 1; as ``lines``."""
    return _written(
        [f"{flags.filtering} {flags.filtering_range} 0 1" for flags in flags_of(version)], version
    )


def _written(texts: list[str], version: str | None) -> list[str]:
    known = flags_of(version)
    if len(known) == 1:
        return texts
    width = max(map(len, texts))
    return [f"{text:<{width}}  # OpenRLHF {flags.versions}" for text, flags in zip(texts, known, strict=True)]
