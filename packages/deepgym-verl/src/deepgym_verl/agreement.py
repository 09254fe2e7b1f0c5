"""Whether rows and a run's settings agree, before it starts: it would end, or train on other tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deepgym.environments import MultiTurnEnvironment
from deepgym.integrations.labels import TaskLabels, UnknownLabelError

from .judge import label_of
from .options import Options

__all__ = ["disagreements"]

_KWARGS = "+reward.custom_reward_function.reward_kwargs"
_LOOP = "actor_rollout_ref.rollout.agent.default_agent_loop"
_TURNS = "actor_rollout_ref.rollout.multi_turn.max_assistant_turns"
_COLUMNS = ("data_source", "reward_model", "extra_info", "agent_name")
_BATCH = "data.train_batch_size"


def disagreements(settings: Mapping[str, Any]) -> list[str]:
    """What is wrong with the rows that the settings name, a line each.

    Files that aren't there, or no Parquet, are left alone, and without pyarrow all are.
    """
    labels = Options.read({"env": settings.get(f"{_KWARGS}.env")}).labels()
    found: list[str] = []
    for key in ("data.train_files", "data.val_files"):
        files = [Path(path) for path in settings.get(key) or () if path.endswith(".parquet")]
        rows: list[tuple[Path, Mapping[str, Any]]] = []
        for path in files:
            try:
                rows += [(path, row) for row in _rows(path)] if path.is_file() else []
            except (OSError, ValueError) as error:
                found.append(f"{path.name} can't be read: {error}")
        found += dict.fromkeys(line for path, row in rows for line in _row(path.name, row, labels, settings))
        batch = settings.get(_BATCH)
        if key == "data.train_files" and rows and batch is not None and len(rows) < batch:
            names = ", ".join(path.name for path in files)
            found.append(
                f"{names}: {len(rows)} rows don't fill a batch of {batch}; take more, or fewer a step"
            )
    return found


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        return []
    known = parquet.read_schema(path).names
    rows: list[Mapping[str, Any]] = parquet.read_table(
        path, columns=[name for name in _COLUMNS if name in known]
    ).to_pylist()
    return rows


def _row(name: str, row: Mapping[str, Any], labels: TaskLabels, settings: Mapping[str, Any]) -> Iterator[str]:
    truth = (row.get("reward_model") or {}).get("ground_truth")
    label = label_of(row.get("extra_info"), truth, row.get("data_source"))
    try:
        env = labels.environment(label)
    except UnknownLabelError as error:
        yield f"{name}: {error}"
        return
    if isinstance(label, str) and len(labels.declared) == 1 and label.strip().lower() != env.name.lower():
        yield f"{name}: a row names {label!r:.80}, and the run grades all with {env.name!r}: name both"
    loop = row.get("agent_name") or settings.get(_LOOP)
    agents = isinstance(env, MultiTurnEnvironment)
    if agents and _TURNS not in settings:
        yield f"{name}: {env.name!r} is for an agent: name it, or say that there are rows for agents"
    elif loop == ("deepgym_single_turn" if agents else "deepgym_agent") or (agents and loop is None):
        yield f"{name}: {env.name!r} is played by {loop}; give its rows the agent_name that is for it"
    elif _LOOP not in settings and row.get("agent_name"):
        yield f"{name}: rows with agent_name={loop} aren't graded by compute_score; write them without"
