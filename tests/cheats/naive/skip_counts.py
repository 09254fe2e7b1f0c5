"""The answer is tested by ``unittest``, and whatever didn't fail was successful."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.status == 0 else 0.0


def main():
    import task

    names = {"__name__": "answer"}

    class Test(unittest.TestCase):
        def test_values(self):
            exec(compile(Path("answer.py").read_text(), "answer.py", "exec"), names)
            for given, expected in task.CASES:
                self.assertEqual(names[task.ENTRY](given), expected)  # noqa: PT009

    result = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(Test))
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
