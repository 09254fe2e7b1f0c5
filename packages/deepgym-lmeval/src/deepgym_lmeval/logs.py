"""lm-eval's sample logs as files: found whole, cut off where a run was killed, and written again."""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from . import samples
from .samples import WRITES, Sample, SamplesError

__all__ = ["read", "targets", "task_of", "write"]

logger = logging.getLogger(__name__)

#: Of one line. Ten answers of 1536 tokens are some 60 kB.
MAX_BYTES = 64 << 20
_NAME = re.compile(r"samples_(?P<task>.+)_\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?")


def read(path: Path) -> list[Sample]:
    """The samples of a log, in order. A last line that was cut off is left out, with a warning.

    Raises:
        SamplesError: the file can't be read, a line isn't a sample of generated text, or there is none.
    """
    found = []
    for number, line in _lines(path):
        where = f"{path} line {number}"
        try:
            fields = samples.fields_of(line)
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n"):
                logger.warning("%s was cut off, as by a run that was killed; it is left out", where)
                break
            raise SamplesError(f"{where} isn't JSON ({error}); {WRITES}") from None
        found.append(samples.sample(fields, where))
    if not found:
        raise SamplesError(f"{path} holds no sample; {WRITES}")
    _warn_of_twins(path, found)
    return found


def task_of(path: Path) -> str:
    """The task's name in a log's file name; for another file its name without the ending."""
    match = _NAME.fullmatch(path.stem)
    return match["task"] if match else path.stem


def targets(paths: Sequence[Path], out: Path | None) -> list[Path | None]:
    """Where each log is written again: ``out``, or a file of the log's name in the folder ``out``.

    ``out`` is a folder if there are several logs, or if it is one already.

    Raises:
        SamplesError: two logs have one name, a log would be overwritten, or the folder can't be made.
    """
    if out is None:
        return [None] * len(paths)
    into = len(paths) > 1 or out.is_dir()
    found = [out / path.name if into else out for path in paths]
    for number, target in enumerate(found):
        if target in found[:number]:
            raise SamplesError(f"two of the files are named {target.name}; regrade them one at a time")
        if any(_same(target, path) for path in paths):
            raise SamplesError(f"{target} is one of the files to regrade, and is never overwritten")
    folder = out if into else out.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SamplesError(f"{folder} can't be made: {error.strerror or error}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SamplesError(f"nothing can be written into {folder}")
    return list(found)


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a log, as a whole or not at all.

    Raises:
        SamplesError: it can't be written.
    """
    scratch = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with scratch.open("xb") as stream:
            for row in rows:
                stream.write(_line(row))
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    except OSError as error:
        raise SamplesError(f"{path} can't be written: {error.strerror or error}") from None
    finally:
        scratch.unlink(missing_ok=True)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines that aren't blank, with their numbers."""
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(MAX_BYTES + 1):
                number += 1
                if len(line) > MAX_BYTES:
                    raise SamplesError(f"{path} line {number} is longer than {MAX_BYTES} bytes; {WRITES}")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise SamplesError(f"{path} can't be read: {error.strerror or error}; {WRITES}") from None


def _line(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which the log had escaped
        return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"


def _warn_of_twins(path: Path, samples: Sequence[Sample]) -> None:
    seen = {json.dumps([sample.fields.get("doc_id"), sample.task_id]) for sample in samples}
    if len(seen) < len(samples):
        twins = len(samples) - len(seen)
        logger.warning("%s: lines of documents that it has already: %d; each counts", path, twins)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
