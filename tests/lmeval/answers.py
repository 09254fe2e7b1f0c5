"""What models say to a task: the right thing, a wrong one, nothing, or half of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from deepgym.environments import Environment

from .server import Asked

__all__ = ["Answers", "Says", "canonical", "continues", "empty", "truncated", "wrong"]

#: What a model says to a task, asked through its chat template or not.
Says = Callable[[Environment, bool], str]


def continues(environment: Environment) -> bool:
    """Whether a base model is shown the bare beginning of a function, as in HumanEval."""
    return bool(environment.prefix) and environment.prefix.strip() == environment.task.strip()


def canonical(environment: Environment, chat: bool) -> str:
    """The reference, and then what models add to it when nothing stops them."""
    code = environment.reference or ""
    if chat:
        return f"Here it is.\n\n```python\n{code}\n```\nIt uses no library."
    if continues(environment):
        body = code[len(environment.prefix) :]
        return f"{body}\n\nif __name__ == '__main__':\n    raise SystemExit({environment.entry_point}(1))\n"
    return f"{code}\n```\nThat is all."


def wrong(environment: Environment, chat: bool) -> str:
    """Well-formed code that gives no right answer."""
    if not chat and continues(environment):
        return "    return 'no such thing'\n"
    lines = [environment.prefix + "    return 'no such thing'"] if continues(environment) else []
    for node in ast.parse(environment.reference or "").body if not lines else []:
        if isinstance(node, ast.FunctionDef):
            lines.append(f"def {node.name}(*given, **named):\n    return 'no such thing'")
        elif isinstance(node, ast.ClassDef):
            lines.append(f"class {node.name}:\n    pass")
    code = "\n\n".join(lines or ["print('no such thing')"])
    return f"```python\n{code}\n```" if chat else f"{code}\n```"


def empty(environment: Environment, chat: bool) -> str:
    return ""


def truncated(environment: Environment, chat: bool) -> str:
    """The reference as far as a small ``max_tokens`` lets it come: it ends in the middle of a call."""
    code = environment.reference or ""
    if continues(environment) and not chat:
        code = code[len(environment.prefix) :]
    lines = code.rstrip().splitlines()
    indent = lines[-1][: len(lines[-1]) - len(lines[-1].lstrip())]
    cut = "\n".join([*lines[:-1], f"{indent}return sorted("])
    return f"Here it is.\n\n```python\n{cut}" if chat else cut


class Answers:
    """The answers of a model that knows every suite's environments: ``says`` decides what it says to which.

    The environment is the one whose task stands last in the prompt, since examples stand before it.
    """

    def __init__(self, says: Says | Mapping[str, Says], environments: Sequence[Environment]) -> None:
        self.says = says
        self.environments = environments

    def __call__(self, asked: Asked) -> str:
        environment = self.environment(asked.prompt)
        says = self.says[environment.name] if isinstance(self.says, Mapping) else self.says
        return says(environment, asked.chat)

    def environment(self, prompt: str) -> Environment:
        ends = [
            (prompt.rfind(task) + len(task), env)
            for env in self.environments
            if (task := env.task.strip()) in prompt
        ]
        assert ends, f"a prompt without a task: {prompt}"
        return max(ends, key=lambda item: (item[0], len(item[1].task)))[1]
