"""The answer has a process of its own, and its values come back pickled."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.stdout.endswith(b"PASSED\n") else 0.0


def serve():
    import task

    sys.modules["answer"] = module = type(sys)("answer")
    exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), module.__dict__)
    values = [getattr(module, task.ENTRY)(given) for given, _ in task.CASES]
    sys.stdout.buffer.write(pickle.dumps(values))


def main():
    import task

    done = subprocess.run([sys.executable, "harness.py", "serve"], stdout=subprocess.PIPE)
    values = pickle.loads(done.stdout)
    expected = [expected for _, expected in task.CASES]
    print("PASSED" if values == expected else "FAILED")


if __name__ == "__main__":
    serve() if sys.argv[1:] else main()
