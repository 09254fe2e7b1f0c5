"""What ``deepgym doctor verl CONFIG`` says of a run's settings: what in them defeats leaving a sample out.

verl takes all of these without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from deepgym.environments import MultiTurnEnvironment
from deepgym.exceptions import DeepGymError
from deepgym.plugins import Finding

from .options import Options, OptionsError
from .plugin import LOOPS
from .settings_file import Settings
from .surroundings import GROUPED, PATCH

__all__ = ["findings_of"]

_FUNCTION = "reward.custom_reward_function"
_OURS = "pkg://deepgym_verl.reward"
_WHOLE = "pkg://deepgym_verl"
_MANAGER = "reward.reward_manager.name"
_ESTIMATOR = "algorithm.adv_estimator"
_LOOP = "actor_rollout_ref.rollout.agent.default_agent_loop"
_FILTER = "algorithm.filter_groups.enable"
_REFILL = "trainer.v1.sampler.sync_refill_failed_groups"
_LOSS = "actor_rollout_ref.actor.loss_agg_mode"
_CUT = "actor_rollout_ref.rollout.multi_turn.max_tool_response_length"
_RAY = "ray_kwargs.ray_init.num_cpus"
_UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
#: verl 0.9 has them, all ``null``, and looks at none; and what it looks at.
_OLD = {
    "custom_reward_function.path": f"{_FUNCTION}.path={_OURS}",
    "reward_model.reward_manager": _MANAGER,
    "sandbox_fusion.url": "reward.sandbox_fusion.url",
}
#: Characters of a tool's output where nothing else is known, and what a session adds to one.
_OUTPUT, _REMARKS = 16 << 10, 4096


def findings_of(path: Path) -> list[Finding]:
    """What is wrong with the settings in a file, each by its key; one ``ok`` if nothing is."""
    try:
        settings = Settings.read(path)
    except (DeepGymError, OSError) as error:
        return [Finding(path.name, "fail", str(error), "give a YAML file, overrides one a line, or a script")]
    found = [
        *_function(settings),
        *_options(settings),
        *_trainer(settings),
        *_agent(settings),
        *_ray(settings),
    ]
    if any(finding.status != "ok" for finding in found):
        return found
    return [*found, Finding(path.name, "ok", _summary(settings))]


def _summary(settings: Settings) -> str:
    v1 = f"v1, {settings.get('trainer.v1.trainer_mode')}" if _v1(settings) else "legacy"
    return f"{v1}; {_ESTIMATOR}={settings.get(_ESTIMATOR)}; {_LOOP}={settings.get(_LOOP)}"


def _v1(settings: Settings) -> bool:
    return settings.get("trainer.use_v1") is not False


def _loops(settings: Settings) -> bool:
    """Whether a row without an ``agent_name`` goes to a loop of ours."""
    return settings.get(_LOOP) in LOOPS


def _function(settings: Settings) -> Iterator[Finding]:
    for key, new in _OLD.items():
        if settings.get(key) is not None:
            detail = f"{settings.get(key)}: verl 0.9 ignores this key, and goes on without it"
            yield Finding(key, "fail", detail, f"set {new}")
    path, manager = settings.get(f"{_FUNCTION}.path"), settings.get(_MANAGER)
    if path is None and not _loops(settings):
        detail = "verl's built-in scorer grades the rows that don't name an agent loop of DeepGym's"
        yield Finding(f"{_FUNCTION}.path", "warn", detail, f"{_FUNCTION}.path={_OURS}")
    elif "deepgym_verl" in str(path) and path not in (_OURS, _WHOLE):
        detail = f"{path}: verl takes that for a file, as which our function can't be loaded"
        yield Finding(f"{_FUNCTION}.path", "fail", detail, f"{_FUNCTION}.path={_OURS}")
    if manager == "rate_limited":
        detail = f"{manager} turns a run without a verdict into a reward of 0.0"
        yield Finding(_MANAGER, "fail", detail, "leave it out: what runs at once is bounded already")
    elif manager == "remote" and path in (_OURS, _WHOLE):
        yield Finding(_MANAGER, "fail", f"{manager} takes no async function, such as ours", "leave it out")


def _options(settings: Settings) -> Iterator[Finding]:
    place = f"{_FUNCTION}.reward_kwargs"
    if settings.has(place) and settings.get(place) is None:
        yield Finding(place, "fail", "null: verl needs a mapping there", "leave it out, or give it env")
        return
    try:
        options = _read(settings)
        if options is not None:
            options.labels()
    except OptionsError as error:
        yield Finding(place, "fail", str(error), "see `deepgym verl config --help`")


def _read(settings: Settings) -> Options | None:
    """The options of our function or loops; ``None`` if neither is chosen.

    Raises:
        OptionsError: one is unknown or wrong.
    """
    if settings.get(f"{_FUNCTION}.path") not in (_OURS, _WHOLE) and not _loops(settings):
        return None
    given = settings.get(f"{_FUNCTION}.reward_kwargs")
    return Options.read(given if isinstance(given, Mapping) else {})


def _lost(settings: Settings) -> str:
    try:
        options = _read(settings)
    except OptionsError:
        options = None
    return "auto" if options is None else options.lost


def _trainer(settings: Settings) -> Iterator[Finding]:
    lost = _lost(settings)
    if not _v1(settings):
        yield from _legacy(settings, lost)
    elif settings.get("trainer.v1.trainer_mode") == "sync":
        yield from _sync(settings, lost)
    if not _v1(settings) or lost == "mask":
        yield from _masking(settings)
    elif settings.get(_ESTIMATOR) in GROUPED and not _patched(settings):
        detail = f"{settings.get(_ESTIMATOR)}: a group's only judged sample gets its raw score as advantage"
        yield Finding(_ESTIMATOR, "warn", detail, f"{_ESTIMATOR}=deepgym_grpo (or deepgym_rloo) gives it 0")


def _legacy(settings: Settings, lost: str) -> Iterator[Finding]:
    if not _loops(settings):
        detail = f"{settings.get(_LOOP)}: the legacy trainer ends at the first sample without a verdict"
        remedy = f"{_LOOP}=deepgym_single_turn, or agent_name in each row"
        yield Finding(_LOOP, "warn", detail, remedy)
    if lost in ("raise", "empty"):
        detail = f"{lost}: the legacy trainer can only mask a sample"
        yield Finding(f"{_FUNCTION}.reward_kwargs.lost", "warn", detail, "leave it out")


def _sync(settings: Settings, lost: str) -> Iterator[Finding]:
    filtered = settings.get(_FILTER) is True
    if filtered and lost == "empty":
        detail = "with lost=empty a group without any row ends the run"
        yield Finding(_FILTER, "fail", detail, f"leave {_FUNCTION}.reward_kwargs.lost out")
    if settings.get(_REFILL) is not True:
        detail = "a group without any verdict isn't replaced, and a batch of such ends the run"
        yield Finding(_REFILL, "warn", detail, f"{_REFILL}=True")


def _masking(settings: Settings) -> Iterator[Finding]:
    """What counts a masked row."""
    estimator, loss = settings.get(_ESTIMATOR), settings.get(_LOSS)
    if estimator in GROUPED and not _patched(settings):
        detail = f"{estimator} counts a run without a verdict as a 0 in its group's baseline"
        patch = f", or {PATCH}=1 for all of the run's processes" if estimator == "grpo" else ""
        yield Finding(_ESTIMATOR, "fail", detail, f"{_ESTIMATOR}=deepgym_grpo (or deepgym_rloo){patch}")
    if loss != "token-mean":
        detail = f"{loss} divides by all sequences, those without a verdict too: a step is so much smaller"
        yield Finding(_LOSS, "warn", detail, f"{_LOSS}=token-mean")


def _patched(settings: Settings) -> bool:
    return settings.get(_ESTIMATOR) == "grpo" and os.environ.get(PATCH) == "1"


def _agent(settings: Settings) -> Iterator[Finding]:
    """What shortens that which an agent is shown."""
    shown = _longest(settings)
    most = settings.get(_CUT)
    if shown and isinstance(most, int) and most < shown:
        detail = f"verl cuts what tools show an agent after {most} characters; they can show {shown}"
        yield Finding(_CUT, "warn", detail, f"{_CUT}={shown}")


def _longest(settings: Settings) -> int:
    """Characters that a tool can show an agent of this run; 0 if there is none."""
    try:
        options = _read(settings)
        declared = [] if options is None else options.labels().declared
    except OptionsError:
        declared = []
    outputs = [env.limits.output for env in declared if isinstance(env, MultiTurnEnvironment)]
    if not outputs and settings.get(_LOOP) == "deepgym_agent":
        outputs = [_OUTPUT]
    return max(outputs) + _REMARKS if outputs else 0


def _ray(settings: Settings) -> Iterator[Finding]:
    """Whether TransferQueue, which the v1 trainer begins with, would wait for ever."""
    if not _v1(settings):
        return
    given: Any = settings.get(_RAY)
    found = given if isinstance(given, int) else os.cpu_count() or 1
    units = settings.get(_UNITS)
    asked = 2 + (units if isinstance(units, int) else 8)
    if found <= asked:
        counts = f"it is {found}" if isinstance(given, int) else f"Ray counts {found} here"
        detail = f"{counts}; the v1 trainer sets {asked} aside, and more for each GPU, or waits for ever"
        yield Finding(_RAY, "warn", detail, f"{_RAY}=32, which only counts them, and {_UNITS}=1")
