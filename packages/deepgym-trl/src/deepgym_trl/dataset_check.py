"""Rows that can't be graded, found before training starts instead of at the step that meets them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from deepgym.exceptions import DeepGymError, InvalidEnvironmentError

from .parts import deepgym_of

__all__ = ["RESERVED", "DatasetError", "check_dataset"]

#: Names that TRL gives to a reward function itself.
RESERVED = frozenset(
    {
        "completion",
        "completion_ids",
        "completions",
        "environments",
        "log_extra",
        "log_metric",
        "prompt",
        "prompts",
        "trainer_state",
    }
)
#: Those of them that are a dataset's columns.
_OF_A_DATASET = frozenset({"completion", "completion_ids", "prompt"})
#: Rows of a stream that are looked at; of what has a length, all are.
STREAMED = 1000
_SHOWN = 10
_PER_ENVIRONMENT = "deepgym_trl.build_dataset makes it"


class DatasetError(DeepGymError, ValueError):
    """Rows that can't be trained on; ``problems`` has a line for each, with its remedy."""

    def __init__(self, message: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


def check_dataset(
    dataset: Iterable[Mapping[str, Any]],
    reward_or_env: object = None,
    *,
    env_column: str = "env_id",
) -> int:
    """Look at each row as the trainer and the reward function will. Returns how many rows there were.

    Args:
        dataset: A ``datasets.Dataset``, or any rows; of a stream the first 1000 are looked at.
        reward_or_env: The reward function that will be trained with (or the list of them), or what one
            would be made of: an environment, several, a suite. ``None``: ``deepgym_trl.reward``, whose rows
            may name any environment.
        env_column: The column with the environment's name; a reward function's own setting wins.

    Raises:
        DatasetError: (a ``ValueError``) there are no rows, a column is missing or named like an argument of
            TRL's, a prompt is empty, or an environment is unknown or can't be answered at once. All of it
            in one error: row, value, remedy.
        TypeError: ``dataset`` is a mapping of splits, or ``reward_or_env`` a function that isn't DeepGym's.
        UnknownNameError, InvalidEnvironmentError: what ``reward_or_env`` names is itself no environment.
    """
    if isinstance(dataset, Mapping):
        splits = ", ".join(repr(name) for name in list(dataset)[:5])
        raise TypeError(f"this is a mapping of splits ({splits}); check one of them: dataset[...]")
    rewards = _rewards(reward_or_env, env_column)
    problems: dict[str, list[int]] = {}
    known: dict[Any, str | None] = {}
    count = 0
    for index, row in enumerate(dataset if hasattr(dataset, "__len__") else islice(dataset, STREAMED)):
        count += 1
        for problem in _problems(row, rewards, known):
            problems.setdefault(problem, []).append(index)
    if not count:
        problems["the dataset has no rows"] = []
    if problems:
        raise _error(problems, count)
    return count


def _rewards(found: object, env_column: str) -> list[Any]:
    """What knows how to check a row: reward functions, those inside them, or a new one for environments."""
    several = found if isinstance(found, (list, tuple)) else [found]
    if any(callable(one) for one in several):
        judges = [judge for one in several for judge in _judges(one)]
        if judges:
            return judges
        raise TypeError(f"{several[0]!r} checks no rows; pass a DeepGym reward function, or the environments")
    from .rewards import TRLReward

    made: Any = found
    return [TRLReward(made, env_column=env_column)]


def _judges(function: object) -> Iterator[Any]:
    judge = function if hasattr(function, "check_row") else deepgym_of(function)
    parts = getattr(judge, "parts", None)
    if parts is not None:
        for part in parts:
            yield from _judges(part.func)
    elif judge is not None:
        yield judge


def _problems(row: Mapping[str, Any], rewards: Sequence[Any], known: dict[Any, str | None]) -> Iterator[str]:
    clash = sorted((RESERVED - _OF_A_DATASET) & set(row))
    if clash:
        yield f"column {clash[0]!r} is an argument that TRL gives to reward functions; rename it"
    yield from _prompt_problems(row)
    for reward in rewards:
        column = reward.env_column
        key = id(reward), column in row, repr(row.get(column))
        if key not in known:
            known[key] = _refusal(row, reward)
        refusal = known[key]
        if refusal is not None:
            yield refusal


def _refusal(row: Mapping[str, Any], reward: Any) -> str | None:
    try:
        reward.check_row(row)
    except InvalidEnvironmentError as error:
        if "load_multi_turn_environment" in str(error):
            return f"{error}; to train on it: deepgym_trl.make_environment_factory"
        return str(error)
    except (LookupError, TypeError, ValueError, ImportError) as error:
        # It was the only row of its check.
        return re.sub(r"\Arow 0[,:] ", "", str(error))
    return None


def _prompt_problems(row: Mapping[str, Any]) -> Iterator[str]:
    prompt = row.get("prompt")
    if "prompt" not in row:
        yield f"there is no column 'prompt'; {_PER_ENVIRONMENT}"
    elif isinstance(prompt, str):
        if not prompt.strip():
            yield "the prompt is empty"
    elif not isinstance(prompt, Sequence) or not prompt:
        yield "the prompt is empty" if not prompt else f"the prompt is {prompt!r:.60}, not text or messages"
    elif not all(isinstance(message, Mapping) and message.get("role") for message in prompt):
        yield "a message of the prompt has no role: {'role': 'user', 'content': ...}"
    elif not _has_content(prompt[-1]):
        yield "the prompt's last message is empty"


def _has_content(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return bool(content.strip() if isinstance(content, str) else content)


def _error(problems: Mapping[str, Sequence[int]], count: int) -> DatasetError:
    lines = tuple(f"{_where(indices, count)}{problem}" for problem, indices in problems.items())
    more = f"\n  and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    listed = "".join(f"\n  {line}" for line in lines[:_SHOWN])
    return DatasetError(f"the dataset can't be trained on:{listed}{more}", lines)


def _where(indices: Sequence[int], count: int) -> str:
    if not indices:
        return ""
    if len(indices) == count > 1:
        return f"every row ({count}): "
    shown = ", ".join(str(index) for index in indices[:5])
    return f"row{'s' * (len(indices) > 1)} {shown}{', ...' * (len(indices) > 5)}: "
