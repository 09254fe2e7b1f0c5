"""What ``deepgym doctor axolotl`` says of the installed Axolotl.

Nothing of Axolotl is imported here: it is asked in a process of its own (``probe``), with its own loaders and
its own advantage code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deepgym.integrations.checking import gathered, version_of
from deepgym.integrations.probing import answers_of
from deepgym.plugins import Finding, install_line
from deepgym_trl.probed import error_of, left_out, out_of_loss

from . import versions

__all__ = ["INSTALL", "findings"]

INSTALL = 'pip install "deepgym-axolotl[trainer]==1.0.0"'
_REPORT = "report it with the versions of axolotl, trl and transformers"
_ZERO = f"don't train with it: an outage would be trained on as a wrong answer; run: {INSTALL}"


def findings() -> list[Finding]:
    """What was looked at and how it stands. Never raises: what fails is a finding, with its remedy.

    Without Axolotl there is one ``warn`` with the line that installs it.
    """
    return gathered({"packages": _packages, "axolotl": _asked}, _REPORT)


def _packages() -> Iterator[Finding]:
    core = version_of("deepgym")
    for ours in ("deepgym-axolotl", "deepgym-trl"):
        if (found := version_of(ours)) not in (None, core):
            yield Finding(ours, "fail", f"{ours} {found} beside deepgym {core}", install_line("axolotl"))
    axolotl, trl = version_of("axolotl"), version_of("trl")
    if axolotl is None:
        yield Finding("axolotl", "warn", "axolotl isn't installed, so nothing of it was tried", INSTALL)
    elif not versions.masks(axolotl):
        detail = f"{axolotl} pins a TRL (here {trl}) in which a reward of None is 0"
        yield Finding("axolotl", "fail", detail, f"upgrade: {INSTALL}, or set deepgym.no_verdict: group_mean")
    else:
        yield Finding("axolotl", "ok", f"{axolotl} (0.18 or later), with TRL {trl}")


def _asked() -> Iterator[Finding]:
    if version_of("axolotl") is None:
        return
    answers = answers_of("deepgym_axolotl.probe")
    if isinstance(answers, str):
        yield Finding("axolotl", "fail", answers, _REPORT)
        return
    for what in ("reward", "transform"):
        yield _found(f"deepgym_axolotl.{what}", answers.get(what))
    yield _plugin(answers.get("plugin"))
    yield left_out("a row without a verdict", answers.get("siblings"), _REPORT, _ZERO)
    name, instead = "MaskedGRPOTrainer: a row without a verdict", "train without that trainer_cls"
    yield out_of_loss(name, answers.get("mask"), instead)


def _found(name: str, answer: Any) -> Finding:
    if answer is True:
        return Finding(name, "ok", "Axolotl finds it by that name")
    return Finding(name, "fail", f"Axolotl can't load it: {error_of(answer) or answer}", _REPORT)


def _plugin(answer: Any) -> Finding:
    name = "deepgym_axolotl.DeepGymPlugin"
    if answer == []:
        return Finding(name, "ok", "its methods are those that this Axolotl calls")
    return Finding(
        name, "fail", f"this Axolotl doesn't know its {error_of(answer) or ', '.join(answer)}", _REPORT
    )
