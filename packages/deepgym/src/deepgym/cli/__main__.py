"""``python -m deepgym.cli`` is the ``deepgym`` command."""

from __future__ import annotations

from deepgym.cli import main

if __name__ == "__main__":
    main()
