"""A model of your own on DeepGym's tasks. This one needs no GPU and no network: it knows the answers.

    pip install "deepgym[lm-eval]==1.0.0" "lm-eval>=0.4.10,<0.5"
    python own_model.py

It answers one task wrongly, and the run of another is lost, as if the sandbox's provider had failed. The
table of lm-eval has the scores of what was judged; below it stands what became of each document.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import lm_eval
from lm_eval.api.model import LM
from lm_eval.utils import make_table

from deepgym import DeepGym, load_suite
from deepgym.contract.evidence import Phase
from deepgym.providers.local import LocalProvider
from deepgym.testing import Fault, FaultyProvider
from deepgym_lmeval import make_lm_eval_task, task_manager

WRONG, LOST = "to_roman", "word_counts"


class Replayed(LM):
    """lm-eval's interface of a model, as far as tasks that generate text ask for it."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__()
        self.answers = answers

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """A completion for each request. A real model would look at ``request.args``: prompt and settings."""
        return [self.answers[request.doc["task_id"]] for request in requests]

    def loglikelihood(self, requests: Any) -> Any:
        """Not asked for by tasks that generate text."""
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def main() -> None:
    """Evaluate, and print the table and the documents."""
    suite = load_suite("easy")
    answers = {environment.name: environment.reference or "" for environment in suite}
    answers[WRONG] = "def to_roman(number):\n    return 'I' * number\n"
    answers[LOST] += "\n# The run of this answer is lost.\n"
    outage = FaultyProvider(LocalProvider(), Fault("provider", Phase.OPENED), answers=[answers[LOST]])
    with DeepGym(provider=outage) as dg:
        results = lm_eval.simple_evaluate(
            model=Replayed({name: f"{code}```" for name, code in answers.items()}),
            tasks=[make_lm_eval_task(suite, dg=dg)],
            task_manager=task_manager(include_defaults=False),
        )
    print(make_table(results))
    for sample in results["samples"]["deepgym_easy"]:
        print(sample["doc"]["task_id"], sample["filtered_resps"][0][0])


if __name__ == "__main__":
    main()
