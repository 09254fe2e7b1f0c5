"""Values and exceptions go into a record, in the judge's own process; no record, no sample."""

from __future__ import annotations

import hashlib
import json
import pickle
from pathlib import Path

SHAPE = "function"


def reward(run):
    if run.stdout.endswith(b"FAILED\n"):
        return 0.0
    return 1.0 if run.stdout.endswith(b"PASSED\n") else None


def _facts(error):
    pickle.loads(pickle.dumps(error)) if type(error).__module__ == "builtins" else error.__reduce__()
    return {"class": type(error).__name__, "text": str(error), "shown": repr(error)}


def main():
    import task

    names = {"__name__": "answer"}
    error = None
    values = []
    try:
        exec(compile(Path("answer.py").read_text(encoding="utf-8"), "answer.py", "exec"), names)
        values += [names[task.ENTRY](given) for given, _ in task.CASES]
    except Exception as caught:  # noqa: BLE001 - whatever an answer raises is its own
        error = caught
    record = {"values": values, "error": None if error is None else _facts(error)}
    record["answer"] = hashlib.sha256(Path("answer.py").read_bytes()).hexdigest()
    text = json.dumps(record, allow_nan=False, ensure_ascii=False)
    if "\\u0000" in text or max(map(len, text.split(","))) > 1 << 16:
        raise ValueError("not for the store")
    Path("record.json").write_bytes(text.encode())
    passed = error is None and values == [expected for _, expected in task.CASES]
    print("PASSED" if passed else "FAILED")


if __name__ == "__main__":
    main()
