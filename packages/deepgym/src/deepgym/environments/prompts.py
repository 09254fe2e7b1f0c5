"""What a model is asked about an environment."""

from __future__ import annotations

from deepgym.environments.environment import Environment
from deepgym.environments.multi_turn import MultiTurnEnvironment

__all__ = ["prompt_text", "shown_apart"]

_ASK = "Put all of your code into one fenced block that begins with ```{language}."
_COMPLETE = "Complete this {language} code. Write all of it, what is given here included."


def prompt_text(environment: Environment | MultiTurnEnvironment, instruction: str | None = None) -> str:
    """What a policy is asked: the task, the code it continues if there is any, and how to answer.

    A task for an agent is its text alone, with ``instruction`` if one is given.
    """
    if isinstance(environment, MultiTurnEnvironment):
        return _joined(environment.task, instruction or "")
    if instruction == "":
        return _joined(environment.task, shown_apart(environment))
    if instruction is None:
        instruction = _ASK.format(language=environment.language)
    prefix = _fenced(environment.prefix, environment.language)
    if environment.prefix and environment.task.strip() == environment.prefix.strip():
        complete = _COMPLETE.format(language=environment.language.capitalize())
        return _joined(complete, prefix, instruction)
    return _joined(environment.task, prefix if shown_apart(environment) else "", instruction)


def shown_apart(environment: Environment) -> str:
    """The prefix, if the task doesn't show it."""
    prefix = environment.prefix
    return "" if prefix.strip() in environment.task else prefix


def _fenced(code: str, language: str) -> str:
    fence = "```"
    while fence in code:
        fence += "`"
    return f"{fence}{language}\n{code.rstrip()}\n{fence}" if code else ""


def _joined(*parts: str) -> str:
    """The parts with blank lines between them. One alone stays as it is: how code ends may matter."""
    said = [part for part in parts if part.strip()]
    return said[0] if len(said) == 1 else "\n\n".join(part.strip("\n") for part in said)
