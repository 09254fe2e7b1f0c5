"""``regrade``: stored generations judged again, without a model and without lm-eval."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepgym.environments import Environment

from . import logs
from .documents import code_of
from .graded import Graded
from .grading import Grader
from .known import Given, Known
from .metrics import PASS, SCORE, VERDICT, Breakdown, of_document, pass_at
from .samples import Sample, SamplesError

if TYPE_CHECKING:
    from deepgym import DeepGym

__all__ = ["Metric", "Regraded", "regrade"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Metric:
    """A mean over documents and its standard error: the sample standard deviation over the square root of
    their number. ``value`` is ``None`` where nothing was judged, ``stderr`` where fewer than two were.
    """

    value: float | None
    stderr: float | None


@dataclass(frozen=True)
class Regraded:
    """One log, judged again.

    ``metrics`` has ``deepgym_verdict``, ``deepgym_score``, ``deepgym_pass``, and ``deepgym_pass@k`` where a
    document was answered more than once. ``anew`` runs were judged now; the others kept the log's verdict
    (``only_missing``). Of the runs that the log holds a grade of, ``gained`` have a verdict that had none,
    ``lost`` have none any more, and ``moved`` have another score; ``ungraded`` is how many it holds none of,
    as after ``--predict_only``.
    """

    path: Path
    task: str
    documents: int
    runs: int
    judged: int
    anew: int
    no_verdict: dict[str, int]
    """Runs without a verdict by ``error_type``, the most frequent first."""
    metrics: dict[str, Metric]
    gained: int
    lost: int
    moved: int
    ungraded: int
    out: Path | None
    """The log that was written, if any; ``None`` too if it couldn't be, which is logged."""

    @property
    def changed(self) -> int:
        """Runs that aren't what the log says."""
        return self.gained + self.lost + self.moved


def regrade(
    paths: Sequence[Path],
    *,
    suite: Given | None = None,
    only_missing: bool = False,
    out: Path | None = None,
    dg: DeepGym | None = None,
) -> list[Regraded]:
    """Judge the generations in lm-eval's sample logs, in one batch; one ``Regraded`` for each file, in order.

    A document's ``task_id`` names its environment: one of ``suite``, a built-in one, or HumanEval's, in
    lm-eval's own HumanEval tasks too. A run that our side fails gets no verdict, and is counted.

    Args:
        paths: Files ``samples_<task>_<date>.jsonl``; those of ``--predict_only`` too.
        suite: A suite's name, a JSONL file, an environment's folder, or environments.
        only_missing: Judge only the runs without a verdict in the log; the others keep theirs.
        out: Where to write the logs again with the new grades: a file, or a folder for several.
        dg: The client to judge with; by default a local one, which is closed again.

    Raises:
        SamplesError: a file isn't a sample log (with the line), no environment has the name that a line
            gives, or ``out`` is no place for a file.
        SandboxError: nothing can be judged here; the message has the remedy.
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: as ``load_suite``, for ``suite``.
    """
    places = logs.targets(paths, out)
    known = Known(suite)
    read = [_Log(path, place, known, only_missing) for path, place in zip(paths, places, strict=True)]
    found = [document for log in read for document in log.documents]
    _warn_of_digests(found)
    _judge(found, read[0].task if len(read) == 1 else f"{len(read)} files", dg)
    return [log.regraded() for log in read]


@dataclass
class _Run:
    """One answer, what the log says of it, and what it is judged as."""

    code: str
    before: Graded | None
    after: Graded | None = None


@dataclass
class _Document:
    sample: Sample
    environment: Environment
    runs: list[_Run]

    @property
    def graded(self) -> list[Graded]:
        return [run.after for run in self.runs if run.after is not None]


class _Log:
    """One file: its documents, and the numbers over them."""

    def __init__(self, path: Path, out: Path | None, known: Known, only_missing: bool) -> None:
        self.path, self.out, self.task = path, out, logs.task_of(path)
        self.documents = [
            _document(sample, known.environment(sample), only_missing) for sample in logs.read(path)
        ]
        self.runs = [run for document in self.documents for run in document.runs]
        self.kept = sum(run.after is not None for run in self.runs)
        repeats = min(len(document.runs) for document in self.documents)
        ks = [document.sample.k for document in self.documents if document.sample.k is not None]
        self.k = ks[0] if ks else repeats if repeats > 1 else None

    def regraded(self) -> Regraded:
        """The numbers, and the file with them if one is asked for."""
        found = [of_document(document.graded, self.k) for document in self.documents]
        count = Breakdown(self.task, 1)
        count([{} if run.has_verdict else {run.error_type or "other": 1} for run in self._graded()])
        pairs = [(run.before, run.after) for run in self.runs if run.before and run.after]
        return Regraded(
            path=self.path,
            task=self.task,
            documents=len(self.documents),
            runs=len(self.runs),
            judged=sum(run.has_verdict for run in self._graded()),
            anew=len(self.runs) - self.kept,
            no_verdict=(count.found or {})["no_verdict"],
            metrics={name: _metric(found, name) for name in self._names()},
            gained=sum(after.has_verdict and not before.has_verdict for before, after in pairs),
            lost=sum(before.has_verdict and not after.has_verdict for before, after in pairs),
            moved=sum(_moved(before, after) for before, after in pairs),
            ungraded=len(self.runs) - len(pairs),
            out=self._written(),
        )

    def _written(self) -> Path | None:
        """The file, once it is written; an error in the log if it can't be, since the numbers stand."""
        if self.out is None:
            return None
        try:
            logs.write(self.out, self._rows())
        except SamplesError as error:
            logger.error("%s; the grades are lost, the numbers aren't", error)
            return None
        return self.out

    def _names(self) -> list[str]:
        return [VERDICT, SCORE, PASS, *([pass_at(self.k)] if self.k else [])]

    def _graded(self) -> list[Graded]:
        return [graded for document in self.documents for graded in document.graded]

    def _rows(self) -> Iterable[dict[str, Any]]:
        for document in self.documents:
            found = of_document(document.graded, self.k, every_key=document.sample.every_key)
            yield document.sample.again(document.graded, found)


def _document(sample: Sample, environment: Environment, only_missing: bool) -> _Document:
    runs = []
    for text, before in zip(sample.texts, sample.grades, strict=True):
        kept = before if only_missing and before is not None and before.has_verdict else None
        runs.append(_Run(code_of(environment, text, not sample.continues), before, kept))
    return _Document(sample, environment, runs)


def _judge(documents: Sequence[_Document], label: str, dg: DeepGym | None) -> None:
    """Judge the runs that aren't yet, after a look at the judge itself."""
    asked = [
        (document.environment, run) for document in documents for run in document.runs if run.after is None
    ]
    if not asked:
        return
    grader = Grader(dg)
    try:
        grader.smoke([])
        graded = grader.grade([(environment, run.code) for environment, run in asked], label)
    finally:
        grader.close()
    for (_, run), after in zip(asked, graded, strict=True):
        run.after = after


def _warn_of_digests(documents: Sequence[_Document]) -> None:
    logged = [document for document in documents if document.sample.env_digest is not None]
    other = [document for document in logged if document.sample.env_digest != document.environment.digest]
    if other:
        logger.warning(
            "%d of %d documents were of another version of their environment, %s for one; they are judged by "
            "what is installed now",
            len(other),
            len(documents),
            other[0].environment.name,
        )


def _moved(before: Graded, after: Graded) -> bool:
    verdicts = before.has_verdict and after.has_verdict
    return verdicts and (before.score, before.passed) != (after.score, after.passed)


def _metric(documents: Sequence[dict[str, Any]], name: str) -> Metric:
    """As lm-eval counts: in the documents' order, so that not even the last digit differs."""
    values = [document[name] for document in documents if name in document]
    if not values:
        return Metric(None, None)
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Metric(mean, None)
    deviation = math.sqrt(sum([(value - mean) ** 2 for value in values]) / (len(values) - 1))
    return Metric(mean, deviation / math.sqrt(len(values)))
