"""A line of lm-eval's sample log.

It may come from anywhere and holds whatever a model said; so everything is looked at before it is used, and
only a line that says that it was graded is believed to hold grades.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepgym.exceptions import DeepGymError

from .graded import Graded

__all__ = ["OURS", "WRITES", "Sample", "SamplesError", "fields_of", "sample"]

#: What the names of our metrics begin with.
OURS = "deepgym_"
#: What to say to who passes something else.
WRITES = "pass files samples_<task>_<date>.jsonl, which lm_eval writes with --log_samples --output_path"
_PASS_AT = re.compile(r"deepgym_pass@([1-9]\d{0,5})")


class SamplesError(DeepGymError, ValueError):
    """A file isn't a sample log that can be graded; the message names the file and the line."""


@dataclass(frozen=True)
class Sample:
    """One document's line.

    ``continues``: whether the model was sent the document's ``prompt`` to continue, and not asked in a chat.
    ``texts`` is what it said, once for each repeat; ``grades`` what the log says of each, ``None`` where it
    holds no grade. ``k`` is that of the log's ``deepgym_pass@k``. ``every_key``: whether a metric without a
    value stands there as ``null``, as those of a run on several ranks do.
    """

    where: str
    fields: dict[str, Any]
    task_id: str
    prompt: str
    env_digest: str | None
    continues: bool
    texts: tuple[str, ...]
    grades: tuple[Graded | None, ...]
    k: int | None
    every_key: bool

    def again(self, graded: Sequence[Graded], metrics: dict[str, Any]) -> dict[str, Any]:
        """The line's fields with new grades and metrics; every other field is as it was."""
        named = self.fields.get("metrics")
        old = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
        kept = [name for name in old if not name.startswith(OURS) and name != "bypass"]
        fields = {name: value for name, value in self.fields.items() if not _replaced(name)}
        fields["filtered_resps"] = [[str(grade) for grade in graded]]
        fields["metrics"] = [*kept, *metrics]
        return {**fields, **metrics}


def fields_of(line: bytes) -> Any:
    """What a line says, as JSON can say it again: a number that isn't finite is ``None``."""
    return json.loads(line.decode("utf-8"), parse_constant=lambda _: None, parse_float=_finite)


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def sample(fields: Any, where: str) -> Sample:
    """A line's fields as a sample; ``where`` is its file and number.

    Raises:
        SamplesError: it isn't one, or not one of a task that generates code.
    """
    if not isinstance(fields, dict):
        raise SamplesError(f"{where} is a {type(fields).__name__}, not a sample; {WRITES}")
    missing = [name for name in ("doc", "arguments", "resps") if name not in fields]
    if missing:
        raise SamplesError(f"{where} isn't a sample: it has no {', '.join(missing)}; {WRITES}")
    doc = fields["doc"]
    task_id, prompt = (doc.get("task_id"), doc.get("prompt")) if isinstance(doc, dict) else (None, None)
    if not isinstance(task_id, str) or not isinstance(prompt, str):
        raise SamplesError(f"{where}: its doc has no task_id and prompt, as a code task's document has")
    texts = _texts(fields["resps"], where)
    grades = _grades(fields, len(texts))
    digest = doc.get("env_digest")
    ks = [int(match[1]) for name in fields if (match := _PASS_AT.fullmatch(name))]
    return Sample(
        where=where,
        fields=fields,
        task_id=task_id,
        prompt=prompt,
        env_digest=digest if isinstance(digest, str) else None,
        continues=_continues(_sent(fields["arguments"], where), prompt),
        texts=texts[: len(grades)],
        grades=grades,
        k=ks[0] if ks else None,
        every_key=any(name.startswith(OURS) and value is None for name, value in fields.items()),
    )


def _texts(resps: Any, where: str) -> tuple[str, ...]:
    """What the one request of a document was answered with."""
    said = resps[0] if isinstance(resps, list) and len(resps) == 1 else None
    if not isinstance(said, list) or not said or not all(isinstance(text, str) for text in said):
        raise SamplesError(f"{where}: its resps aren't [[text, ...]], as those of a task that generates are")
    return tuple(said)


def _grades(fields: dict[str, Any], runs: int) -> tuple[Graded | None, ...]:
    """One for each run. Without our metrics ``filtered_resps`` is what the model said: it grades nothing."""
    filtered = fields.get("filtered_resps")
    said = filtered[0] if isinstance(filtered, list) and len(filtered) == 1 else None
    if f"{OURS}verdict" not in fields or not isinstance(said, list):
        return (None,) * runs
    grades = tuple(Graded.parse(text) for text in said)
    # Fewer: a rank with fewer documents than others got its last one's answers twice, and graded them once.
    fewer = 0 < len(grades) < runs and None not in grades
    return grades if len(grades) == runs or fewer else (None,) * runs


def _sent(arguments: Any, where: str) -> str | list[dict[str, Any]]:
    """The prompt: text, or a chat's messages."""
    try:
        sent = arguments["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]
        # Where a server applies the chat template, lm-eval keeps the messages as JSON in a tuple of one.
        text = sent[0] if isinstance(sent, list) and len(sent) == 1 else sent
    except (LookupError, TypeError):
        text = None
    if not isinstance(text, str):
        raise SamplesError(f"{where}: its arguments don't hold the prompt that was sent")
    try:
        messages = json.loads(text) if text.lstrip().startswith("[") else None
    except (ValueError, RecursionError):
        messages = None
    return messages if messages and _is_chat(messages) else text


def _is_chat(messages: Any) -> bool:
    return isinstance(messages, list) and all(isinstance(said, dict) and "role" in said for said in messages)


def _continues(sent: str | list[dict[str, Any]], prompt: str) -> bool:
    """Whether what was sent ends with the prompt, be it as the beginning of the assistant's turn."""
    if isinstance(sent, list):
        last = sent[-1]
        said = last.get("content") if last["role"] == "assistant" else None
        sent = said if isinstance(said, str) else ""
    end = prompt.rstrip()
    return bool(end) and sent.rstrip().endswith(end)


def _replaced(name: str) -> bool:
    return name == "bypass" or name.startswith(OURS)
