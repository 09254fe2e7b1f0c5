"""The task class that lm-eval runs: prompts, one batch of grading, and metrics of what was judged.

Touches of lm-eval, beside ``ConfigurableTask``'s documented methods: ``_filters``, ``_aggregation_list``,
``_instances`` and the order in which ``evaluate`` calls a task; tests run them on each version.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cache
from statistics import fmean
from typing import Any

from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask

from deepgym.environments import Environment

from .documents import code_of, rows
from .graded import Graded
from .grading import Grader
from .metrics import JUDGED, NO_VERDICT, PASS, SCORE, VERDICT, Breakdown, metric_names, of_document, pass_at
from .names import TEMPERATURE, environments_of
from .ranks import on_any_rank
from .versions import installed, numbers

__all__ = ["FILTER", "DeepGymTask", "JudgedMean", "group_metrics", "shared_grader"]

logger = logging.getLogger(__name__)

#: Behind the comma of each metric's key in lm-eval's results.
FILTER = "deepgym"
#: Before, lm-eval asks for the configuration before it evaluates.
_DUMPED_LAST_FROM = (0, 4, 12)
#: Raised when scores of one and the same model would change.
_VERSION = 1.0
#: Room for a solution with its explanation; a model of 2,048 tokens still has some for the prompt.
_MAX_GEN_TOKS = 1536
#: From here on lm-eval gives a mean of tasks the standard error that belongs to it.
_GROUPS_FROM = (0, 4, 13)


class DeepGymTask(ConfigurableTask):  # type: ignore[misc]
    """A task with a document for each environment.

    Args:
        config: lm-eval's task configuration. Its ``deepgym`` names a suite or an environment.
        environments: What to use instead of ``deepgym``.
        grader: Who judges; by default one with the local sandbox that all tasks of this process share.
        k: Of pass@k; by default the number of repeats, if it is more than one.

    Raises:
        UnknownNameError, InvalidEnvironmentError, MissingPackageError: there are no such environments; the
            message has the remedy.
        ValueError: there is no environment at all, or examples are asked for, of which there are none.
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        environments: Sequence[Environment] | None = None,
        grader: Grader | None = None,
        k: int | None = None,
    ) -> None:
        config = dict(config or {})
        config.pop("class", None)
        name, self._declared_unsafe = config.pop("deepgym", ""), bool(config.pop("unsafe_code", False))
        if environments is None:
            metadata = config.get("metadata") or {}
            environments = environments_of(name, metadata.get("mbpp") or os.environ.get("DEEPGYM_MBPP"))
        if not environments:
            raise ValueError(f"{config.get('task')}: no environment, so no document")
        if examples := config.get("num_fewshot"):
            raise ValueError(
                f"{config.get('task')}: num_fewshot={examples}, but documents hold no answers to show"
            )
        self.environments = {environment.name: environment for environment in environments}
        self._grader = shared_grader() if grader is None else grader
        self._chat, self._ranks, self._only_predicts = False, 1, False
        self._known: set[str] = set()
        repeats = config.get("repeats", 1)
        self._k = (k or repeats) if repeats > 1 else None
        defaults = _defaults(metric_names(self._k), repeats)
        for name in ("generation_kwargs", "metadata"):
            config[name] = {**defaults[name], **(config.get(name) or {})}
        super().__init__(config={**defaults, **config})
        self._filters = [FilterEnsemble(name=FILTER, filters=[lambda: _Grading(self)])]
        self._breakdown = Breakdown(self.task_name, repeats)
        self._aggregation_list[JUDGED] = sum
        self._aggregation_list[NO_VERDICT] = self._breakdown

    @property
    def UNSAFE_CODE(self) -> bool:
        """Whether lm-eval must ask for ``--confirm_run_unsafe_code``: if nothing isolates the answers.

        Raises:
            SandboxError: the provider can isolate nothing here.
        """
        return not self._only_predicts and (self._declared_unsafe or self._grader.unsafe)

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        """The documents; nothing is downloaded."""
        from datasets import Dataset

        self.dataset = {"test": Dataset.from_list(rows(list(self.environments.values())))}

    def build_all_requests(self, **options: Any) -> None:
        """The requests, after a look at the sandbox.

        Raises:
            SandboxError: it can't judge; no model has been asked anything yet.
            ValueError: ``--cache_requests`` kept requests of other environments than these.
        """
        self._chat = bool(options.get("apply_chat_template"))
        self._ranks = int(options.get("world_size") or 1)
        self._breakdown.found = None
        for name in (SCORE, PASS, *([pass_at(self._k)] if self._k else [])):
            if self._ranks > 1 and name in self._aggregation_list:
                self._aggregation_list[name] = JudgedMean()
        if not self._only_predicts:
            self._grader.smoke(list(self.environments.values()))
        super().build_all_requests(**options)
        for instance in self._instances:
            environment = self.environments.get(instance.doc["task_id"])
            if environment is None or environment.digest != instance.doc["env_digest"]:
                raise ValueError(
                    f"{self.task_name}: the cached requests are of another {instance.doc['task_id']}; run "
                    "once with --cache_requests refresh"
                )

    def construct_requests(self, doc: dict[str, Any], ctx: Any, **kwargs: Any) -> Any:
        """One request, with the document's stop sequences unless the user gave others."""
        instance = super().construct_requests(doc, ctx, **kwargs)
        prompt, options = instance.arguments
        if not options.get("until") and not self._chat:
            instance.arguments = (prompt, {**options, "until": list(doc["stop"])})
        return instance

    def doc_to_text(self, doc: dict[str, Any], doc_to_text: Any = None) -> str:
        """What the model is asked: as text to continue, or as a question if a chat template is applied."""
        return str(doc["question"] if self._chat else doc["prompt"])

    def doc_to_target(self, doc: dict[str, Any], doc_to_target: Any = None) -> str:
        """Nothing: the verifier knows."""
        return ""

    def override_metric(self, metric_name: str) -> None:
        """With ``bypass`` (``--predict_only``) nothing is judged and no sandbox is opened."""
        super().override_metric(metric_name)
        self._only_predicts = metric_name == "bypass"

    def process_results(self, doc: dict[str, Any], results: Any) -> dict[str, Any]:
        """The metrics of one document."""
        if self._only_predicts:
            found: dict[str, Any] = super().process_results(doc, results)
            return found
        found = of_document(results[0], self._k, every_key=self._ranks > 1)
        return {name: value for name, value in found.items() if name in self._known}

    def dump_config(self) -> dict[str, Any]:
        """lm-eval's configuration of the task, with how many runs were judged once that is known."""
        dumped: dict[str, Any] = super().dump_config()
        if self._breakdown.found is not None and numbers(installed() or "") >= _DUMPED_LAST_FROM:
            dumped["metadata"] = {**(dumped.get("metadata") or {}), "deepgym": self._breakdown.found}
        return dumped

    def graded(
        self, responses: Sequence[Sequence[str]], docs: Sequence[dict[str, Any]]
    ) -> list[list[Graded]]:
        """Every repeat of every document, judged in one batch."""
        repeats = self.config.repeats
        # A rank with fewer documents than others gets its last one's answers more than once.
        kept = [list(said[:repeats]) for said in responses]
        _warn_of_copies(self.task_name, kept)
        pairs = []
        for said, doc in zip(kept, docs, strict=True):
            environment = self.environments[doc["task_id"]]
            pairs += [(environment, code_of(environment, str(text), self._chat)) for text in said]
        runs = iter(self._grader.grade(pairs, self.task_name))
        graded = [[next(runs) for _ in said] for said in kept]
        names = {name for document in graded for name in of_document(document, self._k)}
        self._known = on_any_rank(names, metric_names(self._k), self._ranks)
        return graded


class JudgedMean:
    """lm-eval's ``mean`` of what was judged, for the gathered values of several ranks.

    ``None`` is dropped from the list itself, because lm-eval computes the standard error of ``mean`` from it
    next; so this counts as ``mean`` where it looks that up. ``nan`` if nothing is left.
    """

    def __call__(self, values: list[float | None]) -> float:
        judged = [value for value in values if value is not None]
        values[:] = judged
        return fmean(judged) if judged else float("nan")

    def __eq__(self, other: object) -> bool:
        return other is mean or isinstance(other, JudgedMean)

    def __hash__(self) -> int:
        return hash(mean)


class _Grading(Filter):  # type: ignore[misc]
    def __init__(self, task: DeepGymTask) -> None:
        self._task = task

    def apply(self, resps: Any, docs: Any) -> Any:
        return resps if self._task._only_predicts else self._task.graded(resps, docs)


@cache
def shared_grader() -> Grader:
    """The grader of all tasks that were given none."""
    return Grader()


def group_metrics() -> list[dict[str, Any]]:
    """What lm-eval aggregates over a group: means of its suites, each counting as much as any other.

    Nothing where lm-eval would put the standard error of another mean beside them.
    """
    if numbers(installed() or "") < _GROUPS_FROM:
        return []
    names = (VERDICT, SCORE, PASS)
    return [{"metric": name, "aggregation": "mean", "weight_by_size": False} for name in names]


def _defaults(metrics: Sequence[str], repeats: int) -> dict[str, Any]:
    sampled = {"do_sample": True, "temperature": TEMPERATURE} if repeats > 1 else {"do_sample": False}
    return {
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "prompt",
        "doc_to_target": "",
        "num_fewshot": 0,
        # Not callable: the method of this name is what computes them.
        "process_results": FILTER,
        "metric_list": [
            {"metric": name, "aggregation": "mean", "higher_is_better": name != NO_VERDICT}
            for name in metrics
        ],
        "metadata": {"version": _VERSION},
        "generation_kwargs": {"until": [], "max_gen_toks": _MAX_GEN_TOKS, **sampled},
    }


def _warn_of_copies(task: str, responses: Sequence[Sequence[str]]) -> None:
    several = [said for said in responses if len(said) > 1]
    copies = sum(len(set(said)) == 1 for said in several)
    if 2 * copies > len(several):
        logger.warning(
            "%s: all completions of %d of %d documents are identical, so pass@k says no more than pass@1. "
            "lm-eval sends the same seed with every request to a server; --gen_kwargs seed=None sends none. "
            "And the temperature must be above 0",
            task,
            copies,
            len(several),
        )
