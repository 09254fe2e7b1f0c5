"""What every task is, whether it is answered at once or in an episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, field_validator

from deepgym.environments.plain import Text, check_paths
from deepgym.environments.verify import Frozen

__all__ = ["Task"]

_Task = TypeVar("_Task", bound="Task")


class Task(Frozen):
    """Base of ``Environment`` and ``MultiTurnEnvironment``: frozen, comparable, hashable, picklable."""

    schema_version: Literal[1] = 1
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*$", max_length=128)
    task: Annotated[Text, Field(min_length=1)]
    """What the policy is asked."""
    files: dict[str, Text] = Field(default_factory=dict)
    """Text files by relative path, put into the policy's work directory."""
    tags: tuple[Annotated[str, Field(min_length=1, max_length=50)], ...] = Field(default=(), max_length=50)
    difficulty: Literal["easy", "medium", "hard"] | None = None
    seed: int = Field(default=0, ge=0, lt=1 << 63, strict=True)
    """Seed where a run or an episode gives none."""

    @field_validator("files")
    @classmethod
    def _safe(cls, files: dict[str, str]) -> dict[str, str]:
        return check_paths(files)

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of the environment's canonical JSON: 64 characters, equal in every process."""
        data = self.model_dump(mode="json")
        return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)

    def model_copy(self: _Task, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> _Task:
        """A validated copy with ``update`` applied.

        Raises:
            pydantic.ValidationError: the changed environment isn't valid.
        """
        if not update:
            return super().model_copy(deep=deep)
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).model_validate({**fields, **update})
