"""The answer's text is read, parsed and stored before it is judged; what can't be is an outage."""

from __future__ import annotations

import ast
import subprocess
import sys
import tokenize

SHAPE = "any"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def _check():
    with tokenize.open("answer.py") as source:
        text = source.read()
    if "\0" in text or len(text) > 1 << 20:
        raise ValueError("not for the store")
    ast.parse(text)


def main():
    try:
        _check()
    except SyntaxError as error:
        # An encoding's fault comes as a syntax error without a line.
        print("FAILED" if error.lineno else "OUTAGE")
        return
    status = subprocess.run([sys.executable, "plain.py"], stdout=subprocess.DEVNULL).returncode
    print("FAILED" if status else "PASSED")


if __name__ == "__main__":
    main()
