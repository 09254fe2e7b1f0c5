"""What ``check`` starts in a process of its own: the installed verl, with what this package adds to it.

``python -m deepgym_verl.probe answer.json`` writes one JSON object: for each question its answer, or
``{"error": ...}``. Without Ray: verl's loops, reward managers and advantages run in this process.
Without verl the only question is one that needs none.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from . import probe_batches, probe_rows, versions
from .probe_parts import LOOPS, missing_parts
from .probe_rows import AGENT, ENV

__all__ = ["main", "questions"]

#: What v1 adds to a sample's row, and that it is one of validation.
_V1: dict[str, Any] = {"uid": "probe", "session_id": 0, "global_steps": 1}
_VALIDATED: dict[str, Any] = {"val": {"probe": {}}}


def main(path: str) -> None:
    """Answer all questions into the file ``path``. A question that raises has its error as its answer."""
    answers = {name: _answered(ask) for name, ask in questions().items()}
    Path(path).write_text(json.dumps(answers), encoding="utf-8")


def questions() -> dict[str, Callable[[], Any]]:
    """All that can be asked here, in the order in which it has to be."""
    if versions.installed() is None or versions.missing():
        return {"graded": graded}
    return {
        "verl": loaded,
        "registered": registered,  # before anything else has loaded the plugin
        "graded": graded,
        "missing": missing_parts,
        "single_turn": single_turn,
        "agent": agent,
        "legacy": left_out_by_legacy,
        "agent_legacy": lost_agent_by_legacy,
        "v1": left_out_by_v1,
        "validation": kept_in_validation,
        "validation_metrics": validation_metrics,
        "advantages": probe_batches.advantages,
        "advantages_v1": probe_batches.advantages_v1,
        "patched": probe_batches.patched,
        "all_masked": probe_batches.all_masked,
        "manager": probe_batches.manager,
        "manager_outage": probe_batches.manager_outage,
        "rate_limited": probe_batches.rate_limited,
        "cpus": cpus,
    }


def _answered(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:  # noqa: BLE001 - whatever verl raises here is what was asked
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def loaded() -> str:
    """The version that verl says it has."""
    return str(import_module("verl").__version__)


def registered() -> list[str]:
    """Names of ours that ``import verl`` alone doesn't make known. From here on they are."""
    loops = import_module(f"{LOOPS}.agent_loop")._agent_loop_registry
    estimators = import_module("verl.trainer.ppo.core_algos").ADV_ESTIMATOR_REGISTRY
    known = {*loops, *estimators}
    from . import plugin
    from .advantages import ESTIMATORS

    plugin.install()
    return sorted({*plugin.LOOPS, *ESTIMATORS} - known)


def graded() -> list[float]:
    """Scores of a reference and of an empty answer, from ``compute_score`` alone."""
    from .reward import compute_score

    async def both() -> list[float]:
        rows = [await compute_score(f"deepgym/{ENV}", text, ENV, {}) for text in probe_rows.answers()]
        return [row["score"] for row in rows]

    return asyncio.run(both())


def single_turn() -> list[Any]:
    """What verl is told of a reference and of an empty answer."""
    settings = probe_rows.config(ENV)
    return [_row(probe_rows.play("deepgym_single_turn", settings, [said])) for said in probe_rows.answers()]


def agent() -> list[Any]:
    """What verl is told of an agent that does the reference's actions, and of one that does nothing."""
    settings = probe_rows.config(AGENT)
    return [_row(probe_rows.play("deepgym_agent", settings, said)) for said in probe_rows.acts()]


def left_out_by_legacy() -> Any:
    """What the legacy trainer gets for a run that the provider fails."""
    return _row(probe_rows.play("deepgym_single_turn", probe_rows.broken(ENV), probe_rows.answers()[:1]))


def lost_agent_by_legacy() -> Any:
    """The same for an agent's."""
    settings = probe_rows.broken(AGENT)
    return _row(probe_rows.play("deepgym_agent", settings, probe_rows.acts()[0]))


def left_out_by_v1() -> Any:
    """What v1's synchronous trainer gets for it: the name of an error."""
    from deepgym.exceptions import NoVerdictError

    try:
        output = _lost_by_v1({})
    except NoVerdictError:
        return NoVerdictError.__name__
    return _row(output) if output else "no row"


def kept_in_validation() -> Any:
    """What v1 gets for it where it validates."""
    return _row(_lost_by_v1(_VALIDATED))


def validation_metrics() -> dict[str, float]:
    """What v1 reports of a prompt's samples: right, wrong, lost and right."""
    settings = probe_rows.config(ENV)
    right, wrong = (
        probe_rows.play("deepgym_single_turn", settings, [said], **_V1) for said in probe_rows.answers()
    )
    rows = [_info(each) for each in (right, wrong, _lost_by_v1(_VALIDATED), right)]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    process: Any = import_module("verl.trainer.ppo.metric_utils").process_validation_metrics
    uid, counts = str(_V1["uid"]), {}
    if "expected_acc_counts" in inspect.signature(process).parameters:
        counts = {"expected_acc_counts": {(ENV, uid): len(rows)}}
    found = process([ENV] * len(rows), [uid] * len(rows), columns, **counts)[ENV]
    return {name: float(found[name][f"mean@{len(rows)}"]) for name in ("acc", "error")}


def _lost_by_v1(noted: dict[str, Any]) -> Any:
    """``noted``: what TransferQueue, which needs Ray, would say of the samples that are being validated."""
    queue: Any = import_module("transfer_queue")
    asked = queue.async_kv_list

    async def listed(partition_id: str | None = None) -> dict[str, Any]:
        return noted

    queue.async_kv_list = listed
    settings = probe_rows.broken(ENV, "trainer.v1.trainer_mode=sync")
    try:
        return probe_rows.play("deepgym_single_turn", settings, probe_rows.answers()[:1], **_V1)
    finally:
        queue.async_kv_list = asked


def _row(output: Any) -> dict[str, Any]:
    tokens = sum(output.response_mask)
    return {"score": output.reward_score, "error": _info(output)["error"], "tokens": tokens}


def _info(output: Any) -> dict[str, Any]:
    found: dict[str, Any] = output.extra_fields["reward_extra_info"]
    return found


def cpus() -> int:
    """Processors that the v1 trainer has Ray set aside, beside those of its workers on GPUs.

    One for its runner and one for TransferQueue's controller, and one for each of its storage units.
    """
    units = probe_rows.config(ENV).transfer_queue.backend.SimpleStorage.num_data_storage_units
    return 2 + int(units)


if __name__ == "__main__":
    main(sys.argv[1])
