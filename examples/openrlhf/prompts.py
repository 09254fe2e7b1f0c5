"""Write a data set for OpenRLHF: a prompt in `input`, the environment's name in `label`.

pip install "deepgym==1.0.0"
python prompts.py easy prompts.jsonl
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from deepgym import load_suite
from deepgym.environments.prompts import prompt_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", help="builtin, easy, medium, hard, humaneval, or a JSONL file")
    parser.add_argument("out", type=Path)
    parser.add_argument("--repeat", type=int, default=1, help="rows of each environment")
    given = parser.parse_args()
    rows = [{"input": prompt_text(env), "label": env.name} for env in load_suite(given.suite)]
    given.out.write_text("".join(json.dumps(row) + "\n" for row in rows * given.repeat), encoding="utf-8")
    print(f"{len(rows) * given.repeat} rows in {given.out}")


if __name__ == "__main__":
    main()
