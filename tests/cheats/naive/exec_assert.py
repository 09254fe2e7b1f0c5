"""Answer and assertions are executed in one process, and exit status 0 is a pass."""

from __future__ import annotations

from pathlib import Path

SHAPE = "function"


def reward(run):
    return 1.0 if run.status == 0 else 0.0


def main():
    import task

    checks = [f"    assert candidate({given}) == {expected}" for given, expected in task.CASES]
    test = "\n".join(["def check(candidate):", *checks, f"check({task.ENTRY})", ""])
    program = Path("answer.py").read_text(errors="surrogatepass") + "\n" + test
    exec(compile(program, "answer.py", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
