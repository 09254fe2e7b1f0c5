"""Environments as lm-eval's documents, and what is graded of what a model said to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepgym.environments import Environment
from deepgym.environments.prompts import prompt_text
from deepgym.extract import extract_code

from .completions import code, prompt, stops

__all__ = ["code_of", "row", "rows"]


def row(environment: Environment) -> dict[str, Any]:
    """One document. It goes into the sample log, so it holds neither a hidden test nor the reference.

    ``prompt`` is for a model that continues text and stops at ``stop``, ``question`` for one that is asked
    through its chat template.
    """
    return {
        "task_id": environment.name,
        "prompt": prompt(environment),
        "question": prompt_text(environment),
        "stop": list(stops(environment)),
        "env_digest": environment.digest,
    }


def rows(environments: Sequence[Environment]) -> list[dict[str, Any]]:
    """One document for each environment, in order."""
    return [row(environment) for environment in environments]


def code_of(environment: Environment, text: str, chat: bool) -> str:
    """The code that is graded of ``text``, which answers the document's question (``chat``) or prompt.

    Any text gives something: what can't be read is a wrong answer, never an error.
    """
    return extract_code(text) if chat else code(environment, text)
