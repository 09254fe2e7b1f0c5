"""DeepGym in Axolotl: what a YAML file may name.

    plugins: [deepgym_axolotl.DeepGymPlugin]
    trl: {reward_funcs: [deepgym_axolotl.reward]}
    datasets: [{path: rows.jsonl, ds_type: json, type: deepgym_axolotl.transform}]
    trainer_cls: deepgym_axolotl.MaskedGRPOTrainer

Names load when they are asked for, so ``import deepgym_axolotl`` needs no Axolotl.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .judge import reward
    from .plugin import DeepGymPlugin
    from .rows import transform
    from .settings import DeepGymArgs, DeepGymSection
    from .trainers import MaskedGRPOTrainer

__all__ = [
    "DeepGymArgs",
    "DeepGymPlugin",
    "DeepGymSection",
    "MaskedGRPOTrainer",
    "reward",
    "transform",
]

_HOMES = {
    "DeepGymArgs": "settings",
    "DeepGymPlugin": "plugin",
    "DeepGymSection": "settings",
    "MaskedGRPOTrainer": "trainers",
    "reward": "judge",
    "transform": "rows",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        raise _missing(name, error) from error
    globals()[name] = value
    return value


def _missing(name: str, error: ModuleNotFoundError) -> Exception:
    """What to raise instead: of a ``ModuleNotFoundError`` Axolotl concludes that a reward function is the
    name of a model on the hub, and of an ``ImportError`` that the run can do without the plugin.
    """
    from deepgym.exceptions import MissingPackageError
    from deepgym.plugins import PluginError

    if (error.name or "").partition(".")[0] == "axolotl":
        line = 'pip install "deepgym-axolotl[trainer]==1.0.0"'
        return MissingPackageError(
            f"{__name__}.{name} needs Axolotl, which isn't installed here; run: {line}"
        )
    return PluginError(
        f"{__name__}.{name} can't be loaded: there is no module {error.name!r}; reinstall it with: "
        'pip install --force-reinstall "deepgym-axolotl==1.0.0"'
    )
