"""What ``axolotl deepgym check run.yaml`` says of one run, before it costs anything."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgym.exceptions import DeepGymError
from deepgym.plugins import Finding

from . import versions
from .judge import grader
from .modes import active, refusals
from .settings import ConfigError, Setup

if TYPE_CHECKING:
    from deepgym.environments import Environment
    from deepgym_trl.rewards import TRLReward

__all__ = ["MOST", "read", "run_findings"]

#: Environments of which the reference is run, from the first on.
MOST = 50
_PLUGIN = "deepgym_axolotl.DeepGymPlugin"
_REWARD = "deepgym_axolotl.reward"


def read(path: str | Path) -> dict[str, Any]:
    """The file, as Axolotl reads it.

    Raises:
        ConfigError: it can't be read, or holds no mapping.
    """
    yaml: Any = import_module("yaml")  # Axolotl brings it, and no types.
    try:
        cfg = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error
    if not isinstance(cfg, dict):
        raise ConfigError(f"{path} holds no keys; `axolotl deepgym config` writes a file to begin with")
    return cfg


def run_findings(path: str | Path) -> list[Finding]:
    """What was looked at and how it stands. Never raises for what is wrong with the run: that is a finding.

    Environments are loaded, and the reference and an empty answer of each graded in the local sandbox.
    """
    try:
        cfg = read(path)
        if not active(cfg):
            raise ConfigError(f"{path} names neither {_REWARD} nor a deepgym: section")
        setup = Setup.of(cfg)
    except ConfigError as error:
        return [Finding("run file", "fail", str(error), "see docs/training/axolotl.md")]
    found = [Finding("mode", "fail", refusal.reason, refusal.remedy) for refusal in refusals(cfg, setup)]
    if not found:
        kept = "left out of its group" if setup.section.no_verdict == "none" else "its judged siblings' mean"
        found.append(Finding("mode", "ok", f"a run without a verdict is {kept}"))
    found += [*_names(cfg), *_loss(cfg, setup), *_logs(cfg)]
    try:
        judge = grader(setup)
    except DeepGymError as error:
        return [*found, Finding("environments", "fail", str(error), "mend the deepgym: section")]
    except ValueError as error:
        return [*found, Finding("deadline", "fail", str(error), "set deepgym.deadline")]
    waits = f"{judge.deadline:g} s, of {setup.ddp_timeout:g} s that ranks wait for one another"
    found.append(Finding("deadline", "ok", waits))
    return [*found, *_rows(cfg, judge), *_grades(setup, judge.rows.declared)]


def _names(cfg: Mapping[str, Any]) -> Iterator[Finding]:
    plugins, funcs = cfg.get("plugins") or [], (cfg.get("trl") or {}).get("reward_funcs") or []
    if _PLUGIN in plugins:
        yield Finding("plugin", "ok", "is in plugins")
    elif (versions.axolotl() or (0, 0)) >= (0, 21):
        yield Finding("plugin", "ok", "Axolotl loads it by itself, from 0.21 on")
    elif cfg.get("deepgym") is not None:
        yield Finding("plugin", "fail", "Axolotl ignores the deepgym: section", f"plugins: [{_PLUGIN}]")
    else:
        yield Finding(
            "plugin", "warn", "no alarm, and nothing refused before the first step", f"plugins: [{_PLUGIN}]"
        )
    if _REWARD not in funcs:
        detail = (
            f"trl.reward_funcs is {funcs}; the deepgym: section counts only where one of them calls {_REWARD}"
        )
        yield Finding("reward_funcs", "warn", detail, f"trl.reward_funcs: [{_REWARD}]")
    elif len(funcs) > 1:
        others = ", ".join(str(name) for name in funcs if name != _REWARD)
        detail = f"what {others} give(s) a row without a verdict is trained on, as if DeepGym had given 0"
        remedy = "name one function of your own: deepgym_trl.CompositeReward(deepgym_axolotl.reward, other)"
        yield Finding("reward_funcs", "warn", detail, remedy)
    else:
        yield Finding("reward_funcs", "ok", f"{_REWARD} alone")


def _loss(cfg: Mapping[str, Any], setup: Setup) -> Iterator[Finding]:
    """What trains on a row with advantage 0 after all."""
    trl = cfg.get("trl") or {}
    beta = trl.get("beta", cfg.get("rl_beta"))
    terms = [name for name, value in (("KL", beta), ("entropy", trl.get("entropy_coef"))) if value]
    if terms and cfg.get("trainer_cls") is None and setup.section.no_verdict == "none":
        detail = f"the {' and '.join(terms)} term trains on rows without a verdict too"
        yield Finding(
            "loss", "warn", detail, "trainer_cls: deepgym_axolotl.MaskedGRPOTrainer, or no such term"
        )


def _logs(cfg: Mapping[str, Any]) -> Iterator[Finding]:
    steps = cfg.get("logging_steps")
    if isinstance(steps, int) and steps > 50:
        yield Finding("alarm", "warn", f"it hears of an outage every {steps} steps", "lower logging_steps")


def _rows(cfg: Mapping[str, Any], judge: TRLReward) -> Iterator[Finding]:
    """Rows of local JSON files that go through our transform."""
    for entry in cfg.get("datasets") or ():
        path = Path(str(entry.get("path")))
        if entry.get("type") != "deepgym_axolotl.transform" or not path.is_file():
            continue
        try:
            rows = [
                json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
            ]
            for number, row in enumerate(rows, 1):
                _check(row, number, judge)
        except (OSError, ValueError, DeepGymError) as error:
            yield Finding(f"rows of {path}", "fail", str(error), "mend the row")
        else:
            yield Finding(
                f"rows of {path}", "ok", f"{len(rows)} rows, each with an environment that there is"
            )
        if not cfg.get("skip_prepare_dataset"):
            detail = "Axolotl keeps the rows it has made of them, and doesn't see that an environment changed"
            yield Finding(f"rows of {path}", "warn", detail, "skip_prepare_dataset: true")


def _check(row: Any, number: int, judge: TRLReward) -> None:
    try:
        judge.check_row(row)
    except (ValueError, DeepGymError) as error:
        raise ConfigError(f"line {number}: {error}") from error


def _grades(setup: Setup, loaded: Sequence[Environment]) -> Iterator[Finding]:
    from deepgym.client import DeepGym

    if not loaded:
        yield Finding("environments", "ok", f"each row names its own in {setup.section.env_column}")
        return
    some = [env for env in loaded if env.reference is not None][:MOST]
    answers = [env.reference or "" for env in some]
    try:
        with DeepGym() as dg:
            good = dg.run_batch(some, answers).rewards if some else []
            empty = dg.run_batch(some, [""] * len(some)).rewards if some else []
    except DeepGymError as error:
        yield Finding("environments", "fail", str(error), "run: deepgym doctor local")
        return
    wrong = [
        f"{env.name}: its reference gets {best}, an empty answer {worst}"
        for env, best, worst in zip(some, good, empty, strict=True)
        if (best, worst) != (1.0, 0.0)
    ]
    if wrong:
        yield Finding("environments", "fail", "; ".join(wrong[:5]), "run: deepgym doctor local")
        return
    detail = f"{len(loaded)}; of {len(some)} the reference got 1 and an empty answer 0"
    yield Finding("environments", "ok", detail)
