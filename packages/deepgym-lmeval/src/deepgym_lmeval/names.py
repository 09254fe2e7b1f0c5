"""Which tasks there are, and the folder of YAML files that tells lm-eval so.

A YAML file's ``deepgym`` key names a suite or a built-in environment. The files are written by ``write`` (a
test keeps them in step), because ``lm_eval --include_path`` reads a folder.
"""

from __future__ import annotations

from pathlib import Path

from deepgym.environments import Environment, list_environments, load_environment, load_suite
from deepgym.exceptions import InvalidEnvironmentError

__all__ = [
    "GROUP",
    "REPEATS",
    "TEMPERATURE",
    "distinct",
    "environments_of",
    "folder",
    "listing",
    "task_name",
    "write",
]

#: The group of suites; ``mbpp`` isn't in it, because it needs a file, nor ``builtin``, which has them twice.
GROUP = "deepgym"
_GROUPED = ("easy", "medium", "hard", "humaneval")
#: What a suite holds; how many documents it has isn't known before its file or package is there.
_SUITES = {
    "builtin": "all built-in environments",
    "easy": "the easy built-in environments",
    "medium": "the medium built-in environments",
    "hard": "the hard built-in environments",
    "humaneval": "HumanEval, 164 documents",
    "mbpp": """MBPP, or another suite, from a JSONL file: --metadata '{"mbpp": "mbpp.jsonl"}'""",
}
#: Of the variants ``_k10``: completions of each document, and how they are sampled.
REPEATS = 10
TEMPERATURE = 0.8


def folder() -> Path:
    """The folder for ``--include_path``."""
    return Path(__file__).with_name("tasks")


def listing() -> list[tuple[str, str]]:
    """Every name that ``--tasks`` takes, and what it is. Neither lm-eval nor an environment is loaded."""
    found = [(GROUP, f"the suites {', '.join(_GROUPED)}, and their means")]
    for name, what in _SUITES.items():
        found += _with_repeats(name, what)
    for name in list_environments():
        found += _with_repeats(name, "one built-in environment")
    return found


def task_name(name: str) -> str:
    """A suite's or an environment's name as a task's: ``deepgym_humaneval_0`` for ``humaneval/0``."""
    return "deepgym_" + "".join(char if char.isalnum() else "_" for char in name)


def environments_of(name: str, mbpp: object = None) -> tuple[Environment, ...]:
    """The environments of a suite or of one name, in order.

    Args:
        name: A YAML file's ``deepgym``: a suite, ``mbpp``, or an environment.
        mbpp: The path that ``mbpp`` needs.

    Raises:
        InvalidEnvironmentError: there is no path for ``mbpp``; the message has the option to give.
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: as ``load_suite`` and
            ``load_environment``.
    """
    if name == "mbpp":
        if not isinstance(mbpp, str) or not mbpp:
            raise InvalidEnvironmentError(
                "deepgym_mbpp needs the path of a JSONL file with MBPP's rows: "
                """--metadata '{"mbpp": "mbpp.jsonl"}'"""
            )
        return distinct(load_suite(Path(mbpp)))
    if name in _SUITES:
        return distinct(load_suite(name))
    return (load_environment(name),)


def distinct(environments: object) -> tuple[Environment, ...]:
    """The environments as a tuple.

    Raises:
        InvalidEnvironmentError: two have one name, so that a sample wouldn't tell which it belongs to.
    """
    found: tuple[Environment, ...] = tuple(environments)  # type: ignore[arg-type]
    names = [environment.name for environment in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidEnvironmentError(f"two environments are named {twice[0]!r}; rename one")
    return found


def write(into: Path) -> None:
    """Write the YAML files, one a name, into the folder ``into``."""
    group = [f"group: {GROUP}", "task:", *(f"  - {task_name(name)}" for name in _GROUPED)]
    group += ["aggregate_metric_list: !function deepgym_task.aggregates", "metadata:", "  version: 1.0"]
    _put(into / f"{GROUP}.yaml", group)
    for name in [*_SUITES, *list_environments()]:
        task = task_name(name)
        _put(into / f"{task}.yaml", ["include: deepgym_task_yaml", f"task: {task}", f"deepgym: {name}"])
        repeated = ["include: deepgym_task_yaml", f"task: {task}_k{REPEATS}", f"deepgym: {name}"]
        _put(into / f"{task}_k{REPEATS}.yaml", [*repeated, f"repeats: {REPEATS}"])
    common = ["class: !function deepgym_task.DeepGymTask", "output_type: generate_until"]
    _put(into / "deepgym_task_yaml", [*common, "metadata:", "  version: 1.0"])


def _with_repeats(name: str, what: str) -> list[tuple[str, str]]:
    task = task_name(name)
    return [(task, what), (f"{task}_k{REPEATS}", f"{what}; {REPEATS} completions each, pass@{REPEATS}")]


def _put(path: Path, lines: list[str]) -> None:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
