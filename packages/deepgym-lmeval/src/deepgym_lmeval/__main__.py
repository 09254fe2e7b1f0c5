"""``python -m deepgym_lmeval`` is ``deepgym lm-eval``, for what starts modules: ``accelerate launch -m``."""

from __future__ import annotations

import sys

__all__: list[str] = []

if __name__ == "__main__":
    from deepgym.cli import main

    main(["lm-eval", *sys.argv[1:]])
