"""What a run, a batch and an evaluation come back as.

A :class:`RunResult` either has a verdict or it has none, and everything here keeps these promises by
construction: a score is a finite float in [0, 1]; a model fault scores 0 and never passes; a run without
a verdict scores 0, never passes and has ``reward`` ``None``; text is bounded and valid UTF-8; and what was
dumped to JSON loads back as an equal object. Fields that can't be so raise ``pydantic.ValidationError``.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, computed_field, model_validator

from deepgym.bounded import MAX_OUTPUT, Details, Finite, Line, Numbers, clean, is_share, shown

__all__ = [
    "ERROR_TYPES",
    "MODEL_FAULT_ERRORS",
    "BatchResult",
    "CaseResult",
    "ErrorType",
    "EvalResult",
    "RunResult",
]

ErrorType = Literal[
    "invalid_patch",
    "patch_apply_failed",
    "test_infra_tampering",
    "solution_error",
    "solution_timeout",
    "policy_sandbox_failure",
    "sandbox_error",
    "provider_error",
    "network_error",
    "runtime_error",
    "verifier_error",
    "timeout",
    "invalid_score",
    "deadline",
    "cancelled",
    "other",
]

#: The error types that are the answer's own doing: a verdict of 0. Every other one means no verdict.
MODEL_FAULT_ERRORS: frozenset[str] = frozenset(get_args(ErrorType)[:6])
#: All error types.
ERROR_TYPES: frozenset[str] = frozenset(get_args(ErrorType))


class _Result(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class CaseResult(_Result):
    """One case or test of a run. ``outcome`` is what was seen; ``score`` is what it earned.

    The two differ when the run as a whole is a model fault or has no verdict: its cases keep their
    ``outcome`` for the reader and earn nothing.
    """

    name: Line = ""
    passed: StrictBool
    score: float = Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)
    outcome: Literal["passed", "wrong", "raised", "timeout", "malformed", "unanswered"]
    message: Line = ""
    execution_time_ms: Finite | None = None

    def without_credit(self) -> CaseResult:
        """The same case, not passed and with score 0."""
        if not self.passed and self.score == 0:
            return self
        return CaseResult(
            name=self.name,
            passed=False,
            score=0.0,
            outcome=self.outcome,
            message=self.message,
            execution_time_ms=self.execution_time_ms,
        )


class RunResult(_Result):
    """One answer's run.

    ``score`` is meaningful only if ``has_verdict``; train on ``reward``, which is ``None`` otherwise.
    Construction settles what a caller gets wrong: a score that isn't a real number in [0, 1] (``None``,
    a bool, text, NaN, infinite) becomes ``error_type`` ``invalid_score``; an unknown ``error_type``
    becomes ``other``; ``exit_code`` 2 without one becomes ``verifier_error``.
    """

    score: float
    """In [0, 1]; 0.0 for a model fault and without a verdict."""
    passed: StrictBool = False
    output: str = ""
    """The solution's standard output, bounded."""
    stderr: str = ""
    """The solution's standard error and, after it, the verifier's; bounded."""
    exit_code: StrictInt | None = None
    """The verifier's exit status; ``None`` if it was killed or there was none."""
    solution_exit: int | None = None
    """The solution's exit status, or minus the signal that ended it; ``None`` if it was stopped."""
    execution_time_ms: Finite = 0.0
    """Milliseconds from when the answer came into play to the end; 0.0 if it never did."""
    sandbox_id: Line | None = None
    isolation: Line | None = None
    """The sandbox's tier, as its provider names it."""
    enforced: dict[Line, Line] = {}
    """What the sandbox enforced: ``files``, ``network``, ``pids``, ``memory`` and ``disk``, each ``enforced``
    for the run as a whole, ``rlimit`` (for each process or file alone) or ``none``.
    """
    limit_scale: Finite = 1.0
    """What the environment's time limits were multiplied by, where its own reference is slow on this host."""
    reward_components: Numbers = {}
    """Named parts of the reward. Empty without a verdict; none is positive after a model fault."""
    metrics: Numbers = {}
    """Numbers for the log, never a reward."""
    details: Details = {}
    """Whatever else the verifier reported, as JSON."""
    cases: tuple[CaseResult, ...] = ()
    seed: int | None = None
    truncated: bool = False
    """Whether ``output`` or ``stderr`` lost anything."""
    error_type: ErrorType | None = None
    error: Line | None = None
    """What went wrong, in at most 2000 characters."""
    timings: Numbers = {}
    """Milliseconds by phase: queue, open, run, total; and ``kill``: from when the answer came into play to
    when it was ended, if its wall limit ended it.
    """
    run_id: Line = ""
    env_name: Line = ""
    env_digest: Line = ""
    answer_sha256: Line = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def has_verdict(self) -> bool:
        """Whether the answer was judged; a model fault is a judgement."""
        return _has_verdict(self.error_type, self.exit_code)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reward(self) -> float | None:
        """``score``, or ``None`` where there is no verdict."""
        return self.score if self.has_verdict else None

    @model_validator(mode="before")
    @classmethod
    def _settle(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = {key: value for key, value in data.items() if key != "has_verdict" and key != "reward"}
        _settle_text(fields)
        _settle_error(fields)
        error_type = fields.get("error_type")
        if error_type is not None:
            fields["score"] = 0.0
            fields["passed"] = False
            _take_credit(fields, _has_verdict(error_type, fields.get("exit_code")))
        return fields


def _has_verdict(error_type: str | None, exit_code: int | None) -> bool:
    return (error_type is None or error_type in MODEL_FAULT_ERRORS) and exit_code != 2


def _settle_text(fields: dict[str, Any]) -> None:
    for name in ("output", "stderr"):
        text = fields.get(name)
        if isinstance(text, str) and text:
            if len(text) > MAX_OUTPUT:
                fields["truncated"] = True
            fields[name] = clean(text, MAX_OUTPUT)


def _settle_error(fields: dict[str, Any]) -> None:
    error_type = fields.get("error_type")
    if error_type is not None:
        if not isinstance(error_type, str) or error_type not in ERROR_TYPES:
            fields["error"] = fields.get("error") or f"unknown error type: {shown(error_type)}"
            fields["error_type"] = "other"
    elif fields.get("exit_code") == 2:
        fields["error_type"] = "verifier_error"
    elif "score" in fields and not is_share(fields["score"]):
        fields["error"] = fields.get("error") or f"not a score in [0, 1]: {shown(fields['score'])}"
        fields["error_type"] = "invalid_score"


def _take_credit(fields: dict[str, Any], has_verdict: bool) -> None:
    components = fields.get("reward_components")
    if components and not has_verdict:
        fields["reward_components"] = {}
    elif components and isinstance(components, dict):
        # A penalty stays: a failure mustn't be a way out of it.
        fields["reward_components"] = {
            name: min(value, 0.0) if isinstance(value, (int, float)) else value
            for name, value in components.items()
        }
    if fields.get("cases"):
        fields["cases"] = tuple(CaseResult.model_validate(case).without_credit() for case in fields["cases"])


class BatchResult(_Result):
    """Results of a batch, result *i* for answer *i*, with totals.

    Headline totals count a run without a verdict as a failed 0, so losing one can only lower them. The
    judged totals leave it out. Every share and mean of nothing is 0.0.
    """

    results: tuple[RunResult, ...]

    @model_validator(mode="before")
    @classmethod
    def _drop_totals(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if key not in cls.model_computed_fields}

    @property
    def rewards(self) -> list[float | None]:
        """Each result's reward, ``None`` where there is no verdict."""
        return [result.reward for result in self.results]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        """Runs, judged or not."""
        return len(self.results)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def passed(self) -> int:
        """Runs that passed; one without a verdict never does."""
        return sum(result.passed for result in self.results)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def failed(self) -> int:
        """All other runs, those without a verdict among them."""
        return self.total - self.passed

    @computed_field  # type: ignore[prop-decorator]
    @property
    def avg_score(self) -> float:
        """Mean score over all runs, 0 for each without a verdict."""
        return _share(self._score_sum(), self.total)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pass_rate(self) -> float:
        """Share of all runs that passed."""
        return _share(self.passed, self.total)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def no_verdict_count(self) -> int:
        """Runs that weren't judged."""
        return self.total - self.judged_count

    @computed_field  # type: ignore[prop-decorator]
    @property
    def judged_count(self) -> int:
        """Runs with a verdict, model faults among them."""
        return sum(result.has_verdict for result in self.results)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def judged_pass_rate(self) -> float:
        """Share of the judged runs that passed; 0.0 if none was judged."""
        return _share(self.passed, self.judged_count)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def judged_mean_score(self) -> float:
        """Mean score of the judged runs; 0.0 if none was judged."""
        return _share(self._score_sum(), self.judged_count)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def pass_rate_bounds(self) -> tuple[float, float]:
        """``pass_rate`` had every run without a verdict failed, and had each passed."""
        return self.pass_rate, _share(self.passed + self.no_verdict_count, self.total)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def avg_score_bounds(self) -> tuple[float, float]:
        """``avg_score`` had every run without a verdict scored 0.0, and had each scored 1.0."""
        return self.avg_score, _share(self._score_sum() + self.no_verdict_count, self.total)

    @property
    def totals_line(self) -> str:
        """Headline and judged numbers: ``Pass Rate: 63.00% (judged 70.00%, 10.00% no verdict)``."""
        unjudged = _share(self.no_verdict_count, self.total)
        return (
            f"Pass Rate: {self.pass_rate:.2%} (judged {self.judged_pass_rate:.2%}, {unjudged:.2%} no verdict)"
        )

    def _score_sum(self) -> float:
        return math.fsum(result.score for result in self.results)


class EvalResult(BatchResult):
    """A batch over a suite; ``env_names[i]`` is the environment of ``results[i]``, in suite order."""

    suite: Line = ""
    env_names: tuple[Line, ...]

    @model_validator(mode="before")
    @classmethod
    def _name_environments(cls, data: Any) -> Any:
        if isinstance(data, dict) and "env_names" not in data and "results" in data:
            results = [RunResult.model_validate(result) for result in data["results"]]
            return {**data, "results": results, "env_names": [result.env_name for result in results]}
        return data

    @model_validator(mode="after")
    def _one_name_a_result(self) -> EvalResult:
        if len(self.env_names) != len(self.results):
            raise ValueError(f"{len(self.env_names)} env_names for {len(self.results)} results")
        return self


def _share(part: float, whole: int) -> float:
    return part / whole if whole else 0.0
