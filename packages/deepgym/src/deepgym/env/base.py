"""What ``DeepGymEnv`` derives from: ``gymnasium.Env`` where Gymnasium is installed, else a stand-in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["HAS_GYMNASIUM", "GymnasiumEnv"]

_MISSING = (
    "DeepGymEnv has {name} only with Gymnasium; to install it: {line}. "
    "reset, step and step_batch work without it"
)

if TYPE_CHECKING:
    from gymnasium import Env

    GymnasiumEnv = Env[str, Any]
    HAS_GYMNASIUM = True
else:
    try:
        from gymnasium import Env as GymnasiumEnv
    except ModuleNotFoundError as error:
        if error.name != "gymnasium":
            raise
        HAS_GYMNASIUM = False

        class GymnasiumEnv:
            """As much of ``gymnasium.Env`` as is of use without it."""

            spec = None

            def reset(self, *, seed=None, options=None):
                """Nothing to seed."""

            @property
            def unwrapped(self):
                """The environment itself."""
                return self

            def __enter__(self):
                return self

            def __exit__(self, *exc):
                self.close()

            def __getattr__(self, name):
                if name in ("action_space", "observation_space", "np_random", "np_random_seed"):
                    from deepgym.plugins import install_line

                    raise AttributeError(_MISSING.format(name=name, line=install_line("gymnasium")))
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    else:
        HAS_GYMNASIUM = True
